"""``pinets train images``, ``sounds`` and ``meshes``: networks for data of one's own."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from pinets.cli.parser import UsageError, Words, add_verb
from pinets.cli.train import add_run_options, add_value_options, train_all, values_checked

__all__ = ["add_parsers"]

_CLASSIFIERS = """NETWORK is one of
  strict     a polynomial of the input, certified (the default)
  prodpoly   Prodpoly-ResNet: products and ReLU
  resnet     the residual network it is compared with
Several, as strict,resnet, are trained one after the other and end in a table."""

_DETAILS = {
    "images": f"""FOLDER has one folder of images per class, or train/ and test/ (or val/) with such folders. Classes,
size, channels and normalisation are read from it.

{_CLASSIFIERS}

Images are mirrored at random: --set data.flip=no for digits and letters.
--set data.size=64 for another size, --set epochs=20 for another length.""",
    "sounds": f"""FOLDER has one folder of WAV or FLAC files per class, or train/ and test/ with such folders. Of each
recording the loudest second is kept.

{_CLASSIFIERS}""",
    "meshes": """FOLDER has train/ and test/ with one mesh file per shape, all of one topology. Vertices, levels and
spirals are read from it.

NETWORK is one of
  ncp      a Spiral Π-net, NCP of order 3 (the default)
  spiral   the spiral network it is compared with
  pca      principal components
--set data.millimetres=1000 if the unit is a metre, so that errors are in mm.""",
}
_SUMMARIES = {
    "images": "train a classifier on a folder of your own images",
    "sounds": "train a classifier on a folder of your own sounds",
    "meshes": "train an autoencoder on a folder of your own shapes",
}


def add_parsers(words: Words) -> None:
    for kind, summary in _SUMMARIES.items():
        run: Callable[[argparse.Namespace], int] = partial(run_own, kind)
        example = f"pinets train {kind} --data my_{kind}\npinets train {kind} --data my_{kind} --dry-run"
        parser = add_verb(words, kind, run, summary=summary, details=_DETAILS[kind], example=example)
        parser.add_argument("--data", metavar="FOLDER", required=True, help="your data; the run is named after it")
        parser.add_argument("--network", metavar="NETWORK", help="one or several of those above")
        add_value_options(parser)
        add_run_options(parser)


def run_own(kind: str, args: argparse.Namespace) -> int:
    from pinets.data import DataError, MissingDataError
    from pinets.tasks import set_values
    from pinets.tasks.own_data import own_recipe

    names = [None] if args.network is None else args.network.split(",")
    with values_checked(args):
        try:
            chosen = [set_values(own_recipe(kind, args.data, name), args.set) for name in names]
        except (DataError, MissingDataError) as error:
            raise UsageError(f"--data: {error}") from error
    return train_all(chosen, args)
