"""Two processes on the CPU, started by torchrun, compute what one does."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.engine import sharded


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


@pytest.mark.slow
def test_parameters_divided_among_two_processes_train_as_in_one(torchrun, tmp_path):
    """FSDP2 (``fully_shard``) on the layers, against the same steps on whole parameters."""
    torchrun("sharded.py", tmp_path / "two.pt")
    sharded.main(str(tmp_path / "one.pt"))
    one, two = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_two_hosts_give_the_result_of_one(torchrun, tmp_path):
    """Two launchers that meet at an address, one process each, as on two machines."""
    torchrun("toy.py", tmp_path / "one", "classifier", "--plain")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    toy_file = Path(sharded.__file__).with_name("toy.py")
    hosts = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={rank}"),
                *("--nproc-per-node=1", "--master-addr=127.0.0.1", f"--master-port={port}"),
                *(str(toy_file), str(tmp_path / "two"), "classifier", "--plain"),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in (0, 1)
    ]
    for host in hosts:
        _, errors = host.communicate(timeout=600)
        assert host.returncode == 0, errors
    whole, divided = (
        (tmp_path / run / "checkpoints" / "step-00000024" / "shared.safetensors").read_bytes() for run in ("one", "two")
    )
    assert whole == divided
