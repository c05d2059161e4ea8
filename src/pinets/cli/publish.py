"""``pinets publish``: a finished run as a file of weights with its card."""

from __future__ import annotations

import argparse

from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "publish",
        run,
        summary="write the weights of a finished run as a file with its card",
        details="Writes DIR/NAME.safetensors and DIR/NAME.md. Matrices and kernels are stored in float16 if that loses "
        "nothing. With PINETS_WEIGHTS=DIR, pinets list weights shows the file, and all verbs take its name.",
        example="pinets publish runs/mnist_ccp4-small/seed-0 my_digits --to weights",
    )
    parser.add_argument("run_folder", metavar="RUN", help="a finished run folder")
    parser.add_argument("name", metavar="NAME", help="of the weights")
    parser.add_argument("--to", metavar="DIR", default="weights", help="folder to write into (default: weights)")
    parser.add_argument("--summary", default="", help="one line about the weights")
    parser.add_argument("--data", metavar="DIR", help="folder of the datasets (default: that of the run)")


def run(args: argparse.Namespace) -> int:
    import pinets.tasks  # noqa: F401  all kinds of recipes are known then
    from pinets.tasks.publish import publish

    try:
        card = publish(args.run_folder, args.name, args.to, summary=args.summary, data_dir=args.data)
    except (ValueError, OSError) as error:
        raise type(error)(f"{error}; nothing was written") from error
    print(f"{args.to}/{args.name}.safetensors: {card.summary} ({card.precision})")
    return 0
