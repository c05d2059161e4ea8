"""``pinets reproduce``: a table or figure of the paper in one command, with the paper's figures beside ours."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from pinets.cli.arguments import positive
from pinets.cli.parser import UsageError, Verbs, add_verb
from pinets.cli.train import add_recipe_options, read_recipe

if TYPE_CHECKING:
    from pinets.report.training import Groups

__all__ = ["add_parser", "run"]

_SAMPLES = 64


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "reproduce",
        run,
        summary="make a table or figure of the paper: train what it compares, and write one page about it",
        details="Without a name it lists what there is. Finished runs are not run again, interrupted ones go on. The "
        "page, NAME.md with its pictures, says what small scale does otherwise than the paper.",
        example="""
            pinets reproduce
            pinets reproduce fashion --scale small
            pinets reproduce cifar10 --scale small --seeds 3 --pages results
        """,
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="an experiment; left out: list them")
    add_recipe_options(parser)
    parser.add_argument("--seeds", metavar="N", type=positive, help="runs of each (default: as the experiment says)")
    parser.add_argument("--pages", metavar="DIR", help="where the page goes (default: where the runs are)")


def run(args: argparse.Namespace) -> int:
    from pinets import recipes
    from pinets.recipes.catalogue.experiments import EXPERIMENTS, get_experiment
    from pinets.report.experiment import write_experiment
    from pinets.report.training import summarize, text_table

    if args.name is None:
        width = max(map(len, EXPERIMENTS))
        print(*(f"{name:{width}}  {experiment.title}" for name, experiment in EXPERIMENTS.items()), sep="\n")
        return 0
    try:
        experiment = get_experiment(args.name)
    except ValueError as error:
        raise UsageError(str(error)) from error
    chosen = [read_recipe(name, args) for name in experiment.names(args.scale)]
    seeds = args.seeds or experiment.runs(args.scale)
    folders = recipes.compare(chosen, seeds, args.out, data_dir=args.data)
    if not recipes.is_main_process():
        return 0
    groups = {recipe.title: runs for recipe, runs in zip(chosen, folders, strict=True)}
    print(text_table([summarize(name, runs) for name, runs in groups.items()]))
    pages = Path(args.pages or args.out)
    pages.mkdir(parents=True, exist_ok=True)
    draw = {"samples": _draw_samples, "shapes": _draw_shapes, "faces": _draw_faces, None: lambda *_: {}}
    pictures = draw[experiment.picture](args, groups, pages)
    tables = _light_tables(args, groups) if experiment.picture == "faces" else {}
    page = write_experiment(args.name, experiment.title, _command(args, seeds), chosen, groups, pages, pictures, tables)
    print(f"page: {page}")
    return 0


def _draw_samples(args: argparse.Namespace, groups: Groups, pages: Path) -> dict[str, str]:
    """Real images, and those of each generator's first run."""
    from pinets import recipes
    from pinets.report.pictures import side_by_side

    first = {name: runs[0].path for name, runs in groups.items()}
    panels = {"real": recipes.real_images(next(iter(first.values())), _SAMPLES, data_dir=args.data)}
    panels |= {name: recipes.sample(path, _SAMPLES) for name, path in first.items()}
    file = f"{args.name}-samples.png"
    side_by_side(panels, pages / file)
    return {file: "Images of the test set, and samples of seed 0: the first that come, none picked."}


def _draw_shapes(args: argparse.Namespace, groups: Groups, pages: Path) -> dict[str, str]:
    """Error against order, and a test shape coloured by the errors of each order; to be turned, beside the runs."""
    from pinets.report.mesh import write_mesh_report

    paths = [run.path for runs in groups.values() for run in runs]
    write_mesh_report(paths, Path(args.out) / f"{args.name}.html", data_dir=args.data, png=pages / args.name)
    return {
        f"{args.name}/error-against-order.png": "Mean error against the order of the layers.",
        f"{args.name}/shape-errors.png": "The first test shape, and what NCP makes of it without activations.",
    }


def _draw_faces(args: argparse.Namespace, groups: Groups, pages: Path) -> dict[str, str]:
    """ROC curves on every set of pairs the recipes test on."""
    from pinets._files import write_bytes
    from pinets.report.face_experiment import roc_drawing, score_test_pairs

    drawn = {}
    for data, results in score_test_pairs(groups, args.data).items():
        file = f"{args.name}-roc-{data}.svg"
        write_bytes(pages / file, roc_drawing(results).encode())
        drawn[file] = f"ROC on the pairs of {data}, mirror images added; the band is one standard deviation."
    return drawn


def _light_tables(args: argparse.Namespace, groups: Groups) -> dict[str, list[list[str]]]:
    from pinets.report.face_experiment import light_table, score_lights

    found = score_lights(groups, args.data)
    if not found:
        return {}
    about = next(iter(found.values()))[0].settings["gallery"]
    return {f"Who is it, on Extended Yale B by illumination (gallery: {about}):": light_table(found)}


def _command(args: argparse.Namespace, seeds: int) -> str:
    """The command as it can be typed anywhere: without this machine's folders."""
    words = ["pinets", "reproduce", args.name, "--scale", args.scale, "--seeds", str(seeds)]
    return shlex.join([*words, *(word for change in args.set for word in ("--set", change))])
