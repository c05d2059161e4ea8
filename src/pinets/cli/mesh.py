"""``pinets mesh``: hierarchies of templates, and the report on autoencoders of shapes."""

from __future__ import annotations

import argparse
from pathlib import Path

from pinets.cli.arguments import file_ending_in, indices, positive
from pinets.cli.parser import UsageError, Verbs, add_verb

__all__ = ["add_parser"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "mesh",
        None,
        summary="prepare templates, and report on autoencoders of shapes",
        details="What a trained one makes of shapes: pinets sample reconstruct --help",
        example="""
            pinets mesh prepare template.obj
            pinets mesh report runs --out meshes.html
        """,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    _add_prepare(actions)
    _add_report(actions)


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
    parser.add_argument("--references", type=indices, default=(), help="vertices towards which spirals begin")
    parser.add_argument("--vertices", type=positive, help="reduce the template to so many vertices first")
    parser.add_argument("--levels", metavar="FOLDER", help="also write each level as a PLY file into this folder")


def run_prepare(args: argparse.Namespace) -> int:
    from pinets.tasks.meshes import geometry

    template = geometry.read_mesh(args.template)
    if args.vertices:
        if args.vertices > len(template.vertices):
            raise UsageError(f"--vertices: the template has {len(template.vertices):,}, fewer than {args.vertices:,}")
        _, template = geometry.collapse(template, args.vertices)
    ones = (1,) * (len(args.factors) + 1)
    plan = geometry.HierarchyPlan(args.factors, args.hops or ones, args.dilation or ones, args.lengths, args.references)
    try:
        plan.check()
    except ValueError as error:
        raise UsageError(str(error)) from error
    hierarchy, path = geometry.cached_hierarchy(template, plan)
    print(f"{args.template}: {len(template.vertices):,} vertices, {len(template.faces):,} faces")
    print(f"{'level':>5}{'vertices':>10}{'faces':>10}{'spiral':>8}{'padding':>9}{'error of going down and up':>28}")
    for number, level in enumerate(geometry.describe_levels(hierarchy)):
        lost = "" if level.round_trip is None else f"{level.round_trip:.3%} of the size"
        print(f"{number:5}{level.vertices:10,}{level.faces:10,}{level.spiral:8}{level.padding:9.0%}{lost:>28}")
        if args.levels:
            mesh = hierarchy.levels[number].mesh
            geometry.write_mesh(Path(args.levels) / f"level-{number}.ply", mesh.vertices, mesh.faces)
    lengths = ",".join(map(str, geometry.undilated_lengths(hierarchy, plan)))
    print(f"for a recipe: --set hierarchy.lengths={lengths}\nkept in {path}")
    return 0


def _add_report(actions: Verbs) -> None:
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
    parser.add_argument(
        "--out",
        metavar="FILE.html",
        type=file_ending_in(".html"),
        default="meshes.html",
        help="(default: %(default)s)",
    )
    parser.add_argument("--png", metavar="FOLDER", help="also write the figures as PNG files")


def run_report(args: argparse.Namespace) -> int:
    from pinets.tasks.meshes import write_mesh_report

    table = write_mesh_report(args.paths, args.out, data_dir=args.data, index=args.index, png=args.png)
    print(f"{table}\nwritten to {args.out}")
    return 0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(positive(part) for part in text.split(","))
