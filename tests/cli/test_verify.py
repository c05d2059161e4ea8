"""``pinets verify``: what it reads, what it prints, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from pinets import resolve
from pinets.cli.app import main

MODEL = "CCP(4, 3, rank=3, order=2)"


@pytest.fixture
def files(tmp_path):
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    labels = resolve(MODEL).network(x).argmax(1)
    labels[0] = (labels[0] + 1) % 3  # classified wrongly: nothing to prove
    np.save(tmp_path / "x.npy", x.numpy())
    np.save(tmp_path / "y.npy", labels.numpy())
    return ["--inputs", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "y.npy")]


def test_inputs_from_files_are_decided_and_written(files, tmp_path, capsys):
    out = tmp_path / "verdicts.jsonl"
    assert main(["verify", MODEL, "--eps", "0.001", *files, "--json", "--out", str(out)]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["inputs"], summary["correct"]) == (6, 5)
    assert summary["proven"] + summary["refuted"] + summary["open"] == 5
    assert "float32" in summary["covers"]
    assert len(out.read_text().splitlines()) == 6
    assert main(["verify", MODEL, "--eps", "0.002", *files, "--out", str(out)]) == 1
    assert "another network or other boxes" in capsys.readouterr().err


def test_what_is_missing_is_told(files, capsys):
    assert main(["verify", MODEL, "--eps", "0.1"]) == 2
    assert "has no dataset" in capsys.readouterr().err
    assert main(["verify", MODEL, "--eps", "0.1", *files[:2]]) == 2
    assert "given together" in capsys.readouterr().err
    assert main(["verify", "mnist_ccp2_robust", "--eps", "-1"]) == 2  # as it was given, not in normalised pixels
    assert "--eps must be at least 0, got -1.0" in capsys.readouterr().err
    assert main(["verify", MODEL, "--eps", "0.1", *files, "--range", "1,0"]) == 2
    assert "expected LOW,HIGH such as 0,1" in capsys.readouterr().err
