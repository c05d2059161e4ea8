from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def load(name):
    """A file of this folder as a module; each is also a script that other processes run."""
    specification = importlib.util.spec_from_file_location(f"pinets_{name}", HERE / f"{name}.py")
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
    """Run a script of this folder in two processes, which must end with the given code; gives what they complained."""

    def run(script, *arguments, code=0):
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        finished = subprocess.run(
            [*command, str(HERE / script), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert finished.returncode == code, finished.stderr
        return finished.stderr

    return run
