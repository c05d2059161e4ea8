"""``pinets export``: a network as a file that needs no pinets to be used."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import MODEL_HELP, built_from, example_input, input_of_run, read_model, shape
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "export",
        run,
        summary="write a network as ONNX, torch.export or safetensors",
        details=(
            "The file takes any number of inputs at a time, and carries the recipe, the names of the classes, the\n"
            "preprocessing and the certified degree.\n\n"
            f"RUN is a run folder, or a MODEL.\n\n{MODEL_HELP}"
        ),
        example="""
            pinets export runs/mnist_ccp4-small/seed-0 --to onnx --fold
            pinets export "CCP(16, 4, rank=8, order=3)" --to torch_export --out cubic.pt2
        """,
    )
    parser.add_argument("source", metavar="RUN", help="a run folder, or a model")
    parser.add_argument("--to", required=True, choices=["onnx", "torch_export", "safetensors"], help="the kind of file")
    parser.add_argument("--out", metavar="FILE", help="where to write (default: in the run folder, or here)")
    parser.add_argument("--fold", action="store_true", help="make batch norms part of the operators before them")
    parser.add_argument("--input", metavar="SHAPE", type=shape, help="shape of one input without the batch, as 3,32,32")
    parser.add_argument("--network", metavar="NAME", help="which network of the run, where there are several")
    parser.add_argument("--data", metavar="DIR", help="where data sets are, for classes and preprocessing")


def run(args: argparse.Namespace) -> int:
    from pinets.deploy.export import SUFFIXES, describe, export

    if args.fold and args.to == "safetensors":
        raise UsageError("--fold changes the network, and safetensors holds weights alone: use --to onnx")
    is_run = Path(args.source).is_dir()
    model, example, known = _from_run(args) if is_run else _from_model(args)
    out = Path(args.out or Path(args.source if is_run else ".") / f"model{SUFFIXES[args.to]}")
    if out.suffix != SUFFIXES[args.to]:
        raise UsageError(f"--out {out}: a file for --to {args.to} must end in {SUFFIXES[args.to]}")
    metadata = export(model, example, out, to=args.to, fold=args.fold, metadata=describe(model, example, **known))
    kind = f"a polynomial of degree {metadata.degree}" if metadata.degree is not None else "not a certified polynomial"
    folded = f", {metadata.folded} batch norms folded" if args.fold else ""
    print(f"{out}: {kind}, inputs {'x'.join(map(str, metadata.input_shape))}{folded}, {out.stat().st_size:,} bytes")
    return 0


def _from_model(args: argparse.Namespace) -> tuple[nn.Module, Tensor, dict[str, Any]]:
    model = read_model(args.source)
    example = example_input(model, args.input or _usual_input(args.source, model))
    return model.eval(), example, {"model": built_from(args.source)}


def _usual_input(source: str, model: nn.Module) -> tuple[int, ...] | None:
    """The shape that a registered model usually takes; of others, heights and widths are not guessed."""
    from pinets.models import list_models, model_entry
    from pinets.spec import infer_input

    name = source.partition("(")[0]
    if name in list_models():
        return model_entry(name).input_shape
    shape = infer_input(model)
    if shape is not None and len(shape) > 1:
        raise UsageError(f"say the size of an input, as --input {','.join(map(str, shape))}: the file takes no other")
    return shape


def _from_run(args: argparse.Namespace) -> tuple[nn.Module, Tensor, dict[str, Any]]:
    from pinets import recipes

    found = recipes.trained(args.source, network=args.network, data_dir=args.data)
    if found.missing:
        lacking = [word for word in ("classes", "preprocessing") if getattr(found, word) is None]
        print(f"{args.source}: without {' and '.join(lacking)}, {found.missing}", file=sys.stderr)
    example = example_input(found.network, args.input or input_of_run(found))
    known = {"classes": found.classes, "preprocessing": found.preprocessing, "model": found.expression}
    return found.network, example, {**known, "recipe": recipes.to_json(found.recipe)}
