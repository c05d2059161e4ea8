from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

TOYS = Path(__file__).parent / "engine"  # tiny tasks, each also a script that other processes run


def load(name):
    """One of the toys as a module."""
    specification = importlib.util.spec_from_file_location(f"pinets_{name}", TOYS / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def toy():
    """The tiny tasks of toy.py."""
    return load("toy")


@pytest.fixture(scope="session")
def toy_faces():
    """The tiny face recognition of toy_faces.py."""
    return load("toy_faces")


@pytest.fixture(scope="session")
def toy_gan():
    """The tiny generator and discriminator of generation_toy.py."""
    return load("generation_toy")


@pytest.fixture
def accelerator(toy):
    return toy.make_accelerator()


@pytest.fixture(scope="session")
def torchrun():
    """Run one of the toys in two processes, which must end with the given code; gives what they complained."""

    def run(script, *arguments, code=0):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        finished = subprocess.run(
            [*command, str(TOYS / script), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert finished.returncode == code, finished.stderr
        return finished.stderr

    return run


@pytest.fixture(autouse=True)
def _same_start_for_every_test():
    """Seed torch, and fail the test that leaves gradients off for all that come after it."""
    torch.manual_seed(0)
    yield
    left_on = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert left_on, "this test leaves gradients turned off"


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """A CCP trained for an epoch on a handful of digits in MNIST's own format: the run folder and the data folder."""
    import numpy

    from pinets import tasks as recipes

    folder = tmp_path_factory.mktemp("run")
    data = folder / "data" / "mnist"
    data.mkdir(parents=True)
    generator = numpy.random.default_rng(0)
    for part, count in (("train", 200), ("t10k", 20)):
        images = generator.integers(0, 256, (count, 28, 28), dtype=numpy.uint8)
        labels = numpy.arange(count, dtype=numpy.uint8) % 10
        header = numpy.array([0x803, count, 28, 28], ">i4").tobytes()
        (data / f"{part}-images-idx3-ubyte").write_bytes(header + images.tobytes())
        (data / f"{part}-labels-idx1-ubyte").write_bytes(
            numpy.array([0x801, count], ">i4").tobytes() + labels.tobytes()
        )
    changes = ["epochs=1", "batch=20", "model.rank=4"]
    recipe = recipes.get_recipe("mnist_ccp4", "small", changes)
    recipes.train(recipe, folder / "runs", data_dir=folder / "data")
    return recipes.run_folder(recipe, folder / "runs").path, folder / "data"
