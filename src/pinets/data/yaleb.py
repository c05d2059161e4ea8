"""Extended Yale B, cropped: faces of 38 people under 64 lights, grey."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from pinets._extras import require
from pinets.data.errors import DataError, MissingDataError
from pinets.data.samples import ImageSet, Splits
from pinets.data.splits import hold_out

__all__ = ["read_yaleb"]


def read_yaleb(folder: Path, *, size: int = 64, validation: float = 0.1, seed: int = 0) -> Splits[ImageSet]:
    """Read ``CroppedYale``: a folder for each person, with pgm files. Pictures of the ambient light are left out.

    Args:
        folder: Holds the folders ``yaleB01`` to ``yaleB39``.
        size: Images are scaled to this height and width.
        validation: The fraction of every person's images held out, once for validation and once for the test.
        seed: Decides which images are held out.
    """
    people = sorted(path for path in folder.glob("yaleB*") if path.is_dir())
    if not people:
        raise MissingDataError(f"{folder} has no folders yaleB01, yaleB02, ...")
    images: list[Tensor] = []
    labels: list[int] = []
    for label, person in enumerate(people):
        files = sorted(file for file in person.glob("*.pgm") if "Ambient" not in file.name)
        if not files:
            raise DataError(f"{person} holds no pgm files")
        images += [_decode(file, size) for file in files]
        labels += [label] * len(files)
    every = ImageSet(torch.stack(images), torch.tensor(labels), tuple(person.name for person in people))
    rest, test = hold_out(every, validation, seed=seed)
    return Splits(*hold_out(rest, validation, seed=seed + 1), test)


def _decode(path: Path, size: int) -> Tensor:
    pillow = require("PIL.Image", extra="train")
    try:
        with pillow.open(path) as image:
            picture = image.convert("L").resize((size, size), pillow.Resampling.BILINEAR)
    # what Pillow raises for damaged files, by format
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise DataError(f"{path}: cannot be decoded as an image ({error})") from error
    return torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8).view(1, size, size)
