"""Run fuzzers: ``python -m tests.attack --seconds 3600 --only boxes``.

A fuzzer is a module of this folder with a function ``attack(seconds: float, seed: int) -> Tally``.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from pathlib import Path

from tests.attack.tally import Tally

FUZZERS = sorted(
    module.name
    for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    if module.name not in ("guard", "mutation", "tally") and not module.name.startswith(("_", "test_"))
)


SHOWN = 20  # failures that are printed


def run(name: str, seconds: float, seed: int) -> Tally:
    """Run one fuzzer; print how many cases it tried and what failed."""
    start = time.monotonic()
    tally = importlib.import_module(f"tests.attack.{name}").attack(seconds, seed)
    took = time.monotonic() - start
    print(f"{name}: {tally.cases:,} cases in {took:.0f} s with seed {seed}, {len(tally.failures)} failed", flush=True)
    for failure in tally.failures[:SHOWN]:
        print(f"  {failure}", flush=True)
    if len(tally.failures) > SHOWN:
        print(f"  and {len(tally.failures) - SHOWN} more", flush=True)
    return tally


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description="Attack pinets with random cases.")
    parser.add_argument("--seconds", type=float, default=60.0, help="time for each fuzzer (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same cases (default: 0)")
    parser.add_argument("--only", choices=FUZZERS, nargs="+", default=FUZZERS, metavar="NAME", help=", ".join(FUZZERS))
    args = parser.parse_args(words)
    failed = 0
    for name in args.only:
        try:
            failed += bool(run(name, args.seconds, args.seed).failures)
        except ModuleNotFoundError as error:
            print(f"{name}: skipped, needs {error.name}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
