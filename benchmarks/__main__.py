"""``python -m benchmarks core``: measure one subject on this machine, print a table and write it as JSON.

A subject is a module of this package with

- ``add_arguments(parser)``, which adds its options;
- ``rows(args)``, which yields a :class:`benchmarks.rows.Row` as soon as it is measured;
- if the goals reached are not all there is to say, ``summary(rows)``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from pinets.cli.parser import Parser, UsageError

# the subjects, and what --help says of them before any is imported
SUBJECTS = {
    "core": "CCP, NCP and NCP-Skip against the bare matrix products they cannot avoid",
    "resnet": "residual Π-nets against their baselines and against their floor",
    "faces": "searching a gallery against faiss; embedding a face against the baseline",
    "mesh": "the spiral convolution against its published form; networks of higher order against the plain one",
    "fid": "ways to run the Inception network against a plain loop",
    "export": "exported networks in onnxruntime against torch",
    "bounds": "sound bounds against plain intervals; certified against attacked accuracy",
    "convolutions": "sound bounds of convolutional networks against what gradients reach",
    "encrypted": "encrypted inference against TenSEAL's own matrix product",
    "colour": "a convolutional network on an encrypted colour image: seconds, memory and bytes",
    "service": "encrypted inference over HTTP under load: throughput, latency, memory, workers that are killed",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (that of the process if left out) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        args = make_parser(words).parse_args(words)
    except SystemExit as end:  # argparse leaves this way, after help and after an error
        return end.code if isinstance(end.code, int) else 0
    from benchmarks.rows import measure_subject

    try:
        measure_subject(import_module(f"benchmarks.{args.subject}"), args)
    except UsageError as error:
        print(f"{args.prog}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{args.prog}: interrupted", file=sys.stderr)
        return 130
    return 0


def make_parser(words: Sequence[str]) -> Parser:
    """The parser of a command line, which imports no other subject than the one named in it."""
    parser = Parser(prog="python -m benchmarks", description="Measure one subject on this machine.")
    subjects = parser.add_subparsers(title="subjects", metavar="SUBJECT", dest="subject", required=True)
    for name, summary in SUBJECTS.items():
        of_subject = subjects.add_parser(name, help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name in words:
            _add_arguments(of_subject, name)
    return parser


def _add_arguments(parser: Parser, name: str) -> None:
    from pinets.cli.arguments import positive

    subject = import_module(f"benchmarks.{name}")
    parser.description = subject.__doc__
    parser.set_defaults(prog=parser.prog)
    subject.add_arguments(parser)
    parser.add_argument(
        "--threads", type=positive, help="threads for torch (default: its own choice); with 1, CPU time is measured"
    )
    parser.add_argument("--busy", action="store_true", help="beside another process that keeps one core busy")
    parser.add_argument("--out", metavar="FILE", default=f"runs/bench-{name}.json", help="JSON (default: %(default)s)")


if __name__ == "__main__":
    sys.exit(main())
