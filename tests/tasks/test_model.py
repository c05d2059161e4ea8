"""Networks that start from a file: converted, then trained."""

from __future__ import annotations

import shutil

import pytest
import torch

from pinets import create_model, resolve, spec
from pinets import tasks as recipes
from pinets.cli.app import main
from pinets.engine.run import ChangedRecipeError

RESNET = "resnet18_cifar(num_classes=10, width=8, depths=(1, 1))"
TINY = ["channels_last=no", "epochs=1", "batch=20", "data.validation=0.2", "data.limit=40"]


@pytest.fixture
def converted(tmp_path):
    file = tmp_path / "pinet.safetensors"
    assert main(["convert", RESNET, "--tanh", "--out", str(file)]) == 0
    return file


def fine_tuning(file, *changes):
    return recipes.get_recipe("cifar10_resnet18", "small", [f"model.name={file}", *TINY, *changes])


def same_weights(first, second):
    return all(torch.equal(value, second.state_dict()[name]) for name, value in first.state_dict().items())


def test_a_converted_network_is_trained_on(converted, cifar, tmp_path):
    recipe = fine_tuning(converted)
    assert recipe.model.name == f"to_pinet({RESNET}, tanh=True)"
    assert recipe.model.options == {}
    start = recipe.networks()["model"]
    assert same_weights(start, spec.load(converted)[0])
    recipes.train(recipe, tmp_path / "runs", data_dir=cifar)
    trained = resolve(recipes.run_folder(recipe, tmp_path / "runs").path, data_dir=cifar).network
    moved = {name for name, value in trained.named_parameters() if not torch.equal(value, start.get_parameter(name))}
    assert any(name.endswith("alpha") for name in moved)


def test_what_was_trained_is_used_without_the_file_it_started_from(converted, cifar, tmp_path):
    recipe = fine_tuning(converted)
    result = recipes.train(recipe, tmp_path / "runs", data_dir=cifar)
    converted.unlink()
    folder = recipes.run_folder(recipe, tmp_path / "runs").path
    assert resolve(folder, data_dir=cifar).expression == f"to_pinet({RESNET}, tanh=True)"
    assert recipes.evaluate(folder, data_dir=cifar) == pytest.approx(result["test"])


def test_a_run_with_fewer_blocks_knows_what_builds_it(cifar, tmp_path):
    text = f"to_pinet({RESNET}, depths=[1, 1])"
    recipe = recipes.get_recipe("cifar10_resnet18", "small", [*TINY, f"model.name={text}"])
    recipes.train(recipe, tmp_path / "runs", data_dir=cifar)
    assert resolve(recipes.run_folder(recipe, tmp_path / "runs").path, data_dir=cifar).expression == text


def test_a_run_is_converted_with_its_weights(cifar, tmp_path, capsys):
    recipe = recipes.get_recipe("cifar10_resnet18", "small", [*TINY, f"model.name={RESNET}"])
    recipes.train(recipe, tmp_path / "runs", data_dir=cifar)
    folder, file = recipes.run_folder(recipe, tmp_path / "runs").path, tmp_path / "pinet.safetensors"
    assert main(["convert", str(folder), "--out", str(file)]) == 0
    assert "largest difference of outputs: 0\n" in capsys.readouterr().out
    x, trained = torch.randn(2, 3, 32, 32), resolve(folder, data_dir=cifar).network
    assert torch.equal(spec.load(file)[0].eval()(x), trained(x))


@pytest.mark.parametrize("outputs", [7, 12])
def test_a_network_of_ones_own_needs_an_output_for_each_class(outputs, cifar, tmp_path):
    text = f"Sequential(Flatten(), Linear(3072, {outputs}))"
    recipe = recipes.get_recipe("cifar10_resnet18", "small", [*TINY, f"model.name={text}"])
    with pytest.raises(ValueError, match=rf"gives shape \(1, {outputs}\) for one input, and 10 classes need \(1, 10\)"):
        recipes.train(recipe, tmp_path / "runs", data_dir=cifar)


def test_a_recipe_that_starts_from_a_file_is_kept_and_read(converted):
    recipe = fine_tuning(converted)
    assert recipes.recipe_from_json(recipes.to_json(recipe)) == recipe


def test_a_changed_file_is_noticed_when_a_run_goes_on_or_is_repeated(converted, cifar, tmp_path):
    recipe = fine_tuning(converted)
    recipes.train(recipe, tmp_path / "runs", data_dir=cifar)
    model, metadata = spec.load(converted)
    model.get_parameter("conv1.weight").data += 1
    spec.save(converted, model, metadata["model"])
    with pytest.raises(ChangedRecipeError, match=r"model\.weights was .*@sha256:"):
        recipes.train(fine_tuning(converted), tmp_path / "runs", data_dir=cifar, resume=True)
    with pytest.raises(ValueError, match=r"pinet\.safetensors has changed since the recipe was made: its SHA-256 was"):
        recipe.networks()
    converted.unlink()
    with pytest.raises(ValueError, match=r"there is no file .*pinet\.safetensors"):
        recipe.networks()


def test_other_classes_get_a_new_head(converted):
    start = spec.load(converted)[0]
    network = fine_tuning(converted, "data.classes=3").networks()["model"]
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 3)
    assert torch.equal(network.get_parameter("layer1.0.conv1.weight"), start.get_parameter("layer1.0.conv1.weight"))


def test_a_registered_model_starts_from_weights(tmp_path):
    first, second = (create_model("resnet18_cifar", num_classes=10, width=8) for _ in range(2))
    for file, model in {"first.pth": first, "second.pth": second}.items():
        torch.save(model.state_dict(), tmp_path / file)
    changes = ["model.width=8", f"model.weights={tmp_path}/first.pth"]
    recipe = recipes.get_recipe("cifar10_resnet18", "full", changes)
    assert same_weights(recipe.networks()["model"], first)
    other = recipes.set_values(recipe, [f"model.weights={tmp_path}/second.pth"])
    assert same_weights(other.networks()["model"], second)
    wider = recipes.set_values(recipe, ["model.width=16"])
    with pytest.raises(ValueError, match=r"first\.pth does not hold the weights .* conv1\.weight should have shape"):
        wider.networks()


def test_a_file_that_cannot_be_started_from_is_refused_by_key_and_name(converted, tmp_path):
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(converted.read_bytes()[:100])
    with pytest.raises(recipes.RecipeError, match=r"model\.name: .*cut\.safetensors is not a complete safetensors"):
        fine_tuning(cut)
    with pytest.raises(recipes.RecipeError, match=r"model\.name: there is no file nowhere\.safetensors"):
        fine_tuning("nowhere.safetensors")
    with pytest.raises(recipes.RecipeError, match=r"model\.weights: there is no file nowhere\.safetensors"):
        recipes.get_recipe("cifar10_resnet18", "full", ["model.weights=nowhere.safetensors"])
    with pytest.raises(recipes.RecipeError, match=r"model\.width: to_pinet\(.* takes no 'width'"):
        fine_tuning(converted, "model.width=8")


def test_a_file_without_an_expression_needs_the_name_of_its_model(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from pinets import create_model\ndef net(): return create_model('resnet18_cifar', width=8, depths=(1, 1))\n"
    )
    file = tmp_path / "pinet.safetensors"
    assert main(["convert", f"{tmp_path}/mine.py:net", "--out", str(file)]) == 0
    with pytest.raises(recipes.RecipeError, match=r"model\.name: .* does not say which model it holds"):
        fine_tuning(file)
    moved = shutil.copy(file, tmp_path / "moved.safetensors")
    changes = [f"model.name=to_pinet({RESNET})", f"model.weights={moved}"]
    assert recipes.get_recipe("cifar10_resnet18", "small", changes).networks()["model"].num_classes == 10


@pytest.mark.parametrize(
    "change, told",
    [
        (
            "model.num_classes=5",
            r"model: the network gives shape \(1, 5\) for one input, and 10 classes need \(1, 10\)",
        ),
        ("model.in_channels=1", r"model: the network does not take inputs of shape \(3, 32, 32\)"),
    ],
)
def test_a_network_that_does_not_fit_the_data_is_refused_before_it_is_trained(cifar, tmp_path, change, told):
    recipe = recipes.get_recipe("cifar10_resnet18", "small", ["model.width=8", *TINY, change])
    with pytest.raises(ValueError, match=told):
        recipes.train(recipe, tmp_path / "runs", data_dir=cifar)
    assert not (tmp_path / "runs").exists()
