"""Compiled networks train, resume and are saved as others are. The backends here generate no code, which takes long."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from pinets.engine import NonFiniteError, Plan, RunFolder, compile_networks, fit

PLAN = Plan(steps=6, steps_per_epoch=3, checkpoint_every=2)


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()


def train(toy, folder, plan=PLAN, *, backend="eager", **options):
    accelerator, run = toy.make_accelerator(), RunFolder(folder)
    if not run.exists:
        run.start({"kind": "toy"}, processes=1)
    task = toy.classifier(accelerator, **options)
    if backend is not None:
        compile_networks(task, accelerator, backend=backend)
    fit(task, plan, run, accelerator)
    return task


def saved(folder, step=6):
    return load_file(folder / "checkpoints" / f"step-{step:08d}" / "shared.safetensors")


def test_checkpoints_of_compiled_networks_are_those_of_others(toy, tmp_path):
    train(toy, tmp_path / "compiled", dropout=0.0)
    train(toy, tmp_path / "eager", dropout=0.0, backend=None)
    compiled, eager = saved(tmp_path / "compiled"), saved(tmp_path / "eager")
    assert compiled.keys() == eager.keys()
    for name, tensor in eager.items():
        torch.testing.assert_close(compiled[name], tensor, rtol=1e-4, atol=1e-5)


def test_compiled_networks_really_are_compiled(toy, accelerator):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    task = toy.classifier(accelerator)
    compile_networks(task, accelerator, backend=backend)
    task.network(torch.randn(2, 2, 4, 4))
    assert len(graphs) == 1


def test_a_compiled_run_resumes_bit_for_bit(toy, tmp_path):
    train(toy, tmp_path / "whole")
    train(toy, tmp_path / "parts", Plan(steps=4, steps_per_epoch=3, checkpoint_every=2))
    train(toy, tmp_path / "parts")
    whole, parts = saved(tmp_path / "whole"), saved(tmp_path / "parts")
    assert all(torch.equal(parts[name], tensor) for name, tensor in whole.items())


def test_the_layer_that_breaks_is_found_in_a_compiled_network(toy, accelerator, tmp_path):
    run = RunFolder(tmp_path)
    run.start({"kind": "toy"}, processes=1)
    task = toy.classifier(accelerator)
    task.network[2] = toy.Break(at=2)
    compile_networks(task, accelerator, backend="eager")
    with pytest.raises(NonFiniteError, match=r"step 2: .*the first layer to give it is model\.2 \(Break\)"):
        fit(task, PLAN, run, accelerator)


@pytest.mark.slow  # generates C++ code and compiles it
def test_generated_code_trains_alike(toy, tmp_path):
    train(toy, tmp_path / "compiled", dropout=0.0, backend="inductor")
    train(toy, tmp_path / "eager", dropout=0.0, backend=None)
    compiled, eager = saved(tmp_path / "compiled"), saved(tmp_path / "eager")
    assert compiled.keys() == eager.keys()
    for name, tensor in eager.items():
        torch.testing.assert_close(compiled[name], tensor, rtol=1e-3, atol=1e-4)
