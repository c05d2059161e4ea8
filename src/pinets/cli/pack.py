"""``pinets pack``: write faces as WebDataset shards."""

from __future__ import annotations

import argparse

from pinets.cli.arguments import positive
from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "pack",
        run,
        summary="write faces as WebDataset shards",
        details="SOURCE holds train.rec and train.idx of MXNet, or a folder for each person. Images are copied as they "
        "are; those that cannot be decoded are named, counted and left out.",
        example="""
            pinets pack faces_emore faces_emore_shards
            pinets pack lfw lfw_shards --per-shard 1000 --strict
        """,
    )
    parser.add_argument("source", metavar="SOURCE", help="a folder")
    parser.add_argument("folder", metavar="FOLDER", help="where the shards go; must not exist yet")
    parser.add_argument(
        "--per-shard", metavar="N", type=positive, default=10_000, help="images in a file (%(default)s)"
    )
    parser.add_argument("--strict", action="store_true", help="stop at the first image that cannot be decoded")


def run(args: argparse.Namespace) -> int:
    from pinets.data.damage import Damage
    from pinets.tasks.faces import pack

    packed = pack(args.source, args.folder, per_shard=args.per_shard, damage=Damage(strict=args.strict))
    print(
        f"{args.folder}: {packed.images:,} images of {packed.identities:,} identities in {packed.shards:,} shards; "
        f"{packed.damaged:,} could not be read"
    )
    return 0
