from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pinets import spec
from pinets.algebra import _certify, enclosure
from pinets.cli import main

MODEL = "Sequential(Linear(2, 3), PowerSum(2))"


def test_outputs_over_a_box(capsys):
    assert main(["certify", MODEL, "--box", "-1,1", "--boxes", "16", "--json"]) == 0
    (rows,) = json.loads(capsys.readouterr().out)["boxes"]
    torch.manual_seed(0)
    model = spec.build(MODEL)
    grid = torch.cartesian_prod(torch.linspace(-1, 1, 21), torch.linspace(-1, 1, 21)).requires_grad_()
    outputs = model(grid)
    for output, row in enumerate(rows):
        (slopes,) = torch.autograd.grad(outputs[:, output].sum(), grid, retain_graph=True)
        assert row["plain_lower"] <= row["lower"] <= outputs[:, output].min() + 1e-6
        assert row["plain_upper"] >= row["upper"] >= outputs[:, output].max() - 1e-6
        assert row["rate"] >= slopes.abs().sum(1).max() - 1e-6


def test_the_network_is_traced_and_certified_once(capsys, monkeypatch):
    counts = {"export": 0, "certificate_of": 0}

    def counted(name, function):
        def call(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(torch.export, "export", counted("export", torch.export.export))
    monkeypatch.setattr(_certify, "certificate_of", counted("certificate_of", _certify.certificate_of))
    assert main(["certify", MODEL, "--box", "-1,1"]) == 0
    assert counts == {"export": 1, "certificate_of": 1}


def test_what_is_too_large_for_zonotopes_still_has_bounds_and_rates(capsys, monkeypatch):
    monkeypatch.setattr(enclosure, "_LARGEST", 10)
    assert main(["certify", MODEL, "--box", "-1,1", "--json"]) == 0
    (rows,) = json.loads(capsys.readouterr().out)["boxes"]
    assert all(0 < row["upper"] - row["lower"] <= 2 * row["rate"] for row in rows)


def test_what_overflows_is_null(capsys):
    assert main(["certify", MODEL, "--box", "-1e30,1e30", "--json"]) == 0
    (rows,) = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["boxes"]
    assert all(row["lower"] is None and row["upper"] is None for row in rows)


def test_a_ball_around_inputs_of_a_file(tmp_path, capsys):
    save_file({"images": torch.tensor([[0.5, 0.25], [1.0, 0.0]])}, tmp_path / "two.safetensors")
    assert main(["certify", MODEL, "--box", "0.1", "--around", str(tmp_path / "two.safetensors")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("a polynomial of degree 2")
    assert "box 1, output: from, to (plain intervals), rate of change" in text


def test_a_ball_around_inputs_of_an_array(tmp_path, capsys):
    inputs, found = torch.tensor([[0.5, 0.25], [1.0, 0.0]]), []
    save_file({"images": inputs}, tmp_path / "two.safetensors")
    np.save(tmp_path / "two.npy", inputs.numpy())
    for name in ("two.safetensors", "two.npy"):
        assert main(["certify", MODEL, "--box", "0.1", "--around", str(tmp_path / name)]) == 0
        found.append(capsys.readouterr().out)
    assert found[0] == found[1]
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    assert main(["certify", MODEL, "--box", "0.1", "--around", str(tmp_path / "objects.npy")]) == 2
    assert "is not a .npy file of plain numbers" in capsys.readouterr().err
    (tmp_path / "image.npy").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert main(["certify", MODEL, "--box", "0.1", "--around", str(tmp_path / "image.npy")]) == 2
    assert capsys.readouterr().err.rstrip().endswith("is not a .npy file of plain numbers")
    (tmp_path / "two.txt").write_text("0.5 0.25")
    assert main(["certify", MODEL, "--box", "0.1", "--around", str(tmp_path / "two.txt")]) == 2
    assert "takes a .npy or a .safetensors file" in capsys.readouterr().err


def test_what_is_no_polynomial_has_no_bounds(capsys):
    assert main(["certify", "Sequential(Linear(2, 2), ReLU())", "--box=-1,1", "--json"]) == 1
    assert "boxes" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--box", "1,0"], "expected LOW,HIGH such as -1,1, or a radius such as 0.01; got '1,0'"),
        (["--box", "a"], "got 'a'"),
        (["--box", "0,inf"], "got '0,inf'"),
        (["--box", "0.1"], "a single number for --box is a radius"),
        (["--box=-1,1", "--around", "x.safetensors"], "with --around, --box is a radius"),
        (["--box", "0.1", "--around", "x.safetensors"], "there is no file x.safetensors"),
        (["--box=-1e200,1e200"], "the input must be finite"),
        (["--boxes", "4"], "say more about a --box, which is missing"),
    ],
)
def test_wrong_boxes_are_wrong_usage(words, message, capsys):
    assert main(["certify", MODEL, *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
