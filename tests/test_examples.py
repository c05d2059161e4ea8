"""The examples of the gallery run, each by itself, without a display."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
NO_PICTURES = ("bilinear_mlp", "bilinear_transformer", "onnx_numpy")  # tested where their subjects are
NEEDS = {"meshes": ("trimesh", "fast_simplification"), "encrypted": ("tenseal",), "first_look": ("sympy",)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for path in EXAMPLES if path.stem not in NO_PICTURES], ids=lambda path: path.stem
)
def test_an_example_runs_and_draws(path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    for needed in NEEDS.get(path.stem, ()):
        pytest.importorskip(needed)
    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.get_fignums()))
    runpy.run_path(str(path))
    plt.close("all")
    assert drawn
    assert all(drawn)
