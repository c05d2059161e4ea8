from __future__ import annotations

import pytest

from benchmarks.export import GOALS, Case, measure
from benchmarks.rows import Row

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("compiled", [False, True])
def test_both_run_and_agree(compiled, tmp_path):
    row = measure(Case("ccp4_mnist", 2, {"rank": 4}), tmp_path / "model.onnx", seconds=0.1, compiled=compiled)
    ways = ["eager", "onnxruntime", "compiled"][: 2 + compiled]
    assert all(row.figures[f"{way} ms"] > 0 for way in ways)
    assert row.figures["outputs differ by"] < 1e-4
    assert row.case == "ccp4_mnist, batch 2"


def test_the_goal_is_both_speed_and_agreement():
    figures = [(0.5, 1e-6), (2.0, 1e-6), (0.5, 1e-3)]
    rows = [Row("", {"onnxruntime/eager": ratio, "outputs differ by": by}, GOALS) for ratio, by in figures]
    assert [len(row.missed) for row in rows] == [0, 1, 1]
