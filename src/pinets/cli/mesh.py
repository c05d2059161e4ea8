"""``pinets mesh``: hierarchies of templates, and what a trained autoencoder of shapes can do."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pinets.cli.arguments import positive
from pinets.cli.parser import Parser, UsageError, Verbs, add_verb

if TYPE_CHECKING:
    from torch import Tensor

    from pinets.recipes.shapes import ShapeModel

__all__ = ["add_parser"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "mesh",
        None,
        summary="prepare templates, and reconstruct, interpolate and compare shapes",
        example="""
            pinets mesh prepare template.obj
            pinets mesh reconstruct runs/coma_spiral_ncp_3/seed-0 --index 0,10 --format ply
        """,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    _add_prepare(actions)
    _add_reconstruct(actions)
    _add_interpolate(actions)
    _add_arithmetic(actions)
    _add_figures(actions)


def _add_prepare(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "prepare",
        run_prepare,
        summary="down-sample a template, find its spirals, and keep both on disk",
        details="Prints each level, and the lengths of the spirals by the published rule, which a recipe needs.",
        example="""
            pinets mesh prepare template.obj
            pinets mesh prepare body.ply --factors 4,4,4,4 --hops 2,2,1,1,1 --dilation 2,2,1,1,1 --references 414
        """,
    )
    parser.add_argument("template", metavar="TEMPLATE", help="a mesh: OBJ, PLY, OFF, STL or glTF")
    parser.add_argument("--factors", type=_numbers, default=(4, 4, 4, 4), help="fewer vertices by (default: 4,4,4,4)")
    parser.add_argument("--hops", type=_numbers, help="turns of the spirals at each level (default: 1)")
    parser.add_argument("--dilation", type=_numbers, help="take every so many vertices of a spiral (default: 1)")
    parser.add_argument("--lengths", type=_numbers, help="of the spirals at each level (default: mean + 2 deviations)")
    parser.add_argument("--references", type=_indices, default=(), help="vertices towards which spirals begin")
    parser.add_argument("--vertices", type=positive, help="reduce the template to so many vertices first")
    parser.add_argument("--levels", metavar="FOLDER", help="also write each level as a PLY file into this folder")


def run_prepare(args: argparse.Namespace) -> int:
    from pinets.mesh import HierarchyPlan, cached_hierarchy, collapse, read_mesh, write_mesh

    template = read_mesh(args.template)
    if args.vertices:
        _, template = collapse(template, args.vertices)
    ones = (1,) * (len(args.factors) + 1)
    plan = HierarchyPlan(args.factors, args.hops or ones, args.dilation or ones, args.lengths, args.references)
    try:
        plan.check()
    except ValueError as error:
        raise UsageError(str(error)) from error
    hierarchy, path = cached_hierarchy(template, plan)
    print(f"{args.template}: {len(template.vertices):,} vertices, {len(template.faces):,} faces")
    print(f"{'level':>5}{'vertices':>10}{'faces':>10}{'spiral':>8}{'padding':>9}{'error of going down and up':>28}")
    size = float((template.vertices.max(0).values - template.vertices.min(0).values).norm())
    for number, level in enumerate(hierarchy.levels):
        vertices, spirals = level.mesh.vertices, level.spirals
        lost = ""
        if number + 1 < len(hierarchy.levels):
            indices, weights = hierarchy.up[number]
            back = (hierarchy.levels[number + 1].mesh.vertices[indices] * weights[:, :, None]).sum(1)
            lost = f"{float((back - vertices).norm(dim=1).mean()) / size:.3%} of the size"
        padding = float((spirals == len(vertices)).double().mean())
        print(f"{number:5}{len(vertices):10,}{len(level.mesh.faces):10,}{spirals.shape[1]:8}{padding:9.0%}{lost:>28}")
        if args.levels:
            write_mesh(Path(args.levels) / f"level-{number}.ply", vertices, level.mesh.faces)
    print(f"lengths={','.join(map(str, hierarchy.lengths))}\nkept in {path}")
    return 0


def _add_run(parser: Parser) -> None:
    parser.add_argument("path", metavar="RUN", help="the run folder of an autoencoder of shapes")
    parser.add_argument("--data", metavar="DIR", help="where data sets are (default: $PINETS_DATA)")
    parser.add_argument("--split", choices=["train", "validation", "test"], default="test", help="(default: test)")
    parser.add_argument("--format", choices=["obj", "ply", "off", "stl", "glb"], default="ply", help="(default: ply)")
    parser.add_argument("--out", metavar="FOLDER", default="shapes", help="where meshes go (default: shapes)")


def _add_reconstruct(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "reconstruct",
        run_reconstruct,
        summary="write shapes and what the autoencoder makes of them, coloured by the error",
        example="pinets mesh reconstruct runs/coma_spiral_ncp_3/seed-0 --index 0,10,20",
    )
    _add_run(parser)
    parser.add_argument("--index", type=_indices, default=(0,), help="which shapes of the split (default: 0)")


def run_reconstruct(args: argparse.Namespace) -> int:
    from pinets.report.mesh import error_colors

    model, shapes = _load(args, args.index)
    errors = model.errors(shapes)
    for number, shape, made, error in zip(args.index, shapes, model.reconstruct(shapes), errors, strict=True):
        _write(model, args, f"{number}-true", shape)
        _write(model, args, f"{number}-made", made, error_colors(error, float(errors.max())))
        print(f"shape {number}: mean error {float(error.mean()):.3f} mm, largest {float(error.max()):.3f} mm")
    print(f"written to {args.out}; the colours go from 0 to {float(errors.max()):.3f} mm")
    return 0


def _add_interpolate(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "interpolate",
        run_interpolate,
        summary="write the shapes on the way from one to another",
        example="pinets mesh interpolate runs/coma_spiral_ncp_3/seed-0 --index 0,60 --steps 8",
    )
    _add_run(parser)
    parser.add_argument("--index", type=_indices, required=True, help="the first and the last, as 0,60")
    parser.add_argument("--steps", type=positive, default=8, help="shapes, both ends included (default: 8)")


def run_interpolate(args: argparse.Namespace) -> int:
    _require_count(args.index, 2, "the first and the last shape, as 0,60")
    model, shapes = _load(args, args.index)
    for number, shape in enumerate(model.interpolate(shapes[0], shapes[1], args.steps)):
        _write(model, args, f"step-{number}", shape)
    print(f"{args.steps} shapes written to {args.out}")
    return 0


def _add_arithmetic(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "arithmetic",
        run_arithmetic,
        summary="write the shape whose latent vector is that of A - B + C",
        example="pinets mesh arithmetic runs/coma_spiral_ncp_3/seed-0 --index 20,0,60",
    )
    _add_run(parser)
    parser.add_argument("--index", type=_indices, required=True, help="A, B and C, as 20,0,60")


def run_arithmetic(args: argparse.Namespace) -> int:
    _require_count(args.index, 3, "A, B and C, as 20,0,60")
    model, shapes = _load(args, args.index)
    for name, shape in zip("abc", shapes, strict=True):
        _write(model, args, name, shape)
    _write(model, args, "a-b+c", model.arithmetic(*shapes))
    print(f"a, b, c and a-b+c written to {args.out}")
    return 0


def _add_figures(actions: Verbs) -> None:
    parser = add_verb(
        actions,
        "report",
        run_report,
        summary="write error against order, and a shape coloured by the errors of each order, as one HTML page",
        details="RUNS are folders of runs of one set of shapes and one latent size. The shapes can be turned.",
        example="pinets mesh report runs --out meshes.html --index 30",
    )
    parser.add_argument("paths", metavar="RUNS", nargs="+", help="run folders, or folders of them")
    parser.add_argument("--data", metavar="DIR", help="where data sets are (default: $PINETS_DATA)")
    parser.add_argument("--index", type=int, default=0, help="the test shape that is shown (default: 0)")
    parser.add_argument("--out", metavar="FILE", default="meshes.html", help="(default: %(default)s)")
    parser.add_argument("--png", metavar="FOLDER", help="also write the figures as PNG files")


def run_report(args: argparse.Namespace) -> int:
    from pinets.report.mesh import write_mesh_report

    table = write_mesh_report(args.paths, args.out, data_dir=args.data, index=args.index, png=args.png)
    print(f"{table}\nwritten to {args.out}")
    return 0


def _load(args: argparse.Namespace, indices: tuple[int, ...]) -> tuple[ShapeModel, Tensor]:
    from pinets.recipes.shapes import load_shape_model

    model = load_shape_model(args.path, data_dir=args.data)
    shapes = getattr(model.splits, args.split).shapes
    for index in indices:
        if index >= len(shapes):
            raise UsageError(f"--index: there is no shape {index}; {args.split} has 0 to {len(shapes) - 1}")
    return model, shapes[list(indices)]


def _write(model: ShapeModel, args: argparse.Namespace, name: str, shape: Tensor, colors: Tensor | None = None) -> None:
    from pinets.mesh import write_mesh

    write_mesh(Path(args.out) / f"{name}.{args.format}", shape, model.template.faces, colors=colors)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(positive(part) for part in text.split(","))


def _indices(text: str) -> tuple[int, ...]:
    """Read numbers from 0 on, as 0,10,20."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"expected numbers from 0 on, as 0,10,20; got {text!r}")
    return tuple(map(int, parts))


def _require_count(indices: tuple[int, ...], count: int, what: str) -> None:
    if len(indices) != count:
        raise UsageError(f"--index: expected {what}; got {len(indices)} numbers")
