"""Recipes of generators: what they promise, and the way from training to samples."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
import torch
from PIL import Image

from pinets import tasks as recipes
from pinets.cli import main
from pinets.engine.run import RunFolder
from pinets.report import summarize, text_table, write_report
from pinets.tasks import generation
from pinets.tasks.generation.metrics import PROTOCOLS
from pinets.tasks.generation.report import degree_sizes
from pinets.tasks.run_report import about_run

GROUPS = [
    [f"fashion_{kind}" for kind in ("ncp", "ccp", "ncp_skip", "linear")],
    [f"yaleb_{kind}" for kind in ("ncp", "ccp", "ncp_skip", "linear")],
    ["cifar10_sngan", "cifar10_sngan_ncp", "cifar10_sngan_prodpoly"],
    ["ffhq256_stylegan", "ffhq256_stylegan_prodpoly"],
]


@pytest.mark.parametrize("scale", ["full", "small"])
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
def test_what_is_compared_differs_in_its_generator_only(group, scale):
    first, *others = (recipes.to_json(recipes.get_recipe(name, scale)) for name in group)
    for other in others:
        assert {key for key in first if first[key] != other[key]} == {"name", "model"}
        options = [model["options"] | {"width": None} for model in (first["model"], other["model"])]
        assert options[0] == options[1]


@pytest.mark.parametrize("scale", ["full", "small"])
@pytest.mark.parametrize("data", ["fashion", "yaleb"])
def test_the_generators_without_activations_are_of_one_size(data, scale):
    made = [recipes.get_recipe(f"{data}_{kind}", scale) for kind in ("ncp", "ccp", "ncp_skip")]
    with torch.device("meta"):
        sizes = [sum(weight.numel() for weight in recipe.model.build().parameters()) for recipe in made]
    assert max(sizes) < 1.12 * min(sizes)


def test_the_known_values_of_sngan():
    made = recipes.get_recipe("cifar10_sngan")
    assert made.epochs * made.steps_per_epoch == 50_000
    assert (made.batch, made.generator_batch, made.discriminator_steps) == (64, 128, 5)
    assert (made.optimizer.lr, made.optimizer.betas) == (2e-4, (0.0, 0.9))
    assert made.metric == "fid50k_train,is50k_10splits"  # Table 3 has both


def test_a_recipe_trains_and_can_be_sampled_from(tiny, run):
    result = RunFolder(run).result()
    assert result["steps"] == 4
    assert set(result["parameters"]) == {"model", "generator", "discriminator"}
    assert result["parameters"]["model"] == 0  # an average is not learnt
    images = generation.sample(run, 5, seed=3)
    assert images.shape == (5, 1, 32, 32)
    assert torch.equal(generation.sample(run, 5, seed=3), images)
    for more in (9, 70):
        assert torch.equal(generation.sample(run, more, seed=3)[:5], images)
    assert not torch.equal(generation.sample(run, 5, seed=4), images)


def test_resume_is_bit_for_bit(tiny, fashion, run, tmp_path):
    """The whole recipe, with its data: the last step is done again."""
    saved = run / "checkpoints" / "step-00000004" / "shared.safetensors"
    expected = saved.read_bytes()
    saved.unlink()
    (run / "result.json").unlink()
    recipes.train(tiny, tmp_path / "runs", data_dir=fashion, resume=True)
    assert saved.read_bytes() == expected


class Corners:
    """Features that take no time."""

    name, num_features, fc = "corners", 4, None

    def __call__(self, images):
        return images[:, 0, 8:10, 8:10].flatten(1).float()

    def to(self, device):
        return self


@pytest.fixture
def corners(monkeypatch, tmp_path):
    for module in ("metrics.evaluation", "measurement"):
        monkeypatch.setattr(f"pinets.tasks.generation.{module}.load_inception", lambda data_dir: Corners())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def measured(tiny, fashion, tmp_path, corners, monkeypatch):
    """A run that was tested by a protocol, with few samples so that it is quick."""
    few = replace(PROTOCOLS["fid10k_test"], samples=40), replace(PROTOCOLS["fid5k"], samples=30)
    monkeypatch.setitem(PROTOCOLS, "fid10k_test", few[0])
    monkeypatch.setitem(PROTOCOLS, "fid5k", few[1])
    recipes.train(replace(tiny, metric="fid10k_test", validation_metric="fid5k"), tmp_path, data_dir=fashion)
    return tmp_path / "fashion_ncp-small" / "seed-0"


def test_the_protocol_is_kept_and_reported_with_its_numbers(measured, tmp_path):
    told = "fid10k_test: 40 samples against 20 images of fashion_mnist/test, padded by 2, features corners"
    result = RunFolder(measured).result()
    assert result["protocol"] == told
    assert set(result["test"]) == set(result["validation"]) == {"fid", "kid", "kid_std", "precision", "recall"}
    assert text_table([summarize("fashion", [RunFolder(measured)])]).endswith(f"measured by {told}")
    write_report({"fashion": [RunFolder(measured)]}, tmp_path / "report.html")
    assert told in (tmp_path / "report.html").read_text()


class Classes(Corners):
    """Features that can be told apart, too."""

    fc = torch.nn.Identity()

    def log_probabilities(self, features):
        return features.log_softmax(dim=1)


def few_samples(monkeypatch, **counts):
    for name, count in counts.items():
        monkeypatch.setitem(PROTOCOLS, name, replace(PROTOCOLS[name], samples=count))


BOTH = "fid10k_test,is50k_10splits"


def test_several_protocols_give_what_each_gives_alone(tiny, fashion, tmp_path, corners, monkeypatch, capsys):
    few_samples(monkeypatch, fid10k_test=40, is50k_10splits=40)
    for module in ("metrics.evaluation", "measurement"):
        monkeypatch.setattr(f"pinets.tasks.generation.{module}.load_inception", lambda data_dir: Classes())
    results = {
        metric: recipes.train(replace(tiny, metric=metric), tmp_path / metric, data_dir=fashion)
        for metric in (BOTH, *BOTH.split(","))
    }
    together, distances, score = results.values()
    assert together["test"] == distances["test"] | score["test"]
    assert {"fid", "inception_score"} <= together["test"].keys()
    assert together["protocol"] == f"{distances['protocol']}; {score['protocol']}"
    run = recipes.run_folder(tiny, tmp_path / BOTH).path
    assert generation.measure(run, "fid10k_test", data_dir=fashion).values == pytest.approx(distances["test"])
    assert main(["eval", str(run), "--protocol", "fid10k_test", "--truncation", "0.5", "--data", str(fashion)]) == 0
    nearer = json.loads(capsys.readouterr().out)
    assert nearer["protocol"] == "fid10k_test, truncation 0.5"
    assert nearer["values"] != distances["test"]
    with pytest.raises(ValueError, match="names several metrics, fid10k_test, is50k_10splits: choose one of them"):
        generation.measure(run, data_dir=fashion)
    assert main(["eval", str(run), "--data", str(fashion)]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["values"] == pytest.approx(distances["test"])
    assert second["values"] == pytest.approx(score["test"])


def test_the_score_is_left_out_with_a_note_where_weights_have_no_last_layer(
    tiny, fashion, tmp_path, corners, monkeypatch, capsys
):
    few_samples(monkeypatch, fid10k_test=40)
    result = recipes.train(replace(tiny, metric=BOTH), tmp_path, data_dir=fashion)
    assert "fid" in result["test"]
    assert "inception_score" not in result["test"]
    run = recipes.run_folder(tiny, tmp_path)
    told = "is50k_10splits not measured: the weights of Inception have no last layer (fc); put https://"
    assert told in run.result()["protocol"]
    assert told in text_table([summarize("fashion", [run])])
    assert main(["eval", str(run.path), "--data", str(fashion)]) == 0
    out, err = capsys.readouterr()
    assert [result["protocol"] for result in json.loads(out)] == ["fid10k_test"]
    assert "is50k_10splits not measured: the Inception score needs the network's last layer (fc)" in err


def test_how_it_is_measured_does_not_change_what_is_trained(tiny, fashion, run, tmp_path, corners, monkeypatch):
    """Reading Inception draws random numbers, for weights that are replaced."""
    few_samples(monkeypatch, fid10k_test=40)
    monkeypatch.setattr(
        "pinets.tasks.generation.measurement.load_inception", lambda data_dir: (torch.rand(1), Corners())[1]
    )
    recipes.train(replace(tiny, metric="fid10k_test"), tmp_path, data_dir=fashion)
    assert torch.equal(generation.sample(recipes.run_folder(tiny, tmp_path).path, 4), generation.sample(run, 4))


def test_what_a_metric_lacks_is_told_before_training(tiny, fashion, tmp_path, corners, monkeypatch):
    def missing(data_dir):
        raise FileNotFoundError("no weights")

    alone = replace(tiny, metric="is50k_10splits")
    with pytest.raises(
        FileNotFoundError, match=r"is50k_10splits cannot be measured: .* no last layer \(fc\); put https"
    ):
        recipes.train(alone, tmp_path / "runs", data_dir=fashion)
    monkeypatch.setattr("pinets.tasks.generation.measurement.load_inception", missing)
    for recipe in (replace(tiny, metric="fid5k"), replace(tiny, validation_metric="fid5k")):
        with pytest.raises(FileNotFoundError, match="no weights"):
            recipes.train(recipe, tmp_path / "runs", data_dir=fashion)
    for number in range(40):
        Image.new("RGB", (32, 32), (number, 0, 0)).save(tmp_path / f"{number}.png")
    pictures = ["data.name=pictures", "data.size=32", "data.pad=0", "model.channels=3", "discriminator.channels=3"]
    unlabelled = recipes.set_values(tiny, [*pictures, "metric=fid_small"])
    with pytest.raises(ValueError, match="fid_small trains a classifier, and pictures/train, 32x32 has no labels"):
        recipes.train(unlabelled, tmp_path / "runs", data_dir=tmp_path)
    assert not (tmp_path / "runs").exists()


def test_a_run_is_measured_again_by_its_protocol_or_another(measured, fashion, capsys):
    data = ["--data", str(fashion)]
    assert main(["eval", str(measured), *data]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["values"] == RunFolder(measured).result()["test"]
    assert (again["protocol"], again["reference_images"]) == ("fid10k_test", 20)
    assert main(["eval", str(measured), "--protocol", "fid5k", "--samples", "25", *data]) == 0
    other = json.loads(capsys.readouterr().out)
    assert (other["protocol"], other["samples"], other["reference_images"]) == ("fid5k with 25 samples", 25, 60)
    assert main(["eval", str(measured), "--split", "validation", *data]) == 0
    validation = json.loads(capsys.readouterr().out)["validation"]
    assert validation == pytest.approx(RunFolder(measured).result()["validation"])
    assert main(["eval", str(measured), "--reference", "cifar10"]) == 2
    assert "a run is compared with its own data" in capsys.readouterr().err


def test_a_run_without_a_metric_needs_a_protocol(run, fashion, capsys):
    assert main(["eval", str(run), "--data", str(fashion)]) == 1
    assert "names no metric: choose a protocol" in capsys.readouterr().err


def test_a_checkpoint_of_another_architecture_is_refused_and_nothing_lost(tiny, run, capsys):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    recipe = run / "recipe.json"
    recipe.write_text(recipe.read_text().replace('"width": 2', '"width": 3', 1))
    assert main(["sample", str(run)]) == 1
    assert "belongs to another recipe" in capsys.readouterr().err
    recipe.write_bytes(before[recipe])
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_model_that_is_built_otherwise_now_is_refused_by_file_and_tensor(tiny, run, capsys, monkeypatch):
    build = generation.Network.build
    wider = recipes.set_values(tiny, ["model.width=4"]).model
    monkeypatch.setattr(generation.Network, "build", lambda network: build(wider))
    assert main(["sample", str(run)]) == 1
    error = capsys.readouterr().err
    assert "step-00000004/shared.safetensors is of another model: model." in error
    assert "should have shape (256, 4), has (128, 4)" in error


def test_the_report_shows_the_newest_samples(run, tmp_path):
    write_report({"fashion": [RunFolder(run)]}, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 1
    assert "samples at step 4" in page


def test_the_report_of_a_run_shows_its_degrees_beside_real_images(run, tmp_path, fashion, chromium):
    about = partial(about_run, data_dir=fashion)
    write_report({"fashion": [RunFolder(run)]}, tmp_path / "report.html", about=about)
    page = chromium(tmp_path / "report.html")
    titles = page.locator("h2").all_text_contents()
    assert {"Samples during training", "Real images", "What each degree adds"} <= set(titles)
    assert page.locator(".stages img").count() == 3  # two evaluations, and the degrees
    assert page.get_by_text("is a polynomial of degree 6 in its noise").count() == 1


def test_the_size_of_a_degree_is_its_root_mean_square():
    parts = torch.tensor([[[3.0, 4.0]], [[0.0, 0.0]]])  # two degrees of one sample
    assert degree_sizes(parts) == pytest.approx([12.5**0.5, 0.0])


@pytest.mark.parametrize("changes", [[], ["loss=Wasserstein"]])
def test_a_gradient_penalty_is_not_compiled(changes):
    with pytest.raises(recipes.RecipeError, match="needs second derivatives: set compile=no"):
        recipes.get_recipe("ffhq256_stylegan", "small", [*changes, "compile=yes"])
    assert recipes.get_recipe("ffhq256_stylegan", "small", ["loss=Hinge", "compile=yes"]).compile


def test_all_but_the_test_images_of_a_folder_are_trained_on(tmp_path, monkeypatch):
    for number in range(40):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number}.png")
    pictures = generation.Pictures("pictures", size=8)
    in_memory = pictures.load(tmp_path)
    monkeypatch.setattr("pinets.data.sets.folders._IN_MEMORY", 0)
    from_files = pictures.load(tmp_path)
    for one, other in ((in_memory.train, from_files.train), (in_memory.test, from_files.test)):
        found = [part.read(torch.arange(len(part)), torch.empty(len(part), 0))[:, 0, 0, 0] for part in (one, other)]
        assert found[0].equal(found[1])
    assert (len(from_files.train), len(from_files.test)) == (36, 4)
    with pytest.raises(ValueError, match="pad is for images that are held in memory"):
        generation.Pictures("pictures", size=8, pad=1).load(tmp_path)


@pytest.mark.parametrize("change, made", [("model.channels=3", "3, 32, 32"), ("model.size=16", "1, 16, 16")])
def test_a_generator_of_other_images_than_the_data_is_refused(tiny, fashion, tmp_path, change, made):
    wrong = recipes.set_values(tiny, [change])
    with pytest.raises(ValueError, match=rf"makes images of \({made}\) and the data are of \(1, 32, 32\)"):
        recipes.train(wrong, tmp_path / "runs", data_dir=fashion)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("change", ["discriminator.channels=3", "discriminator.size=16", "discriminator.size=64"])
def test_a_discriminator_of_other_images_than_the_data_is_refused(tiny, fashion, tmp_path, change):
    wrong = recipes.set_values(tiny, [change])
    told = r"discriminator does not take the images, which are of \(1, 32, 32\).*change discriminator\.channels or"
    with pytest.raises(ValueError, match=told):
        recipes.train(wrong, tmp_path / "runs", data_dir=fashion)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "change, message",
    [
        ("metric=fid5k,fid2k", "values of these protocols have the same names"),
        ("metric=fid5k,is50k", "no protocol 'is50k'"),
        ("accumulate=2", "accumulate must be 1, got 2"),
        ("average=1.0", "average must be at least 0 and below 1, got 1"),
        ("metric=fid5", "no protocol 'fid5'; did you mean 'fid5k'"),
        ("discriminator_steps=0", "discriminator_steps must be at least 1, got 0"),
        ("model.widht=3", "no argument 'widht'; did you mean 'width'"),
        ("loss=Hing", "loss must be Hinge"),
    ],
)
def test_wrong_values_are_refused(change, message):
    with pytest.raises(recipes.RecipeError, match=message):
        recipes.get_recipe("fashion_ncp", "full", [change])
