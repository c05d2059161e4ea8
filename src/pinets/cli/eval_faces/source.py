"""Where embeddings come from: files, or the network of a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pinets.cli.parser import UsageError

if TYPE_CHECKING:
    from pinets.data.samples import SampleSet
    from pinets.recipes import FaceRecipe, Trained

__all__ = ["image_size", "model_name", "read_embeddings", "require_one_source", "require_rows", "run_recipe"]


def require_one_source(args: argparse.Namespace) -> None:
    """Refuse options of the source that is not used: left aside, they would look as if they had counted."""
    if args.run_folder is not None and args.flipped is not None:
        raise UsageError("--flipped is for --embeddings: --run embeds the mirror images itself, unless --no-flip")
    if args.embeddings is not None and args.no_flip:
        raise UsageError("--no-flip is for --run: --embeddings are taken as they are, unless --flipped names others")


def read_embeddings(
    args: argparse.Namespace, faces: SampleSet | None, embeddings: Path | None, flipped: Path | None
) -> tuple[Any, dict[str, str]]:
    """The rows, and what to tell of them: from files, or from the run's network."""
    from pinets.data.faces import open_embeddings
    from pinets.metrics.faces import Summed, embed_faces

    if embeddings is not None:
        rows = open_embeddings(embeddings)
        if flipped is None:
            return rows, {"mirror images": "as in the embeddings given"}
        mirrored = open_embeddings(flipped)
        if mirrored.shape != rows.shape:
            raise UsageError(f"{flipped} has shape {mirrored.shape}, and {embeddings} {rows.shape}")
        return Summed(rows, mirrored), {"mirror images": "added"}
    assert faces is not None
    flip = not args.no_flip
    rows = embed_faces(_trained(args).network, faces, flip=flip)
    return rows, {"mirror images": "added" if flip else "not used"}


def require_rows(rows: Any, count: int, path: Path | None) -> None:
    if rows.shape[0] != count:
        raise UsageError(f"{path} has {rows.shape[0]} rows, the list needs {count}")


def image_size(args: argparse.Namespace) -> int:
    """Of the images: as told, as the run was trained, or as everybody's."""
    if args.size is not None or args.run_folder is None:
        return args.size or 112
    return int(run_recipe(args).data.size)


def run_recipe(args: argparse.Namespace) -> FaceRecipe:
    return cast("FaceRecipe", _trained(args).recipe)


def _trained(args: argparse.Namespace) -> Trained:
    """The run, if it is one of faces: what other networks give is no embedding."""
    from pinets.recipes import FaceRecipe, trained

    found = trained(args.run_folder)
    if not isinstance(found.recipe, FaceRecipe):
        raise UsageError(f"--run {args.run_folder}: a run of {found.recipe.name}, which embeds no faces")
    return found


def model_name(args: argparse.Namespace) -> str:
    if args.name:
        return str(args.name)
    if args.run_folder is None:
        return str(args.embeddings.stem)
    from pinets.train.run import RunFolder

    return str(RunFolder(args.run_folder).recipe()["name"])
