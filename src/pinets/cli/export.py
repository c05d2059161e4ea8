"""``pinets export``: write a network as a file that works without pinets."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import MODEL_HELP, shape
from pinets.cli.parser import UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from pinets import Resolved

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "export",
        run,
        summary="write a network as ONNX, torch.export, safetensors, or a page that runs it in a browser",
        details=(
            "The file takes any number of inputs at a time, and carries the recipe, the names of the classes, the\n"
            "preprocessing and the certified degree.\n\n"
            f"RUN is a run folder, or a MODEL.\n\n{MODEL_HELP}"
        ),
        example="""
            pinets export runs/mnist_ccp4-small/seed-0 --to onnx --fold
            pinets export runs/mnist_ccp4-small/seed-0 --to html --runtime node_modules/onnxruntime-web/dist
            pinets export "CCP(16, 4, rank=8, order=3)" --to torch_export --out cubic.pt2
        """,
    )
    parser.add_argument("source", metavar="RUN", help="a run folder, or a model")
    targets = ("onnx", "torch_export", "safetensors", "html")
    parser.add_argument(
        "--to",
        required=True,
        choices=(*targets, "skops"),  # the last is answered with what to do instead
        metavar=f"{{{','.join(targets)}}}",
        help="the kind of file",
    )
    parser.add_argument(
        "--runtime", metavar="DIR", help="for html: node_modules/onnxruntime-web/dist, which the page will hold"
    )
    parser.add_argument("--out", metavar="FILE", help="where to write (default: in the run folder, or here)")
    parser.add_argument("--fold", action="store_true", help="merge batch norms into the operators before them")
    parser.add_argument("--input", metavar="SHAPE", type=shape, help="shape of one input without the batch, as 3,32,32")
    parser.add_argument("--network", metavar="NAME", help="which network of the run, where there are several")
    parser.add_argument("--data", metavar="DIR", help="where datasets are, for classes and preprocessing")


def run(args: argparse.Namespace) -> int:
    from pinets._resolve import resolve
    from pinets.export import SUFFIXES, describe, export

    if args.to == "skops":
        raise UsageError(
            "estimators are written in Python, with skops.io.dump(net, 'net.skops'); pinets export net.skops --to onnx "
            "then takes their polynomial elsewhere, and networks are written --to safetensors"
        )
    if args.fold and args.to == "safetensors":
        raise UsageError("--fold changes the network, and safetensors holds weights alone: use --to onnx")
    found = resolve(args.source, network=args.network, data_dir=args.data)
    if args.input is None and found.shape_is_assumed:
        assumed = ",".join(map(str, found.input_shape or ()))
        raise UsageError(f"say the size of an input, as --input {assumed}: the file takes no other")
    example = found.example(args.input)
    out = Path(args.out or Path("." if found.run is None else args.source) / f"model{SUFFIXES[args.to]}")
    if out.suffix != SUFFIXES[args.to]:
        raise UsageError(f"--out {out}: a file for --to {args.to} must end in {SUFFIXES[args.to]}")
    metadata = describe(found.network, example, model=found.expression, **_known(found))
    metadata = export(found.network, example, out, to=args.to, fold=args.fold, metadata=metadata, runtime=args.runtime)
    kind = f"a polynomial of degree {metadata.degree}" if metadata.degree is not None else "not a certified polynomial"
    folded = f", {metadata.folded} batch norms folded" if args.fold else ""
    print(f"{out}: {kind}, inputs {'x'.join(map(str, metadata.input_shape))}{folded}, {out.stat().st_size:,} bytes")
    return 0


def _known(found: Resolved) -> dict[str, Any]:
    """The facts about the network that a run, weights or an estimator carry."""
    from pinets.tasks import to_json

    if found.estimator is not None:
        fitted = {"estimator": repr(found.estimator), "output": ", ".join(found.estimator.output_names())}
        return {"classes": found.classes, "preprocessing": found.preprocessing, "recipe": fitted}
    if found.recipe is None:
        return {}
    if found.run is not None and (missing := found.run.inputs.missing):
        lacking = [word for word in ("classes", "preprocessing") if getattr(found, word) is None]
        print(f"{found.text}: without {' and '.join(lacking)}, {missing}", file=sys.stderr)
    return {"classes": found.classes, "preprocessing": found.preprocessing, "recipe": to_json(found.recipe)}
