"""Pairs of people that a run was trained on, who are recognised far better than strangers."""

from __future__ import annotations

import argparse

from pinets.cli.eval_faces.source import run_recipe
from pinets.cli.parser import UsageError

__all__ = ["tell_seen"]


def tell_seen(args: argparse.Namespace) -> dict[str, str]:
    """What to tell of such pairs; without --allow-seen they are refused."""
    seen = _seen_pairs(args)
    if seen is not None and not args.allow_seen:
        raise UsageError(
            f"{args.pack or args.list}: people of LFW that {args.run_folder} was trained on are {seen}; evaluate it on "
            "pairsDevTest.txt, or go on all the same by --allow-seen"
        )
    return {} if seen is None else {"people seen in training": seen}


def _seen_pairs(args: argparse.Namespace) -> str | None:
    """In how many pairs people are that the run saw, in words; None if in none. Only runs on LFW know their names."""
    from pinets.data import MissingDataError, data_folder
    from pinets.data.faces import parse_pairs
    from pinets.data.sets.lfw import find_lfw
    from pinets.recipes import LfwPeople

    if args.run_folder is None or not isinstance(run_recipe(args).data, LfwPeople):
        return None
    if args.pack is not None:  # CALFW and CPLFW are other images of LFW's people
        return "in an unknown number of pairs (packs name nobody)" if "lfw" in args.pack.stem.lower() else None
    try:
        listed = parse_pairs(find_lfw(data_folder(args.data)) / "pairsDevTrain.txt")
    except MissingDataError as error:
        return f"in an unknown number of pairs ({error})"
    # with those held out for validation, on whom the values of the recipes were chosen
    people = {name for pair in listed for name, _ in pair}
    pairs = parse_pairs(args.list)
    count = sum(first in people or second in people for (first, _), (second, _) in pairs)
    return f"in {count:,} of {len(pairs):,} pairs" if count else None
