"""A trained network for the verbs that take one."""

from __future__ import annotations

import numpy
import pytest

from pinets import recipes


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """A CCP trained for an epoch on a handful of digits in MNIST's own format."""
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
