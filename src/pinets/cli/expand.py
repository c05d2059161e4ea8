"""``pinets expand``: the largest monomials of a polynomial network."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import MODEL_HELP, add_model, gigabytes, positive
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
            pinets expand houses.skops --top 20
            pinets expand runs/mnist_ccp4-small/seed-0 --top 5
        """,
    )
    add_model(parser)
    parser.add_argument("--top", metavar="K", type=positive, default=10, help="how many monomials (default: 10)")
    parser.add_argument("--output", metavar="J", type=int, help="of this output only, counted from 0")
    parser.add_argument("--latex", action="store_true", help="as a formula in LaTeX, one for each output")
    parser.add_argument(
        "--memory", metavar="GB", type=gigabytes, default=2.0, help="memory to use at most (default: 2)"
    )


def run(args: argparse.Namespace) -> int:
    import torch

    from pinets._resolve import resolve
    from pinets.algebra import expand

    found = resolve(args.model)
    model, example = found.network, found.example(args.input)
    with torch.no_grad():
        outputs = model.eval()(example).numel()
    if args.output is not None and not 0 <= args.output < outputs:
        raise UsageError(f"--output must be from 0 to {outputs - 1}, got {args.output}")
    chosen = range(outputs) if args.output is None else [args.output]
    if found.estimator is not None:
        for output in chosen:
            print_formula(found.estimator, output, outputs, args.top, latex=args.latex)
        return 0
    memory = int(args.memory * 1024**3)
    if args.latex:
        for output in chosen:
            expansion = expand(one_output(model, output, outputs), example, top=args.top, memory=memory)
            print(expansion.latex(top=args.top))
        return 0
    wanted = model if args.output is None else one_output(model, args.output, outputs)
    expansion = expand(wanted, example, top=args.top, memory=memory)
    print(f"degree {expansion.degree}, inputs {example.numel()}, outputs {outputs}; the largest monomials:")
    for monomial in expansion.top(args.top):
        print(f"output {chosen[monomial.output]}: {monomial}")
    return 0


def print_formula(estimator: Any, output: int, outputs: int, top: int, *, latex: bool) -> None:
    """The formula of one output of an estimator: columns by name, terms ranked by what they explain."""
    several_classes = outputs > 1 and hasattr(estimator, "classes_")
    formula = estimator.formula(output=estimator.classes_[output] if several_classes else output)
    if latex:
        print(formula.latex(top=top))
        return
    print(f"{formula.target} = {formula.constant:.4g} + the sum of {len(formula)} terms, the largest first:")
    print(formula.table(top))
    for name, level in formula.references.items():
        print(f"{name}: compared with {level}")


def one_output(model: nn.Module, output: int, outputs: int) -> nn.Module:
    """The model with one of its outputs, so that the largest monomials are those of this output."""
    import torch
    from torch import nn

    dtype = next((parameter.dtype for parameter in model.parameters()), None)
    select = nn.Linear(outputs, 1, bias=False, dtype=dtype)
    with torch.no_grad():
        select.weight.copy_(torch.eye(outputs)[[output]])
    return nn.Sequential(model, nn.Flatten(), select)
