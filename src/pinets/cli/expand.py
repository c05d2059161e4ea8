"""``pinets expand``: the largest monomials of a polynomial network."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pinets.cli.arguments import MODEL_HELP, add_model, positive, read_model_and_input
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from torch import nn

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "expand",
        run,
        summary="write a polynomial network out, its largest monomials first",
        details=MODEL_HELP,
        example="""
            pinets expand "CCP(4, 2, rank=3, order=2)" --top 5
            pinets expand model.safetensors --output 0 --latex
        """,
    )
    add_model(parser)
    parser.add_argument("--top", metavar="K", type=positive, default=10, help="how many monomials (default: 10)")
    parser.add_argument("--output", metavar="J", type=int, help="of this output only, counted from 0")
    parser.add_argument("--latex", action="store_true", help="as a formula in LaTeX, one for each output")


def run(args: argparse.Namespace) -> int:
    import torch

    from pinets.algebra import expand

    model, example = read_model_and_input(args.model, args.input)
    with torch.no_grad():
        outputs = model.eval()(example).numel()
    if args.output is not None and not 0 <= args.output < outputs:
        raise UsageError(f"--output must be from 0 to {outputs - 1}, got {args.output}")
    chosen = range(outputs) if args.output is None else [args.output]
    if args.latex:
        for output in chosen:
            print(expand(one_output(model, output, outputs), example, top=args.top).latex(top=args.top))
        return 0
    if args.output is None:
        expansion = expand(model, example, top=args.top)
    else:
        expansion = expand(one_output(model, args.output, outputs), example, top=args.top)
    print(f"degree {expansion.degree}, {example.numel()} inputs, {outputs} outputs; the largest monomials:")
    for monomial in expansion.top(args.top):
        if monomial.coefficient:
            print(f"output {chosen[monomial.output]}: {monomial}")
    return 0


def one_output(model: nn.Module, output: int, outputs: int) -> nn.Module:
    """The model with all its outputs but one left out, so that the largest monomials are those of that one."""
    import torch
    from torch import nn

    dtype = next((parameter.dtype for parameter in model.parameters()), None)
    select = nn.Linear(outputs, 1, bias=False, dtype=dtype)
    with torch.no_grad():
        select.weight.copy_(torch.eye(outputs)[[output]])
    return nn.Sequential(model, nn.Flatten(), select)
