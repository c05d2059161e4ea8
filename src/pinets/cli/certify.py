"""``pinets certify``: is this network a polynomial, and of which degree?"""

from __future__ import annotations

import argparse
import json

from pinets.cli.arguments import MODEL_HELP, add_model, example_input, read_model
from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "certify",
        run,
        summary="tell whether a network is a polynomial, and of which degree",
        details=f"{MODEL_HELP}\n\nexit codes: 0 it is a polynomial, 1 it is not, 2 wrong usage",
        example="""
            pinets certify "CCP(16, 4, rank=8, order=3)"
            pinets certify "Sequential(CCP(16, 8, rank=8, order=2), MaxPool1d(2))"
            pinets certify networks.py:resnet --input 3,32,32 --json
        """,
    )
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print the certificate as JSON")


def run(args: argparse.Namespace) -> int:
    model = read_model(args.model)
    example = example_input(model, args.input)

    from pinets.algebra import certify

    certificate = certify(model, example)
    if args.json:
        violations = [
            {"path": found.path, "operation": found.operation, "reason": found.reason}
            for found in certificate.violations
        ]
        found = {"polynomial": certificate.polynomial, "degree": certificate.degree, "violations": violations}
        print(json.dumps(found, indent=2))
    else:
        print(certificate)
    return 0 if certificate.polynomial else 1
