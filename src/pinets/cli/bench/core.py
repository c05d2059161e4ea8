"""``pinets bench core``: the models against the bare matrix products they cannot avoid."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pinets._nearest import did_you_mean
from pinets.cli.arguments import positive
from pinets.cli.bench.common import add_out, finish, use_threads
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from pinets.bench.core import Case, Row

__all__ = ["add_parser"]

_VARIABLES = ("model", "d", "k", "N", "batch")


def add_parser(benches: Verbs) -> None:
    parser = add_verb(
        benches,
        "core",
        run_core,
        summary="compare the models with the bare matrix products they cannot avoid",
        details=(
            "Forward (without gradients), and forward and backward, of CCP, NCP and NCP-Skip, interleaved with\n"
            "their products alone. rate = time of the products / time of the model."
        ),
        example="""
            pinets bench core --quick
            pinets bench core --only model=CCP,d=784,k=256 --seconds 60
        """,
    )
    parser.add_argument("--quick", action="store_true", help="small sizes only, about half a minute")
    parser.add_argument(
        "--only",
        metavar="NAME=VALUE,...",
        type=_only,
        default=[],
        help=f"these sizes only; names are {', '.join(_VARIABLES)}, and may be given several times",
    )
    parser.add_argument("--seconds", type=positive, help="stop after this time (default: 900, with --quick 30)")
    parser.add_argument("--threads", type=positive, help="threads for torch (default: its own choice)")
    add_out(parser, "core")


def run_core(args: argparse.Namespace) -> int:
    from pinets.bench import core

    use_threads(args.threads)
    try:
        which = core.cases(core.QUICK if args.quick else core.FULL, args.only)
    except ValueError as error:
        raise UsageError(f"--only: {error}") from error
    print(f"{'':40}{'forward':^30}{'forward + backward':^30}")
    print(f"{'model':8}{'d':>8}{'k':>8}{'N':>8}{'batch':>8}" + f"{'ms':>10}{'bare ms':>10}{'rate':>10}" * 2)
    seconds = args.seconds or (30 if args.quick else 900)
    bench = core.bench_core(which, seconds=seconds, on_start=_announce, on_row=_print_row)
    return finish(bench, args.out)


def _announce(case: Case, seconds_left: float) -> None:
    if sys.stderr.isatty():
        minutes, seconds = divmod(round(seconds_left), 60)
        print(f"\r{case} ... at most {minutes}:{seconds:02} left ", end="\x1b[K", file=sys.stderr, flush=True)


def _print_row(row: Row) -> None:
    """A line of the table has both rows of a case."""
    figures, case = f"{row.seconds * 1e3:10.3f}{row.bare_seconds * 1e3:10.3f}{row.rate:10.2f}", row.case
    if row.run != "forward":
        print(figures, flush=True)
        return
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    print(f"{case.model:8}{case.d:8}{case.k:8}{case.N:8}{case.batch:8}{figures}", end="")


def _only(text: str) -> list[tuple[str, str | int]]:
    """Read ``d=784,k=256``."""
    chosen: list[tuple[str, str | int]] = []
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in _VARIABLES or not equals:
            raise argparse.ArgumentTypeError(f"unknown size {part!r}{did_you_mean(name, _VARIABLES)}")
        chosen.append((name, value if name == "model" else positive(value)))
    return chosen
