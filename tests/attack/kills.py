"""Kills and resumes: ``kill -9`` a tiny training at random moments, resume it, and compare every bit with a run left
alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.attack.tally import Tally, cases

__all__ = ["attack", "attack_from_here"]

HANGS = 120.0  # seconds after which a life that should take one or two is given up


def attack(seconds: float, seed: int) -> Tally:
    """A killed run ends as one that was left alone. The moments of the kills depend on the machine's speed, too.

    In a process of its own: it forks one for every life of a run, which is safe only while torch has no threads.
    """
    ended = subprocess.run(
        [sys.executable, "-m", "tests.attack.kills", str(seconds), str(seed)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Tally(**json.loads(ended.stdout))


def attack_from_here(seconds: float, seed: int) -> Tally:
    """The same in this process, which must not have started threads of torch."""
    import torch

    torch.set_num_threads(1)
    tally = Tally()
    with tempfile.TemporaryDirectory() as temporary:
        for name, random in cases(seconds, seed):
            tally.cases += 1
            kind, every = random.choice(["classifier", "gan"]), random.choice([1, 3])
            expected, usual = left_alone(Path(temporary), kind, every)
            folder = Path(temporary, "killed")
            shutil.rmtree(folder, ignore_errors=True)
            moments = [random.uniform(0, 1.1 * usual) for _ in range(random.choice([1, 1, 2, 3]))]
            told = f"{name}: {kind}, checkpoints every {every}, killed after {[round(at, 3) for at in moments]} s"
            problem = killed_and_resumed(folder, kind, every, moments, usual)
            problem = problem or difference(expected, outcome(folder))
            tally.check(not problem, f"{told}: {problem}")
    return tally


@cache
def left_alone(temporary: Path, kind: str, every: int) -> tuple[dict[str, Any], float]:
    """The outcome of a run that nobody kills, and its seconds."""
    folder, start = temporary / f"{kind}-{every}", time.monotonic()
    code = live(folder, lambda: train(folder, kind, every))
    assert code == 0, complaint(folder)
    return outcome(folder), time.monotonic() - start


def killed_and_resumed(folder: Path, kind: str, every: int, moments: list[float], usual: float) -> str:
    """Kill a run at each of the moments after it was started or resumed, then let it end; returns what went wrong."""
    for moment in moments:
        code = live(folder, lambda: train(folder, kind, every), kill_after=moment)
        if code not in (0, -signal.SIGKILL):
            return f"ended with {code}: {complaint(folder)}"
    code = live(folder, lambda: train(folder, kind, every), kill_after=HANGS + usual)
    if code == -signal.SIGKILL:
        return "the resumed run does not end"
    return "" if code == 0 else f"cannot be resumed: {complaint(folder)}"


def train(folder: Path, kind: str, every: int) -> None:
    from tests.engine import toy

    toy.train(folder, kind, replace(toy.PLAN, checkpoint_every=every))


def live(folder: Path, action: Callable[[], object], kill_after: float | None = None) -> int:
    """Do something in a process of its own, and kill it after some seconds; returns its exit code."""
    import tests.engine.toy  # noqa: F401 - before the fork, or every life would import it anew

    child = os.fork()
    if child == 0:
        with errors_of(folder).open("w") as errors:
            os.dup2(errors.fileno(), 2)
        try:
            action()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    end = None if kill_after is None else time.monotonic() + kill_after
    while end is not None and time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(max(0.0, min(0.002, end - time.monotonic())))
    if end is not None:
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def errors_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.errors")


def complaint(folder: Path) -> str:
    """The last line that a life wrote to its standard error."""
    return (errors_of(folder).read_text().strip().splitlines() or [""])[-1][:300]


def outcome(folder: Path) -> dict[str, Any]:
    """Everything a finished run leaves that must not depend on kills: weights and states, the log, and the result."""
    from tests.engine.toy import without_clock

    found: dict[str, Any] = {}
    newest = max((folder / "checkpoints").glob("step-*"), default=None)
    if newest is not None:
        found |= {f"{newest.name}/{file.name}": file.read_bytes() for file in newest.glob("*.safetensors")}
    if (folder / "result.json").is_file():
        found["result.json"] = without_clock(json.loads((folder / "result.json").read_text()))
    if (folder / "metrics.jsonl").is_file():
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        found |= {f"line {number} of the log": without_clock(json.loads(line)) for number, line in enumerate(lines, 1)}
    return found


def difference(expected: dict[str, Any], found: dict[str, Any]) -> str:
    for name in {**expected, **found}:
        if name not in found or name not in expected:
            return f"{name} is {'missing' if name not in found else 'too much'}"
        if expected[name] != found[name]:
            return f"{name} differs"
    return ""


if __name__ == "__main__":
    json.dump(asdict(attack_from_here(float(sys.argv[1]), int(sys.argv[2]))), sys.stdout)
