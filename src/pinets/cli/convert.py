"""``pinets convert``: a residual network becomes a Π-net that computes the same function at first."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import MODEL_HELP, add_model, file_ending_in, indices
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from torch import nn

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "convert",
        run,
        summary="turn a residual network into a Π-net of the same function",
        details=(
            f"{MODEL_HELP}\n\n"
            "Every block activation(s + r) becomes activation(s + r + alpha f(s * r)) with alpha = 0. The file has\n"
            "the weights, and unless MODEL is a name in Python the expression that builds the network, which\n"
            "pinets.spec.load reads."
        ),
        example="""
            pinets convert resnet50 --weights resnet50.pth --tanh --out pinet50.safetensors
            pinets convert "resnet18_cifar(width=16)" --local-convs 2 --depths 2,2,1,1 --out pinet.safetensors
            pinets convert networks.py:resnet --stages layer3,layer4 --out pinet.safetensors
        """,
    )
    add_model(parser)
    parser.add_argument("--out", metavar="FILE.safetensors", type=file_ending_in(".safetensors"), required=True)
    parser.add_argument(
        "--weights", metavar="FILE", help="load these weights first: a state dict as .safetensors, .pth or .pt"
    )
    parser.add_argument("--tanh", action="store_true", help="f is tanh, which bounds the product")
    parser.add_argument("--local-convs", metavar="N", type=int, default=0, help="1x1 convolutions in f (default: 0)")
    parser.add_argument("--stages", metavar="PATH,...", type=_words, help="convert only these parts")
    parser.add_argument(
        "--depths",
        metavar="N,...",
        type=indices,
        help="first keep only this many blocks of each stage; the function then changes",
    )


def run(args: argparse.Namespace) -> int:
    import torch

    from pinets._resolve import resolve
    from pinets.convert import to_pinet
    from pinets.convert.weights import load_weights

    found = resolve(args.model)
    if args.weights:
        if not Path(args.weights).is_file():
            raise UsageError(f"--weights: there is no file {args.weights}")
        load_weights(found.network, args.weights)

    options = {"tanh": args.tanh, "local_convs": args.local_convs, "stages": args.stages, "depths": args.depths}
    options = {name: value for name, value in options.items() if value not in (None, False, 0)}
    try:
        converted, report = to_pinet(found.network, **options)
    except ValueError as error:
        reason, _, reasons = str(error).partition("\n")
        if reasons:  # one line for each block; an error has only one
            print(reasons, file=sys.stderr)
        raise UsageError(reason) from error
    described = _write(args, converted, found.expression, options)  # first: printing fails where the reader has left
    print(report)
    if not report.dropped:
        x = found.example(args.input)
        with torch.no_grad():
            difference = float((found.network(x) - converted.eval()(x)).abs().max())
        print(f"largest difference of outputs: {difference:g}")
    print(f"written to {args.out}" + (f"; pinets.spec.load makes {described}" if described else ""))
    return 0


def _write(args: argparse.Namespace, converted: nn.Module, source: str | None, options: dict[str, Any]) -> str | None:
    """Write the file; return the expression in it, if there is one."""
    from pinets import spec
    from pinets._storage import write_tensors

    given = "".join(f", {name}={value!r}" for name, value in options.items())
    if source is not None:
        described = f"to_pinet({source}{given})"
        spec.save(args.out, converted, described)
        return described
    write_tensors(args.out, converted.state_dict(), {"converted": f"to_pinet({args.model}{given})"})
    return None


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]
