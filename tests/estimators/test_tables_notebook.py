"""The notebook of California housing: it was run from top to bottom, and runs where the table is."""

import json
import os
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "tables.ipynb"
TABLE = Path(os.environ.get("PINETS_DATA", "nowhere")) / "tables" / "california.csv"


@pytest.fixture(scope="module")
def code():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def test_it_was_run_from_top_to_bottom(code):
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 4
    assert sum("text/html" in output.get("data", {}) for output in outputs) == 2
    assert not [word for word in ("/tmp", "/home", "/work") if word in NOTEBOOK.read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.skipif(not TABLE.exists(), reason="PINETS_DATA has no tables")
def test_it_runs_and_finds_what_it_tells_of(code):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pytest.importorskip("pandas")
    pyplot.switch_backend("Agg")
    cells = {}
    for cell in code:
        exec(compile("".join(cell["source"]), "tables.ipynb", "exec"), cells)
    pyplot.close("all")
    assert cells["net"].score(cells["X_test"], cells["y_test"]) > 0.72
    simple = cells["simple"].formula(cells["X_train"])
    assert simple.names[simple.terms[0].columns[0]] == "median_income"
    assert len(simple) <= 15
