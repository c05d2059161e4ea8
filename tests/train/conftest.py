from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOY = Path(__file__).with_name("toy.py")


@pytest.fixture(scope="session")
def toy():
    """The tiny tasks of toy.py, which is also a script that other processes run."""
    specification = importlib.util.spec_from_file_location("pinets_toy", TOY)
    module = importlib.util.module_from_spec(specification)
    sys.modules["pinets_toy"] = module
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def accelerator(toy):
    return toy.make_accelerator()
