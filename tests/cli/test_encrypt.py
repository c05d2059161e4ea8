from __future__ import annotations

import json

import numpy as np
import pytest

from pinets.cli import main
from pinets.cli.encrypt import read_array, write_array

pytest.importorskip("tenseal")

MODEL = "CCP(5, 3, rank=4, order=2)"


def test_the_steps_one_by_one_and_all_at_once(tmp_path, capsys):
    inputs = np.random.default_rng(0).uniform(-1, 1, (2, 5))
    write_array(str(tmp_path / "inputs.npy"), inputs)
    client, server = str(tmp_path / "client"), str(tmp_path / "server")
    asked, answered, scores = (str(tmp_path / name) for name in ("asked", "answered", "scores.npy"))
    steps = [
        ["plan", MODEL, "--packing", "latency", "--out", str(tmp_path)],
        ["keygen", "--client", client, "--server", server],
        ["encrypt", str(tmp_path / "inputs.npy"), "--client", client, "--out", asked],
        ["evaluate", asked, "--server", server, "--out", answered, "--workers", "1"],
        ["decrypt", answered, "--client", client, "--out", scores],
    ]
    for step in steps:
        assert main(["encrypt", *step]) == 0, capsys.readouterr().err
    from pinets.cli.arguments import read_model

    model = read_model(MODEL).double()
    import torch

    np.testing.assert_allclose(read_array(scores), model(torch.from_numpy(inputs)).detach().numpy(), atol=1e-4)
    assert "128-bit secure" in capsys.readouterr().out
    assert main(["encrypt", "run", MODEL, "--packing", "latency", "--images", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["trial"]["deviation"] < 1e-4
    assert told["plan"]["depth"] == 3


@pytest.mark.parametrize(
    "words, code, message",
    [
        (["plan", "Sequential(Linear(4, 4), ReLU())"], 1, "replace it with pinets.PowerSum"),
        (["plan", MODEL, "--range", "1,-1"], 2, "the first number must be the smaller one"),
        (["plan", MODEL, "--ring", "4096", "--packing", "latency"], 1, "a ring of 8192 has room"),
        (["plan", MODEL, "--calibrate", "nowhere.npy"], 2, "there is no file nowhere.npy"),
        (["keygen", "--client", "nowhere", "--server", "nowhere"], 1, "there is no plan.json in nowhere"),
        (["plam"], 2, "did you mean 'plan'"),
    ],
)
def test_what_is_wrong_is_said(words, code, message, capsys):
    assert main(["encrypt", *words]) == code
    assert message in capsys.readouterr().err


def test_arrays_are_numbers_and_nothing_else(tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="not an array of numbers"):
        read_array(str(path))
    np.save(path, np.array(["text"]))
    with pytest.raises(ValueError, match="must hold numbers"):
        read_array(str(path))
