"""The notebook for newcomers: it runs from top to bottom, and what it shows is what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

NOTEBOOK = json.loads((Path(__file__).parents[1] / "docs" / "first_look.ipynb").read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def source(cell):
    return "".join(cell["source"])


def test_it_was_run_from_top_to_bottom_without_errors_or_warnings():
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    outputs = [output for cell in CODE for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 3


def test_it_shows_no_paths_of_a_machine():
    assert "/tmp" not in json.dumps(NOTEBOOK)
    assert "/home" not in json.dumps(NOTEBOOK)


@pytest.mark.slow
def test_it_runs_and_finds_what_it_tells_of(monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("tenseal")
    monkeypatch.setattr(plt, "show", plt.close)
    cells = {}
    with torch.random.fork_rng():
        for cell in CODE:
            exec(compile(source(cell), "first_look.ipynb", "exec"), cells)  # in one namespace, as in a notebook
    energy = cells["formula"].as_coefficients_dict()
    m, v, h = cells["sympy"].symbols("m v h")
    assert abs(energy[m * h] - 9.81) < 0.05
    assert abs(energy[m * v**2] - 0.5) < 0.05
    assert abs(cells["learnt"][3].item() + 1 / 6) < 0.005
    curve = cells["wave"](torch.linspace(-3, 3, 2401, dtype=torch.float64)[:-1, None]).reshape(24, 100)
    assert (curve >= cells["proven"].lower).all()
    assert (curve <= cells["proven"].upper).all()
    assert cells["classifier"].score(cells["test_images"], cells["test_labels"]) > 0.96
    assert cells["scores"].argmax() == cells["network"](cells["digit"]).argmax()
