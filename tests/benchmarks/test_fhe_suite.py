from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from pinets import CCP
from pinets.encrypted import plan_network, write_plan

pytest.importorskip("tenseal")

from benchmarks.fhe_suite.prepare import prepare
from benchmarks.fhe_suite.stages import SIZES, STAGES, main


def test_the_stages_give_the_plain_classes(tmp_path, monkeypatch):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), CCP(784, 10, rank=4, order=2)).double().requires_grad_(False)
    pixels = torch.rand(3, 784, dtype=torch.float64)
    images = (pixels.reshape(-1, 1, 28, 28) - 0.13) / 0.31
    options = {"rings": (2048,), "insecure": True, "estimate_time": False}
    plan, circuit = plan_network(network, images, packing="latency", **options)
    own = tmp_path / "submission" / "pinets"
    for kind in ("latency", "throughput"):
        write_plan(plan, circuit, client=own / kind / "client", server=own / kind / "server")
    (own / "input.json").write_text(json.dumps({"mean": 0.13, "std": 0.31}))
    (tmp_path / "datasets" / "small" / "intermediate").mkdir(parents=True)
    np.savetxt(tmp_path / "datasets" / "small" / "intermediate" / "test_pixels.txt", pixels.numpy())
    monkeypatch.chdir(tmp_path)
    order = [
        "client_key_generation",
        "server_preprocess_model",
        "client_preprocess_input",
        "client_encode_encrypt_input",
        "server_encrypted_compute",
        "client_decrypt_decode",
        "client_postprocess",
    ]
    assert sorted(order) == sorted(STAGES)
    for stage in order:
        assert main([stage, *([] if stage == "server_preprocess_model" else ["1"])]) == 0
    predicted = (tmp_path / "io" / SIZES[1] / "encrypted_model_predictions.txt").read_text().split()
    assert predicted == [str(int(one)) for one in network(images).argmax(1)]


def test_what_is_no_stage_is_refused(capsys):
    assert main(["client_key_generation", "9"]) == 2
    assert "a size from 0 to 3" in capsys.readouterr().err


def test_what_is_no_clone_of_the_suite_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no clone of fhe-benchmarking/ml-inference"):
        prepare(tmp_path, "runs/none")
