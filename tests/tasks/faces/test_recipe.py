"""The recipes of faces, on tiny sets in the formats people have."""

from __future__ import annotations

import io
import json
import pickle

import pytest
import torch
from PIL import Image

from pinets import resolve
from pinets import tasks as recipes
from pinets.cli import main
from pinets.data import DataError, MissingDataError
from pinets.engine.loop import make_accelerator

PEOPLE = [f"Person_{number}" for number in range(12)]
TINY = ["model.width=8", "channels_last=no", "model.depths=1,1", "model.embedding=16", "epochs=2", "batch=8"]


def jpeg(person, number):
    """A colour for each person, and noise for each image."""
    generator = torch.Generator().manual_seed(100 * person + number)
    colour = torch.tensor([20 * person, 240 - 20 * person, (60 * person) % 256]).view(3, 1, 1)
    pixels = (colour + torch.randint(-15, 15, (3, 16, 16), generator=generator)).clamp(0, 255).to(torch.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def write_people(folder, people, images=4):
    for name in people:
        (folder / name).mkdir(parents=True)
        for number in range(1, images + 1):
            (folder / name / f"{name}_{number:04d}.jpg").write_bytes(jpeg(PEOPLE.index(name), number))


@pytest.fixture
def ms1m(tmp_path):
    """People in folders, one image damaged, and a pack of pairs."""
    folder = tmp_path / "data" / "ms1m-retinaface-t1"
    write_people(folder, PEOPLE[:8])
    (folder / PEOPLE[3] / f"{PEOPLE[3]}_0002.jpg").write_bytes(b"no image")
    images, same = [], []
    for number in range(20):
        first, other = number % 4 + 8, (number + 1) % 4 + 8
        images += [jpeg(first, number), jpeg(first if number % 2 else other, number + 50)]
        same.append(bool(number % 2))
    for name in ("lfw", "agedb_30"):
        (folder / f"{name}.bin").write_bytes(pickle.dumps((images, same)))
    return tmp_path / "data"


@pytest.fixture
def lfw(tmp_path):
    folder = tmp_path / "data" / "lfwcrop"
    write_people(folder / "lfw", PEOPLE)
    for name, some in {"pairsDevTrain.txt": PEOPLE[:8], "pairsDevTest.txt": PEOPLE[8:]}.items():
        same = [f"{person}\t{image}\t{image + 1}" for person in some for image in (1, 2)]
        other = [f"{person}\t{image}\t{some[number - 1]}\t2" for number, person in enumerate(some) for image in (1, 2)]
        (folder / name).write_text("\n".join([str(len(same)), *same, *other]) + "\n")
    return tmp_path / "data"


def test_the_papers_values():
    made = recipes.get_recipe("ms1m_arcface_prodpoly_resnet50")
    assert (made.loss.scale, made.loss.margin, made.batch, made.epochs) == (64, 0.5, 512, 30)
    assert (made.optimizer.lr, made.optimizer.momentum, made.optimizer.weight_decay) == (0.1, 0.9, 5e-4)
    steps_per_epoch = 5_179_510 // 512
    drops = [
        step
        for step in range(1, 300_000)
        if _rate(made, step, steps_per_epoch) < _rate(made, step - 1, steps_per_epoch)
    ]
    assert drops == [100_000, 160_000, 220_000]


def _rate(recipe, step, steps_per_epoch):
    return recipe.schedule.at(step / steps_per_epoch, recipe.epochs)


@pytest.mark.parametrize(
    "name, parameters", [("ms1m_arcface_resnet50", 43_590_848), ("ms1m_arcface_prodpoly_resnet50", 45_384_256)]
)
def test_the_papers_sizes(name, parameters):
    with torch.device("meta"):
        network = recipes.get_recipe(name).networks()["model"]
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters


@pytest.mark.parametrize("scale", ["full", "small"])
@pytest.mark.parametrize(
    "pair", [("ms1m_arcface_resnet50", "ms1m_arcface_prodpoly_resnet50"), ("lfw_iresnet", "lfw_prodpoly_iresnet")]
)
def test_a_pair_differs_in_its_model_only(pair, scale):
    first, second = (recipes.to_json(recipes.get_recipe(name, scale)) for name in pair)
    assert {key for key in first if first[key] != second[key]} == {"name", "model"}
    assert first["model"]["options"] == second["model"]["options"]


@pytest.mark.parametrize(
    "change, message",
    [
        ("sample=0", "sample must be above 0 and at most 1, got 0"),
        ("data.validation=1", r"data\.validation: validation must be above 0 and below 1, got 1"),
        ("data.turn=-5", r"data\.turn: turn must be at least 0, got -5"),
        ("data.smallest=0", r"data\.smallest: smallest must be at least 1, got 0"),
    ],
)
def test_values_out_of_range_are_refused(change, message):
    with pytest.raises(recipes.RecipeError, match=message):
        recipes.get_recipe("lfw_iresnet", "small", [change])


def test_a_large_set_with_a_damaged_image(ms1m, tmp_path, capsys):
    changes = [*TINY, "model.size=16", "data.size=16", "sample=0.5"]
    recipe = recipes.get_recipe("ms1m_arcface_prodpoly_resnet50", "full", changes)
    result = recipes.train(recipe, tmp_path / "runs", data_dir=ms1m)
    assert set(result["test"]) >= {"lfw_accuracy", "agedb_30_accuracy"}
    assert result["validation"]["damaged_images"] == 1
    assert f"{PEOPLE[3]}_0002.jpg: cannot be decoded" in capsys.readouterr().err
    log = (tmp_path / "runs" / recipe.name / "seed-0" / "metrics.jsonl").read_text()
    rows = [json.loads(line) for line in log.splitlines()]
    assert sum(row["split"] == "validation" for row in rows) == 2
    again = recipes.evaluate(tmp_path / "runs" / recipe.name / "seed-0", data_dir=ms1m)
    assert again == pytest.approx(result["test"])
    found = resolve(tmp_path / "runs" / recipe.name / "seed-0")  # also without the data
    known = found.preprocessing
    assert found.input_shape == (3, 16, 16)
    assert [(10 / known["maximum"] - m) / s for m, s in zip(known["mean"], known["std"], strict=True)] == [
        pytest.approx((10 - 127.5) / 128)
    ] * 3


def test_a_strict_run_ends_at_the_damaged_image(ms1m, tmp_path):
    changes = [*TINY, "model.size=16", "data.size=16", "data.strict=true"]
    with pytest.raises(ValueError, match=r"Person_3_0002\.jpg: cannot be decoded"):
        recipes.train(recipes.get_recipe("ms1m_arcface_resnet50", "full", changes), tmp_path / "runs", data_dir=ms1m)


@pytest.mark.parametrize("name", ["lfw", "calfw"], ids=["validation", "test"])
@pytest.mark.parametrize("broken", [b"no image", jpeg(0, 0)[:-100]], ids=["none", "cut short"])
def test_a_broken_image_of_a_pack_is_told_before_training(ms1m, tmp_path, name, broken):
    images = [jpeg(0, 0), jpeg(0, 1), jpeg(1, 0), broken]
    pack = ms1m / "ms1m-retinaface-t1" / f"{name}.bin"
    pack.write_bytes(pickle.dumps((images, [True, False])))
    recipe = recipes.get_recipe("ms1m_arcface_resnet50", "full", [*TINY, "model.size=16", "data.size=16"])
    with pytest.raises(DataError, match=rf"{name}\.bin, image 3: cannot be decoded"):
        recipe.build(recipe.load(ms1m), make_accelerator())


def test_missing_packs_are_named(ms1m, tmp_path):
    for path in ms1m.rglob("*.bin"):
        path.unlink()
    with pytest.raises(MissingDataError, match=r"none of the packs of pairs lfw, cfp_fp, agedb_30 \(as lfw\.bin\)"):
        recipes.train(recipes.get_recipe("ms1m_arcface_resnet50", "full", TINY), tmp_path / "runs", data_dir=ms1m)


LIGHTS = ("A+000E+00", "A-020E-10", "A+035E-20", "A-070E+00", "A+110E+65")  # one of each subset


def write_yaleb(folder, people=3):
    for person in range(1, people + 1):
        home = folder / "yaleb" / "CroppedYale" / f"yaleB{person:02d}"
        home.mkdir(parents=True)
        for light in LIGHTS:  # a grey for each person, in whatever light
            (home / f"{home.name}_P00{light}.pgm").write_bytes(b"P5 16 16 255\n" + bytes([70 * person]) * 256)


def test_lfw_is_one_command(lfw, tmp_path, capsys):
    write_yaleb(lfw)
    options = [
        word
        for change in [*TINY, "model.size=16", "data.size=16", "data.validation=0.25"]
        for word in ("--set", change)
    ]
    command = ["reproduce", "faces", "--scale", "small", "--seeds", "2", *options, "--pages", str(tmp_path / "pages")]
    assert main([*command, "--data", str(lfw), "--out", str(tmp_path / "runs")]) == 0, capsys.readouterr().err
    page = (tmp_path / "pages" / "faces-small.md").read_text()
    assert "view1 accuracy" in page
    assert "(faces-small-roc-view1.svg)" in page
    assert "true accept rate" in (tmp_path / "pages" / "faces-small-roc-view1.svg").read_text()
    assert "| Prodpoly-IR-ResNet | 100.00 ± 0.00 | 100.00 ± 0.00 |" in page  # the same image in every light


def test_the_report_of_a_run_shows_its_pairs(lfw, tmp_path, capsys):
    changes = [*TINY, "model.size=16", "data.size=16", "data.validation=0.25"]
    options = [word for change in changes for word in ("--set", change)]
    command = [
        "train",
        "lfw_iresnet",
        "--scale",
        "small",
        *options,
        "--data",
        str(lfw),
        "--out",
        str(tmp_path / "runs"),
    ]
    assert main(command) == 0, capsys.readouterr().err
    (run,) = (tmp_path / "runs").glob("*/seed-0")
    test = json.loads((run / "result.json").read_text())["test"]
    page = (run / "report.html").read_text()
    accuracy, deviation = (100 * test[f"view1_{name}"] for name in ("accuracy", "deviation"))
    assert f"16 of 16 pairs of view1: accuracy {accuracy:.3f} ± {deviation:.3f} %." in page  # as the run measured them
    assert "ROC of view1" in page
    assert "similarities of pairs of one person and of two" in page
    assert page.count("data:image/png;base64,") == 1  # the sheet of the hardest


def test_faces_are_packed_from_the_command_line(ms1m, tmp_path, capsys):
    source, shards = str(ms1m / "ms1m-retinaface-t1"), str(tmp_path / "shards")
    assert main(["pack", source, shards, "--per-shard", "10"]) == 0
    shown = capsys.readouterr()
    assert "31 images of 8 identities in 4 shards; 1 could not be read" in shown.out
    assert f"{PEOPLE[3]}_0002.jpg: cannot be decoded" in shown.err
    assert main(["pack", source, str(tmp_path / "more"), "--strict"]) == 1
    assert "cannot be decoded" in capsys.readouterr().err
