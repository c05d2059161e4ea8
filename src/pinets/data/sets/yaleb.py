"""Extended Yale B, cropped: faces of 38 people under 64 lights, grey."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from pinets._extras import require
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import open_image
from pinets.data.samples import ImageSet, Splits
from pinets.data.splits import divide

__all__ = ["list_yaleb", "read_yaleb"]


def read_yaleb(folder: Path, *, size: int = 64, validation: float = 0.1, seed: int = 0) -> Splits[ImageSet]:
    """Read all images of ``CroppedYale`` into memory.

    Args:
        folder: Holds the folders ``yaleB01`` to ``yaleB39``.
        size: Images are scaled to this height and width.
        validation: The fraction of every person's images held out, once for validation and once for the test.
        seed: Decides which images are held out.
    """
    paths, labels, people = list_yaleb(folder)
    images = torch.stack([_decode(path, size) for path in paths])
    return divide(ImageSet(images, labels, people), validation, seed=seed)


def list_yaleb(folder: Path) -> tuple[list[Path], Tensor, tuple[str, ...]]:
    """The image files without those taken in ambient light, the person on each, and the names of the people."""
    people = sorted(path for path in folder.glob("yaleB*") if path.is_dir())
    if not people:
        raise MissingDataError(f"{folder} has no folders yaleB01, yaleB02, ...")
    paths: list[Path] = []
    labels: list[int] = []
    for label, person in enumerate(people):
        files = sorted(file for file in person.glob("*.pgm") if not file.stem.endswith("_Ambient"))
        if not files:
            raise DataError(f"{person} holds no pgm files")
        paths += files
        labels += [label] * len(files)
    return paths, torch.tensor(labels), tuple(person.name for person in people)


def _decode(path: Path, size: int) -> Tensor:
    bilinear = require("PIL.Image", extra="train").Resampling.BILINEAR
    with open_image(path, path) as image:
        picture = image.convert("L").resize((size, size), bilinear)
    return torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(1, size, size)
