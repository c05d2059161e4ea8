"""Extended Yale B, cropped: 38 people under 64 lights, in five subsets by the angle between light and camera."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pinets._files import PathLike
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import CentreCrop
from pinets.data.sets.folders import FolderSet
from pinets.data.sets.yaleb import list_yaleb

__all__ = ["YaleB", "light_subset", "open_yaleb"]

_FOLDERS = ("yaleb/CroppedYale", "CroppedYale", ".")
# Degrees, as Georghiades et al. divide the lights; the fifth subset lies beyond. Nominally the third ends at 50, but it
# has the lights at 35 degrees of azimuth and 40 of elevation, which are at 51: 7, 12, 12, 14 and 19 lights.
_LIMITS = (12, 25, 52, 77)
_NAME = re.compile(r"yaleB\d+_P00A([+-]\d{3})E([+-]\d{2})\.pgm")


@dataclass(frozen=True, eq=False)
class YaleB:
    """The images, labelled with their people, and the subset of each image's light, 1 to 5."""

    faces: FolderSet
    subsets: Tensor


def light_subset(azimuth: float, elevation: float) -> int:
    """The subset of a light, by the angle between its direction and the camera's.

    >>> light_subset(0, 0), light_subset(-50, 40), light_subset(120, 0)
    (1, 4, 5)
    """
    cosine = math.cos(math.radians(azimuth)) * math.cos(math.radians(elevation))
    angle = round(math.degrees(math.acos(cosine)), 6)  # so that 25 degrees are not slightly more
    return 1 + sum(angle > limit for limit in _LIMITS)


def open_yaleb(folder: PathLike, *, size: int) -> YaleB:
    """Open the images of a folder; without those taken in ambient light, and those marked as bad.

    Args:
        folder: Holds ``CroppedYale`` or is it: ``yaleB01/yaleB01_P00A+000E+00.pgm`` and so on.
        size: The central square of the images is scaled to this height and width.
    """
    folder = Path(folder)
    root = next((folder / name for name in _FOLDERS if list((folder / name).glob("yaleB*/"))), None)
    if root is None:
        raise MissingDataError(f"Extended Yale B is not in {folder}: put CroppedYale with yaleB01 and so on there")
    paths, labels, people = list_yaleb(root)
    faces = FolderSet(labels, people, CentreCrop(size, size), tuple(map(str, paths)))
    subsets = []
    for path in paths:
        light = _NAME.fullmatch(path.name)
        if light is None:
            raise DataError(f"{path}: the name must tell the light, as yaleB01_P00A+000E+00.pgm")
        subsets.append(light_subset(int(light[1]), int(light[2])))
    return YaleB(faces, torch.tensor(subsets))
