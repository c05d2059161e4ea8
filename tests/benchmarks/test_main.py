"""The runner: options, the table, the JSON file, exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import core
from benchmarks.__main__ import SUBJECTS, main
from benchmarks.rows import Goal, Row, goals_reached

ROOT = Path(__file__).parents[2]


@pytest.fixture
def _small(monkeypatch):
    """The grid of core has one small size."""
    monkeypatch.setattr(core, "QUICK", [core.Case("NCP", d=16, k=8, N=n, batch=4) for n in (2, 3)])


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_subject_explains_itself_with_an_example(subject, capsys):
    assert main([subject, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"Example:\n  python -m benchmarks {subject} " in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    "words, answer",
    [
        (["cor"], "unknown subject 'cor'; did you mean 'core'?"),
        (["core", "--qick"], "python -m benchmarks core: unknown option '--qick'; did you mean '--quick'?"),
        (["core", "--only", "rank=3"], "--only: no case matches 'rank=3'; the cases are\n  CCP d=128"),
        (["core", "--only", "k=(3"], "'k=(3' is not a regular expression"),
        ([], "the following arguments are required: SUBJECT"),
    ],
)
def test_wrong_usage_exits_with_2(words, answer, capsys):
    assert main(words) == 2
    assert answer in capsys.readouterr().err


@pytest.mark.usefixtures("_small")
def test_the_table_and_the_json_have_the_same_figures(tmp_path, capsys):
    out = tmp_path / "new" / "bench.json"
    assert main(["core", "--quick", "--only", "N=2", "--seconds", "0", "--busy", "--out", str(out)]) == 0
    content = json.loads(out.read_text())
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["eager", "ms", "eager", "bare", "ms", "eager", "rate"]
    assert [row["case"] for row in content["rows"]] == [f"NCP d=16 k=8 N=2 batch=4, {kind}" for kind in core.GOALS]
    for row, line in zip(content["rows"], lines[2:], strict=False):
        assert line.startswith(row["case"])
        assert line.split()[-3:] == [f"{value:.4g}" for value in row["figures"].values()]
    assert (content["subject"], content["busy"]) == ("core", True)


def test_goals_stand_beside_their_figures(capsys):
    from benchmarks import rows

    goals = (Goal("rate", at_least=0.85), Goal("GB", at_most=1.0))
    row = Row("case", {"rate": 0.8, "GB": 0.5}, goals)
    rows._print(row, None)
    assert capsys.readouterr().out.splitlines()[-1].endswith("0.8       0.5   goal: rate >= 0.85 missed; GB <= 1")
    assert [goal["reached"] for goal in row.to_json()["goals"]] == [False, True]
    assert goals_reached([row, row, Row("other", {})]) == "2 of 4 goals reached"


def test_interrupting_exits_with_130_and_leaves_no_half_file(tmp_path):
    out = tmp_path / "bench.json"
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # as at a terminal
    code = start + "import sys; from benchmarks.__main__ import main; sys.exit(main())"
    words = ["core", "--quick", "--seconds", "60", "--out", str(out)]
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the head of the table comes with the first row
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "python -m benchmarks core: interrupted\n")
    assert not out.exists()
