"""The comparison of tables: what it reports, on a table that it makes itself."""

import argparse
import json

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")
tabular = pytest.importorskip("benchmarks.tabular")


def test_one_small_table(tmp_path, capsys):
    random = np.random.RandomState(0)
    table = pandas.DataFrame({"fixed": random.normal(size=60), "kind": random.choice(["a", "b"], size=60)})
    table.assign(quality=table["fixed"] ** 2).to_csv(tmp_path / "winequality-red.csv", index=False)
    args = argparse.Namespace(
        data=tmp_path,
        tables=["winequality-red"],
        methods=["pinets", "Ridge-poly"],
        rows=50,
        folds=2,
        seed=1,
        out=tmp_path / "out.jsonl",
    )
    found = tabular.measure(args)
    assert [row["method"] for row in found] == ["dummy", "pinets", "Ridge-poly"]
    assert found[1]["score"] > 0.99 > found[0]["score"]
    assert len(args.out.read_text().splitlines()) == 3
    assert [json.dumps(row) for row in tabular.measure(args)] == args.out.read_text().splitlines()  # not again
    assert "| mean normalised score |" in tabular.report(found)
    assert "**" in tabular.report(found)
