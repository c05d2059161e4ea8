from __future__ import annotations

import pytest
import torch

from pinets import spec
from pinets.cli import main


@pytest.fixture
def square(tmp_path):
    """(3 z0 - z1)^2 + 3 z0 - z1 and 4 z1, exactly: u (1 + v) with u = v = 3 z0 - z1, and with u = 4 z1, v = 0."""
    expression = "CCP(2, 2, rank=2, order=2)"
    model = spec.build(expression)
    with torch.no_grad():
        model.start.weight.copy_(torch.tensor([[3.0, -1.0], [0.0, 4.0]]))
        model.steps[0].gate.weight.copy_(torch.tensor([[3.0, -1.0], [0.0, 0.0]]))
        model.head.weight.copy_(torch.eye(2))
        model.head.bias.zero_()
    path = str(tmp_path / "square.safetensors")
    spec.save(path, model, expression)
    return path


def test_the_largest_monomials_come_first(square, capsys):
    assert main(["expand", square, "--top", "4"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "degree 2, inputs 2, outputs 2; the largest monomials:",
        "output 0: +9 z0^2",
        "output 0: -6 z0 z1",
        "output 1: +4 z1",
        "output 0: +3 z0",
    ]


def test_one_output(square, capsys):
    assert main(["expand", square, "--output", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["output 1: +4 z1"]


def test_latex(square, capsys):
    assert main(["expand", square, "--latex"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("9 z_{0}^{2} - 6 z_{0} z_{1} + 3 z_{0} ")
    assert second == "4 z_{1}"


def test_an_expression_has_the_same_weights_every_time(capsys):
    words = ["expand", "NCP(3, 2, rank=2, order=2)", "--top", "3"]
    assert main(words) == 0
    first = capsys.readouterr().out
    torch.rand(1)
    assert main(words) == 0
    assert capsys.readouterr().out == first


def test_memory_can_be_limited(capsys):
    words = ["expand", "CCP(30, 2, rank=2, order=5)", "--top", "2"]
    assert main([*words, "--memory", "0.001"]) == 1
    assert "--memory" in capsys.readouterr().err
    assert main([*words, "--memory", "0.5"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main([*words, "--memory", "0"]) == 2
    assert "expected a positive number of gigabytes, got '0'" in capsys.readouterr().err


def test_what_is_no_polynomial_is_refused(capsys):
    assert main(["expand", "Sequential(Linear(2, 2), Tanh())"]) == 1
    error = capsys.readouterr().err
    assert "Tanh" in error
    assert error.count("\n") == 1
