"""Two processes on the CPU, started by torchrun, compute what one does."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file


def test_two_processes_give_the_result_of_one(toy, torchrun, tmp_path):
    # without batch norm, whose statistics each process takes from its own half of a batch, and without dropout
    toy.train(tmp_path / "1", norm=False, dropout=0.0)
    torchrun("toy.py", tmp_path / "2", "classifier", "--plain")
    one, two = (load_file(tmp_path / n / "checkpoints" / "step-00000024" / "shared.safetensors") for n in "12")
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(
            two[name], tensor, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
    logs = [[json.loads(line) for line in (tmp_path / n / "metrics.jsonl").read_text().splitlines()] for n in "12"]
    for first, second in zip(*logs, strict=True):
        assert (first["split"], first["step"]) == (second["split"], second["step"])
        for key in ("loss", "accuracy"):
            assert second[key] == pytest.approx(first[key], rel=1e-4, abs=1e-6)
    saved = tmp_path / "2" / "checkpoints" / "step-00000024"
    assert {path.name for path in saved.glob("process-*.safetensors")} == {f"process-{n}.safetensors" for n in (0, 1)}


def test_two_processes_resume_bit_for_bit(torchrun, tmp_path):
    """With dropout, which differs between the processes, and batch norm, whose statistics do."""
    torchrun("toy.py", tmp_path / "whole", "classifier", "--one-life")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    lost = tmp_path / "resumed" / "checkpoints" / "step-00000024" / "process-1.safetensors"
    lost.unlink()  # so that the last three steps are done again
    torchrun("toy.py", tmp_path / "resumed", "classifier", "--one-life")
    for name in ("shared", "process-0", "process-1"):
        whole, resumed = (tmp_path / run / "checkpoints" / "step-00000024" for run in ("whole", "resumed"))
        assert (whole / f"{name}.safetensors").read_bytes() == (resumed / f"{name}.safetensors").read_bytes()


def test_a_loss_that_is_not_finite_on_one_process_stops_both(torchrun, tmp_path):
    errors = torchrun("toy.py", tmp_path, "classifier", "--break-process", "1", code=1)
    assert errors.count("NonFiniteError: step 5: the loss is") == 2
    assert "model.2 (Break)" in errors
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"step-00000003"}
