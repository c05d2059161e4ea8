"""The entry point: find the verb, run it, and turn what happened into an exit code."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module

from pinets import __version__
from pinets.cli.parser import Parser, add_common_options

__all__ = ["main"]

# A verb is a module of this package with a function `add_parser(verbs)`. It imports torch where it runs, not where it
# is declared, so that help is instant.
VERBS = (
    "quickstart",
    "certify",
    "verify",
    "expand",
    "convert",
    "export",
    "encrypt",
    "train",
    "init",
    "predict",
    "eval",
    "compare",
    "reproduce",
    "sample",
    "list",
    "show",
    "pack",
    "report",
    "mesh",
    "publish",
    "stress",
    "explain",
    "audit",
)

EPILOG = """examples:
  pinets quickstart
  pinets certify "CCP(16, 4, rank=8, order=3)"
  pinets VERB --help

exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted"""

_WRONG_USAGE = ("UsageError", "ResolveError")  # by name: importing the module of the second would import torch


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (that of the process if left out) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        args = make_parser(words).parse_args(words)
    except SystemExit as end:  # argparse leaves this way, after help and after an error
        return end.code if isinstance(end.code, int) else 0
    try:
        with warnings_in_one_line(args.prog):
            if "code" in args:
                from pinets._resolve import import_file

                import_file(args.code)  # after which the recipes that it defines are known
            code: int = args.run(args)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print(f"{args.prog}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever was reading has read enough, as in `pinets expand ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if "traceback" in args:
            traceback.print_exc()
        else:
            print(f"{args.prog}: {explain(error)}", file=sys.stderr)
        return 2 if type(error).__name__ in _WRONG_USAGE else 1


@contextmanager
def warnings_in_one_line(prog: str) -> Iterator[None]:
    """Show warnings as errors are shown, without the line of code that gave them; deprecations are for developers."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        print(f"{prog}: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def make_parser(words: Sequence[str]) -> Parser:
    parser = Parser(
        prog="pinets",
        description="Deep polynomial neural networks: build, train, certify, expand, deploy.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pinets {__version__}")
    add_common_options(parser)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb", required=True, prog="pinets")
    named = next((word for word in words if not word.startswith("-")), None)
    for verb in [named] if named in VERBS else VERBS:  # a known verb does not wait for the others
        import_module(f"pinets.cli.{verb}").add_parser(verbs)
    return parser


def explain(error: Exception) -> str:
    """An error in one line, but for missing data: what to put where takes several."""
    lines = str(error).splitlines() if type(error).__name__ == "MissingDataError" else [str(error)]
    text = "\n  ".join(" ".join(line.split()) for line in lines)
    text = text.partition(" Exception raised from ")[0]  # torch's own frames in C++
    if isinstance(error, ModuleNotFoundError) and error.name == "numpy":  # the one that is imported as it is
        text += '; install it with: pip install "pinets[train]"'
    if type(error).__name__ == "UnknownRecipeError":  # by name: its module is not imported for every error
        text += " (--code FILE.py)"
    explained = isinstance(error, (ValueError, TypeError, RuntimeError, OSError, ImportError))
    return text if explained and text else f"{type(error).__name__}: {text}".rstrip(": ")
