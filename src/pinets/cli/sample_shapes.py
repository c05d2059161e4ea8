"""``pinets sample reconstruct``, ``interpolate`` and ``arithmetic``: shapes from the autoencoders of runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pinets.cli.arguments import indices, positive
from pinets.cli.parser import Parser, UsageError, Words, add_verb

if TYPE_CHECKING:
    from torch import Tensor

    from pinets.tasks.meshes import ShapeModel

__all__ = ["add_parsers"]

_FORMATS = ["obj", "ply", "off", "stl", "gltf", "glb"]


def add_parsers(words: Words) -> None:
    summary = "write shapes and what the autoencoder makes of them, coloured by the error"
    parser = _add(words, "reconstruct", run_reconstruct, summary, example="--index 0,10,20")
    parser.add_argument("--index", type=indices, default=(0,), help="which shapes of the split (default: 0)")
    summary = "write the shapes on the way from one to another"
    parser = _add(words, "interpolate", run_interpolate, summary, example="--index 0,60 --steps 8")
    parser.add_argument("--index", type=indices, required=True, help="the first and the last, as 0,60")
    parser.add_argument("--steps", type=positive, default=8, help="shapes, both ends included (default: 8)")
    summary = "write the shape whose latent vector is that of A - B + C"
    parser = _add(words, "arithmetic", run_arithmetic, summary, example="--index 20,0,60")
    parser.add_argument("--index", type=indices, required=True, help="A, B and C, as 20,0,60")


def _add(words: Words, name: str, run: Callable[[argparse.Namespace], int], summary: str, *, example: str) -> Parser:
    command = f"pinets sample {name} runs/coma_spiral_ncp_3/seed-0 {example}"
    parser = add_verb(words, name, run, summary=summary, example=command)
    parser.add_argument("path", metavar="RUN", help="the run folder of an autoencoder of shapes")
    parser.add_argument("--data", metavar="DIR", help="where data sets are (default: $PINETS_DATA)")
    parser.add_argument("--split", choices=["train", "validation", "test"], default="test", help="(default: test)")
    parser.add_argument("--format", choices=_FORMATS, default="ply", help="(default: ply)")
    parser.add_argument("--out", metavar="FOLDER", default="shapes", help="where meshes go (default: shapes)")
    return parser


def run_reconstruct(args: argparse.Namespace) -> int:
    from pinets.tasks.meshes.drawing import error_colors

    model, shapes = _load(args)
    errors = model.errors(shapes)
    for number, shape, made, error in zip(args.index, shapes, model.reconstruct(shapes), errors, strict=True):
        _write(model, args, f"{number}-true", shape)
        _write(model, args, f"{number}-made", made, error_colors(error, float(errors.max())))
        print(f"shape {number}: mean error {float(error.mean()):.3f} mm, largest {float(error.max()):.3f} mm")
    print(f"written to {args.out}; the colours go from 0 to {float(errors.max()):.3f} mm")
    return 0


def run_interpolate(args: argparse.Namespace) -> int:
    _require_count(args.index, 2, "the first and the last shape, as 0,60")
    if args.steps < 2:
        raise UsageError(f"--steps: an interpolation has at least its 2 ends, got {args.steps}")
    model, shapes = _load(args)
    for number, shape in enumerate(model.interpolate(shapes[0], shapes[1], args.steps)):
        _write(model, args, f"step-{number}", shape)
    print(f"{args.steps} shapes written to {args.out}")
    return 0


def run_arithmetic(args: argparse.Namespace) -> int:
    _require_count(args.index, 3, "A, B and C, as 20,0,60")
    model, shapes = _load(args)
    for name, shape in zip("abc", shapes, strict=True):
        _write(model, args, name, shape)
    _write(model, args, "a-b+c", model.arithmetic(*shapes))
    print(f"a, b, c and a-b+c written to {args.out}")
    return 0


def _load(args: argparse.Namespace) -> tuple[ShapeModel, Tensor]:
    from pinets.tasks.meshes import load_shape_model

    model = load_shape_model(args.path, data_dir=args.data)
    shapes = getattr(model.splits, args.split).shapes
    for index in args.index:
        if index >= len(shapes):
            raise UsageError(f"--index: there is no shape {index}; {args.split} has 0 to {len(shapes) - 1}")
    return model, shapes[list(args.index)]


def _write(model: ShapeModel, args: argparse.Namespace, name: str, shape: Tensor, colors: Tensor | None = None) -> None:
    from pinets.tasks.meshes.geometry import write_mesh

    write_mesh(Path(args.out) / f"{name}.{args.format}", shape, model.template.faces, colors=colors)


def _require_count(chosen: tuple[int, ...], count: int, what: str) -> None:
    if len(chosen) != count:
        raise UsageError(f"--index: expected {what}; got {len(chosen)} numbers")
