from __future__ import annotations

import json

import pytest
import torch

from pinets import spec
from pinets.cli import main


@pytest.mark.parametrize(
    "model, degree",
    [
        ("CCP(16, 4, rank=8, order=3)", 3),
        ("Sequential(CCP(16, 8, rank=8, order=2), NCP(8, 4, rank=8, order=3))", 6),
        ("NCPSkip(3, 4, rank=8, order=2, op=Conv2d(kernel_size=3, padding=1))", 2),
        ("Linear(5, 5)", 1),
    ],
)
def test_polynomials_pass_with_their_degree(model, degree, capsys):
    assert main(["certify", model]) == 0
    assert f"a polynomial of degree {degree}" in capsys.readouterr().out
    assert main(["certify", model, "--json"]) == 0
    certificate = json.loads(capsys.readouterr().out)
    assert certificate.pop("notes")
    assert certificate == {"polynomial": True, "degree": degree, "bound": degree, "violations": []}


def test_a_max_pool_is_named_and_exits_with_1(capsys):
    model = "Sequential(CCP(16, 8, rank=8, order=3), MaxPool1d(2))"
    assert main(["certify", model]) == 1
    text = capsys.readouterr().out
    assert text.startswith("not a polynomial")
    assert "1 (MaxPool1d)" in text
    assert main(["certify", model, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["polynomial"], found["degree"]) == (False, None)
    assert [violation["path"] for violation in found["violations"]] == ["1"]


@pytest.mark.parametrize("verb", ["certify", "expand"])
def test_an_operation_in_many_places_is_one_line(verb, capsys):
    assert main([verb, f"Sequential({', '.join(['Linear(4, 4)', 'ReLU()'] * 8)})"]) == 1
    told = capsys.readouterr()
    text = told.out + told.err
    assert "not a polynomial: 8 operations in the way" in text
    assert text.count("PowerSum, or a product of two linear maps") == 1
    assert "1 (ReLU): relu is piecewise linear" in text
    assert text.endswith("(also in 3, 5, 7, 9, 11 and 2 more)\n")


def test_an_option_of_another_name_is_not_taken_for_help(capsys):
    assert main(["certify", "PowerSum(4)", "--shape", "3,4,4"]) == 2
    error = capsys.readouterr().err
    assert "did you mean" not in error
    assert "known are " in error
    assert "--input" in error


def test_the_shape_can_be_given(capsys):
    assert main(["certify", "PowerSum(4)", "--input", "3,2"]) == 0
    assert "degree 4" in capsys.readouterr().out


NETWORKS = """
from torch import nn
from beside import order
import pinets

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = pinets.CCP(4, 4, rank=3, order=order)

    def forward(self, z):
        return self.inner(z)

made = Network()

def make():
    return nn.Sequential(Network(), nn.ReLU())
"""


@pytest.mark.parametrize("place", ["networks_of_mine.py", "networks_of_mine"])
def test_networks_written_in_python(place, tmp_path, monkeypatch, capsys):
    (tmp_path / "networks_of_mine.py").write_text(NETWORKS)
    (tmp_path / "beside.py").write_text("order = 3")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    monkeypatch.delitem(__import__("sys").modules, "beside", raising=False)
    monkeypatch.delitem(__import__("sys").modules, "networks_of_mine", raising=False)
    assert main(["certify", f"{place}:made"]) == 0
    assert "degree 3" in capsys.readouterr().out
    assert main(["certify", f"{place}:Network"]) == 0
    assert "degree 3" in capsys.readouterr().out
    assert main(["certify", f"{place}:make"]) == 1
    assert "1 (ReLU)" in capsys.readouterr().out


def test_saved_weights_count(tmp_path, capsys):
    """A cubic whose last gate is zero is a square: only the weights in the file can tell."""
    expression = "NCPSkip(4, 2, rank=3, order=3)"
    model = spec.build(expression)
    with torch.no_grad():
        model.steps[1].gate.weight.zero_()
    path = str(tmp_path / "square.safetensors")
    spec.save(path, model, expression)
    assert main(["certify", path]) == 0
    assert "a polynomial of degree 2" in capsys.readouterr().out


def test_a_run_folder_is_certified_with_its_weights(tiny_run, monkeypatch, capsys):
    run, data = tiny_run
    monkeypatch.setenv("PINETS_DATA", str(data))
    assert main(["certify", str(run)]) == 0
    assert "a polynomial of degree 4" in capsys.readouterr().out


def test_a_folder_that_is_not_there(capsys):
    assert main(["certify", "runs/nowhere"]) == 2
    assert "there is no file or folder runs/nowhere" in capsys.readouterr().err
