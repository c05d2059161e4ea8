"""One answer to "which network?" for every verb."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch
from torch import nn

from pinets import resolve, spec
from pinets._resolve import ResolveError
from pinets.cli import main
from pinets.data import DATA_SETS

LONG = f"Sequential({'Identity(), ' * 40}CCP(4, 2, rank=3, order=2))"  # no path has as many letters
NETS = """
import torch
from torch import nn
import beside

class Square(nn.Module):
    def __init__(self, features=4, out=2):
        super().__init__()
        self.linear = nn.Linear(features, out)

    def forward(self, x):
        return self.linear(x) ** 2

made = nn.Linear(3, 5)
number = 3
"""


@pytest.fixture
def nets(tmp_path):
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "nets.py").write_text(NETS)
    return tmp_path / "nets.py"


def test_an_expression_has_the_same_random_weights_each_time():
    before = torch.get_rng_state()
    first, second = resolve("CCP(4, 2, rank=3, order=2)"), resolve("CCP(4, 2, rank=3, order=2)")
    assert torch.equal(torch.get_rng_state(), before)
    for name, weight in first.network.state_dict().items():
        assert torch.equal(second.network.state_dict()[name], weight)
    assert first.expression == "CCP(4, 2, rank=3, order=2)"
    assert (first.run, first.recipe, first.data, first.classes, first.preprocessing) == (None,) * 5
    assert not first.network.training


def test_the_name_of_a_model_is_an_expression():
    found = resolve("resnet18_cifar")
    assert (found.expression, found.input_shape, found.shape_is_assumed) == ("resnet18_cifar()", (3, 32, 32), False)


def test_a_file_brings_its_expression_and_weights(tmp_path):
    model = spec.build("Linear(3, 2)")
    spec.save(tmp_path / "m.safetensors", model, "Linear(3, 2)")
    found = resolve(tmp_path / "m.safetensors")
    assert torch.equal(found.network.weight, model.weight)
    assert (found.expression, found.input_shape) == ("Linear(3, 2)", (3,))


@pytest.mark.parametrize(
    "text, shape",
    [
        ("{}:Square", (4,)),
        ("{}:made", (3,)),
        ("Sequential({}:Square(7, out=4), {}:Square)", (7,)),
        ("Sequential({}:made, Linear(5, 1))", (3,)),
    ],
)
def test_names_in_a_python_file_are_made_also_inside_expressions(nets, text, shape):
    found = resolve(text.replace("{}", str(nets)))
    assert found.input_shape == shape
    assert found.expression is None
    found.network(found.example())


@pytest.mark.parametrize(
    "text, message",
    [
        ("{}:Sqare", r"nets\.py has no 'Sqare'; did you mean 'Square'\?"),
        ("{}:number", r"nets\.py:number must be a module or a function that makes one, got int"),
        ("Sequential({}:made(3), Linear(5, 1))", r"this is a module already; leave the brackets out"),
        ("Sequential({}:Square(7), Linaer(2, 1))", r"unknown layer 'Linaer'; did you mean 'Linear'"),
        ("absent.py:net", r"there is no file absent\.py"),
        ("Sequential(absent.py:net)", r"there is no file absent\.py"),
        ("{}", r"nets\.py: networks are read from \.safetensors files"),
        ("runs/none", r"there is no file or folder runs/none"),
        ("houses.skop", r"there is no file or folder houses\.skop"),
        ("runs-none", r"there is no such file or folder, and as an expression"),
        ("cifar10_strict_tam", r"did you mean 'cifar10_strict_tame'\?"),
        ("tests", r"is a folder, but not that of a run"),
        ("MyNet()", r"unknown layer 'MyNet'$"),
        ("CCP(" + "1, " * 5000, r"\.\.\."),
        ("\0", "MODEL"),
    ],
    ids=lambda text: text[:20],
)
def test_what_stands_for_nothing_is_refused(nets, text, message):
    with pytest.raises(ResolveError, match=message) as caught:
        resolve(text.replace("{}", str(nets)))
    assert len(str(caught.value)) < 1000


def test_errors_name_the_column_of_the_text_that_was_given(nets):
    text = f"Sequential({nets}:Square(7), Linaer(2, 1))"
    with pytest.raises(ResolveError, match=f"column {text.index('Linaer') + 1}: "):
        resolve(text)


def test_a_file_of_a_stranger_cannot_name_python_files(nets, tmp_path):
    from safetensors.torch import save_file

    save_file({"w": torch.ones(1)}, tmp_path / "m.safetensors", metadata={"model": f"{nets}:Square()"})
    with pytest.raises(ValueError, match="cannot be used: column"):
        resolve(tmp_path / "m.safetensors")


@pytest.mark.parametrize("words", [["certify"], ["expand", "--top", "1"], ["encrypt", "plan"], ["show"]])
def test_long_expressions_are_not_taken_for_paths(words, capsys):
    assert main([*words, LONG]) == 0, capsys.readouterr().err


def test_long_expressions_are_exported(tmp_path, capsys):
    assert main(["export", LONG, "--to", "safetensors", "--out", str(tmp_path / "m.safetensors")]) == 0
    assert resolve(tmp_path / "m.safetensors").expression == LONG


@pytest.mark.parametrize(
    "expression, shape",
    [
        ("CCP(16, 4, rank=8, order=3)", (16,)),
        ("Sequential(Flatten(), NCP(784, 4, rank=8, order=2))", (784,)),
        ("NCP(3, 2, rank=4, order=2, op=Conv2d(kernel_size=3, padding=1))", (3, 8, 8)),
        ("CCP(5, 2, rank=4, order=2, op=Conv1d(kernel_size=11), head_op=Conv1d(kernel_size=1))", (5, 11)),
        ("Conv3d(2, 2, kernel_size=(1, 5, 3), dilation=4)", (2, 8, 17, 9)),
        ("ConvTranspose2d(4, 2, 3)", (4, 8, 8)),
        ("Sequential(LayerNorm((3, 5)), Flatten(), Linear(15, 2))", (3, 5)),
    ],
)
def test_the_first_operator_tells_an_input_that_fits(expression, shape):
    found = resolve(expression)
    assert found.input_shape == shape
    assert found.shape_is_assumed == (len(shape) > 1)
    found.network(found.example())


@pytest.mark.parametrize(
    "expression", ["PowerSum(3)", "Sequential(Embedding(10, 4), Linear(4, 2))", "Bilinear(2, 3, 4)"]
)
def test_an_unclear_input_is_not_guessed(expression):
    found = resolve(expression)
    assert found.input_shape is None
    with pytest.raises(ResolveError, match="give it with --input, as 3,32,32"):
        found.example()
    assert found.example((3,)).shape == (1, 3)


def test_a_run_brings_its_network_and_all_its_data_tell(tiny_run):
    path, data = tiny_run
    found = resolve(path, data_dir=data)
    assert found.recipe.name == "mnist_ccp4"
    assert found.input_shape == (1, 28, 28)
    assert found.classes == tuple(map(str, range(10)))
    assert found.preprocessing["kind"] == "Normalize"
    x = found.example()
    again = spec.build(found.expression)
    again.load_state_dict(found.network.state_dict())
    assert torch.equal(again.eval()(x), found.network(x))


def test_the_data_of_a_run_are_loaded_once(tiny_run, monkeypatch):
    path, data = tiny_run
    mnist, loads = DATA_SETS["mnist"], []

    def read(folder, *, validation=0.1, seed=0):
        loads.append(folder)
        return mnist.reader(folder, validation=validation, seed=seed)

    monkeypatch.setitem(DATA_SETS, "mnist", replace(mnist, read=read))
    found = resolve(path, data_dir=data)
    assert not loads
    inputs, labels = found.data.read("train", 5)
    assert inputs.shape == (5, *found.input_shape)
    assert (len(labels), len(found.classes), len(loads)) == (5, 10, 1)


def test_a_run_without_its_data_still_brings_its_network(tiny_run, monkeypatch, tmp_path):
    path = shutil.copytree(tiny_run[0], tmp_path / "run")
    (path / "data.json").unlink()
    monkeypatch.setenv("PINETS_DATA", str(tmp_path))
    found = resolve(path)
    assert found.classes is None
    assert "mnist" in found.run.inputs.missing
    assert found.input_shape == (1, 28, 28)  # the registered model's


def test_a_strangers_run_cannot_make_a_huge_network(tiny_run, monkeypatch):
    monkeypatch.setattr("pinets._limits.MODULES", 5)
    with pytest.raises(ValueError, match="it has more than 5 modules"):
        resolve(tiny_run[0])


def test_modules_are_evaluated_not_trained():
    assert not resolve("Sequential(Linear(3, 2), Dropout())").network.training
    assert isinstance(resolve("Linear(3, 2)").network, nn.Linear)
