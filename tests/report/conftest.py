from __future__ import annotations

import json

import pytest

from pinets._storage import write_json
from pinets.engine.run import RunFolder


@pytest.fixture
def runs(tmp_path):
    """Two recipes with three seeds each; the last run is not finished."""
    for name, offset in (("baseline", 0.0), ("ours", 0.1)):
        for seed in range(3):
            run = RunFolder(tmp_path / "runs" / f"{name}-small" / f"seed-{seed}")
            run.start({"name": name, "scale": "small", "note": "<b>"}, processes=1)
            rows = [
                {"split": "validation", "step": 10 * epoch, "epoch": epoch, "accuracy": offset + epoch / 10 + seed / 50}
                for epoch in (1, 2, 3)
            ]
            run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            if (name, seed) != ("ours", 2):
                test = {"accuracy": offset + 0.5 + seed / 10}
                write_json(run.result_file, {"test": test, "parameters": {"model": 1000}, "seconds": 60.0 * (seed + 1)})
    return tmp_path / "runs"
