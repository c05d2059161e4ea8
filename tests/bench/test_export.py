from __future__ import annotations

import json

import pytest

from pinets.bench.export import Case, Row, bench_export
from pinets.bench.rows import Results

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")


def test_both_run_and_agree():
    bench = bench_export([Case("ccp4_mnist", 2, {"rank": 4})], seconds=0.1)
    (row,) = bench.rows
    assert row.torch_seconds > 0
    assert row.onnx_seconds > 0
    assert row.difference < 1e-4
    content = json.loads(json.dumps(bench.to_json()))
    assert content["goal"] == 1.0
    assert content["rows"][0]["case"]["model"] == "ccp4_mnist"
    assert (content["rows"][0]["ratio"], content["rows"][0]["reached"]) == (row.ratio, row.reached)


def test_the_goal_is_both_speed_and_agreement():
    case = Case("ccp4_mnist", 1)
    rows = [Row(case, 2.0, 1.0, 1e-6), Row(case, 1.0, 2.0, 1e-6), Row(case, 2.0, 1.0, 1e-3)]
    assert [row.reached for row in rows] == [True, False, False]
    assert Results("export", rows, {}).summary() == "1 of 3 goals reached"
