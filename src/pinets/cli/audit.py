"""``pinets audit``: which activation-free networks of the literature are polynomials."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pinets.cli.parser import UsageError, Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "audit",
        run,
        summary="certify the activation-free networks of the literature",
        details="For each: whether it is a polynomial at inference, its degree or what is in the way, its parameters, "
        "its multiplications, and what replacing its norm costs. Prints a table in Markdown.",
        example="""
            pinets audit
            pinets audit --only "quadratic network" --out audit.md
        """,
    )
    parser.add_argument("--only", metavar="NAME", help="one network of the table")
    parser.add_argument("--out", metavar="FILE", help="write a page with the table instead of printing it")


def run(args: argparse.Namespace) -> int:
    from pinets._files import write_bytes
    from pinets._nearest import did_you_mean
    from pinets.models.audit import NETWORKS, audit, page, table

    chosen = tuple(network for network in NETWORKS if args.only in (None, network.name))
    if not chosen:
        names = [network.name for network in NETWORKS]
        raise UsageError(f"--only: there is no network {args.only!r}{did_you_mean(args.only, names)}")
    rows = []
    for row in audit(chosen):
        print(f"{row.network.name}: {'yes' if row.certificate.polynomial else 'no'}", file=sys.stderr)
        rows.append(row)
        if args.out:  # after each, since large networks take minutes
            write_bytes(Path(args.out), page(rows).encode())
    if not args.out:
        print(table(rows), end="")
    return 0
