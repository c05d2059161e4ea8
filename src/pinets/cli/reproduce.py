"""``pinets reproduce``: a table or figure of the paper in one command, with the paper's figures beside ours."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import positive
from pinets.cli.parser import UsageError, Verbs, add_verb
from pinets.cli.train import add_recipe_options, read_recipe

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "reproduce",
        run,
        summary="make a table or figure of the paper: train what it compares, and write one page about it",
        details="Without a name it lists the experiments. Finished runs are not run again, interrupted ones go on. The "
        "page, NAME-small.md with its pictures, says what a smaller scale changes.",
        example="""
            pinets reproduce
            pinets reproduce fashion --scale small
            pinets reproduce cifar10 --scale small --seeds 3 --pages results
            pinets reproduce --all --scale medium
            pinets reproduce motions --scale medium --pages results --finished
        """,
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="an experiment; left out: list them")
    parser.add_argument("--all", action="store_true", help="every experiment that has the scale, one after the other")
    add_recipe_options(parser)
    parser.add_argument("--seeds", metavar="N", type=positive, help="runs of each (default: as the experiment says)")
    parser.add_argument(
        "--pages",
        metavar="DIR",
        help="where the page goes, with results and curves of its runs: these then count as finished on any machine "
        "(default: the page alone, where the runs are)",
    )
    parser.add_argument(
        "--finished", action="store_true", help="train nothing: make the page from the runs that are finished"
    )


def run(args: argparse.Namespace) -> int:
    from pinets.report import summarize, text_table
    from pinets.tasks.experiments import EXPERIMENTS, get_experiment
    from pinets.tasks.reproduction import experiments_at, reproduce

    if args.all and args.name is not None:
        raise UsageError(f"--all makes every experiment: leave out {args.name!r}")
    if args.name is None and not args.all:
        width = max(map(len, EXPERIMENTS))
        print(*(f"{name:{width}}  {experiment.title}" for name, experiment in EXPERIMENTS.items()), sep="\n")
        return 0
    names = experiments_at(args.scale) if args.all else [args.name]
    try:
        for name in names:
            for recipe in get_experiment(name).names(args.scale):
                read_recipe(recipe, args)  # refuse a wrong --set before anything is trained
    except ValueError as error:
        raise UsageError(str(error)) from error
    for name in names:
        made = reproduce(
            name,
            args.scale,
            changes=args.set,
            seeds=args.seeds,
            out=args.out,
            pages=args.pages,
            data_dir=args.data,
            train=not args.finished,
        )
        if made is not None:
            print(text_table([summarize(network, runs) for network, runs in made.groups.items()]))
            print(f"page: {made.page}")
    return 0
