"""argparse, answering unknown words with the nearest known one, and one way to declare a verb."""

from __future__ import annotations

import argparse
import itertools
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

from pinets._nearest import did_you_mean

__all__ = ["Parser", "UsageError", "Verbs", "Words", "add_common_options", "add_verb"]

_NUMBERS = re.compile(r"-\.?\d[\d.,eE+-]*$")  # values that begin with a minus, such as -1,1

Verbs: TypeAlias = "argparse._SubParsersAction[Parser]"


class UsageError(ValueError):
    """A usage error that only the verb itself can detect."""


class Parser(argparse.ArgumentParser):
    """An argument parser that takes no abbreviations and suggests the nearest word."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self._negative_number_matcher = _NUMBERS  # by argparse's own, -1,1 would be an option
        self.words = Words(self)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Check the options first, or a misspelt one is reported as whatever it made argparse stumble on."""
        if args and args[0] in self.words.parsers:
            return self.words.parsers[args[0]].parse_known_args(args[1:], namespace)
        for word in args or ():
            is_option = word.startswith("-")
            if word == "--" or (self._subparsers is not None and not is_option):
                break  # what follows belongs to the verb
            name = word.partition("=")[0]
            if name.startswith("--") and name not in self._option_string_actions:
                known = [option for option in self._option_string_actions if option.startswith("--")]
                self.error(f"unknown option {name!r}{did_you_mean(name, known)}")
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            what = action.option_strings[0] if action.option_strings else str(action.metavar or action.dest).lower()
            self.error(f"unknown {what} {value!r}{did_you_mean(str(value), map(str, action.choices))}")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n{' ' * len(self.prog)}  see {self.prog} --help\n")


class Words:
    """Verbs that may stand where a verb's first argument would: ``pinets eval faces`` beside ``pinets eval RUN``."""

    def __init__(self, parent: Parser) -> None:
        self.parent = parent
        self.parsers: dict[str, Parser] = {}

    def add_parser(self, name: str, *, help: str, **settings: Any) -> Parser:
        self.parsers[name] = Parser(prog=f"{self.parent.prog} {name}", **settings)
        return self.parsers[name]


def add_verb(
    verbs: Verbs | Words,
    name: str,
    run: Callable[[argparse.Namespace], int] | None,
    *,
    summary: str,
    details: str = "",
    example: str,
) -> Parser:
    """Declare a verb and return its parser, for the verb's own arguments.

    Args:
        verbs: What ``add_parser`` of a verb's module is given.
        name: The word on the command line.
        run: Called with the parsed arguments; returns the exit code. None for a verb that only has verbs of its own.
        summary: One line, for the list of verbs.
        details: What the verb's own help says below the summary.
        example: Command lines, one per line.
    """
    description = f"{summary[0].upper()}{summary[1:]}.\n\n{details}".rstrip()
    parser = verbs.add_parser(
        name,
        help=summary,
        description=fill(description),
        epilog="example:\n" + "\n".join(f"  {line.strip()}" for line in example.strip().splitlines()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_common_options(parser)
    parser.set_defaults(run=run, prog=parser.prog)
    return parser


def fill(text: str, width: int = 80) -> str:
    r"""Break running text into lines; empty lines end it, and indented ones are tables, which stay as they are.

    >>> print(fill("Some\nmore words.\n\nA table:\n  one    two", width=10))
    Some more
    words.
    <BLANKLINE>
    A table:
      one    two
    """
    parts = itertools.groupby(text.splitlines(), key=lambda line: not line or line[0] == " ")
    return "\n".join(
        "\n".join(lines) if as_it_is else textwrap.fill(" ".join(lines), width) for as_it_is, lines in parts
    )


def add_common_options(parser: Parser) -> None:
    """Add the options of all verbs; without defaults, or those of a verb would overwrite what stood before the verb."""
    parser.add_argument(
        "--traceback", action="store_true", default=argparse.SUPPRESS, help="show where an error came from"
    )
    parser.add_argument(
        "--code",
        metavar="FILE.py",
        default=argparse.SUPPRESS,
        help="execute a Python file of yours first, for runs whose recipe it defines",
    )
