"""kill -9 at any moment, resume, and the end is the same to the last bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.engine.toy import without_clock

TOY = Path(__file__).with_name("toy.py")
DEATHS = [
    "train_step:1",  # before there is any checkpoint
    "train_step:5",  # between two checkpoints
    "train_step:9",  # first step of the second epoch
    "train_step:23",
    "fsync:2",  # the run has just been created
    "fsync:12",  # within the first checkpoints
    "fsync:25",
    "fsync:38",
    "replace:3",  # the file is complete but not in place
    "replace:4",
    "replace:12",
    "save_file:1",  # half a file of tensors, in the first checkpoint
    "save_file:6",
    "rmtree:2",  # an old checkpoint half removed
]


def lines(folder):
    """The log without what a clock measured."""
    return [without_clock(json.loads(line)) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("kind", ["classifier", "gan"])
def test_resume_is_bit_for_bit(tmp_path, kind):
    command = [sys.executable, str(TOY), str(tmp_path), kind, *DEATHS]
    finished = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert finished.returncode == 0, finished.stderr
    reference = tmp_path / "reference"
    expected = load_file(reference / "checkpoints" / "step-00000024" / "shared.safetensors")
    assert any(name.startswith("state.optimizers") for name in expected)
    for death in DEATHS:
        run = tmp_path / death.replace(":", "-")
        found = load_file(run / "checkpoints" / "step-00000024" / "shared.safetensors")
        assert found.keys() == expected.keys(), death
        for name, tensor in expected.items():
            assert found[name].numpy().tobytes() == tensor.numpy().tobytes(), f"{name} differs after {death}"
        assert lines(run) == lines(reference), death
    steps = [row["step"] for row in lines(reference) if row["split"] == "train"]
    assert steps == list(range(2, 25, 2))
