"""``pinets report``: one HTML file about any number of runs."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import file_ending_in
from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "report",
        run,
        summary="write one self-contained HTML file about runs: table, curves, recipes",
        example="pinets report runs --out report.html",
    )
    parser.add_argument("paths", metavar="RUN", nargs="+", help="run folders, or folders that hold some")
    parser.add_argument(
        "--out",
        metavar="FILE.html",
        type=file_ending_in(".html"),
        default="report.html",
        help="(default: report.html)",
    )


def run(args: argparse.Namespace) -> int:
    from pinets.report import group_runs, summarize, text_table, write_report
    from pinets.tasks.run_report import about_run

    groups = group_runs(args.paths)
    finished = {name: runs for name, runs in groups.items() if any(run.finished for run in runs)}
    if finished:
        print(text_table([summarize(name, runs) for name, runs in finished.items()]))
    unfinished = [str(run.path) for runs in groups.values() for run in runs if not run.finished]
    if unfinished:
        print(f"not finished: {', '.join(unfinished)}")
    write_report(groups, args.out, about=about_run)
    print(f"report: {args.out}")
    return 0
