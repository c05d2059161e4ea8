"""Facts a client needs beside the plan: how images become inputs, and the names of the outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinets._files import PathLike, write_bytes
from pinets._storage import from_json
from pinets.encrypted.backend import Vector
from pinets.encrypted.errors import EncryptedError, FileError

__all__ = ["Preparation", "read_preparation", "write_preparation"]

PREPARATION = "preparation.json"


@dataclass(frozen=True)
class Preparation:
    r"""How an image becomes an input, :math:`(x / m - \mathrm{mean}) / \mathrm{std}`, and the names of the classes.

    Attributes:
        classes: The names of the outputs; empty if they have none.
        mean: One number for each channel; empty if inputs are no images, or are prepared in another way.
        std: One number for each channel.
        maximum: :math:`m`, the value that becomes 1.
    """

    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    maximum: float = 255.0

    @classmethod
    def of(cls, classes: Sequence[str] | None, preprocessing: Any) -> Preparation:
        """From what a run tells: its classes, and its preprocessing as plain data."""
        names = tuple(classes or ())
        if not isinstance(preprocessing, Mapping) or preprocessing.get("kind") != "Normalize":
            return cls(names)
        return cls(names, tuple(preprocessing["mean"]), tuple(preprocessing["std"]), preprocessing["maximum"])

    def __call__(self, images: NDArray[np.uint8]) -> Vector:
        """Inputs from images (number, channels, height, width).

        >>> Preparation(mean=(0.5,), std=(0.25,))(np.array([[[[0, 255]]]], dtype=np.uint8))
        array([[[[-2.,  2.]]]])
        """
        if not self.mean:
            raise EncryptedError("it is not known how images become inputs: give inputs as the network takes them")
        if images.ndim != 4 or images.shape[1] != len(self.mean):
            raise EncryptedError(f"images have shape (number, {len(self.mean)}, height, width), got {images.shape}")
        mean, std = (np.array(value)[:, None, None] for value in (self.mean, self.std))
        return np.asarray((images / self.maximum - mean) / std, dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Any) -> Preparation:
        made: Preparation = from_json(cls, content, "preparation")
        if len(made.mean) != len(made.std) or not all(value > 0 for value in (*made.std, made.maximum)):
            raise FileError(f"a preparation has one mean and one positive std for each channel, got {made}")
        return made


def write_preparation(preparation: Preparation, folder: PathLike) -> None:
    """Write the preparation beside the plan in a folder."""
    write_bytes(Path(folder) / PREPARATION, (json.dumps(preparation.to_json(), indent=1) + "\n").encode())


def read_preparation(folder: PathLike) -> Preparation:
    """The preparation in a folder; an empty one if there is none."""
    path = Path(folder) / PREPARATION
    if not path.is_file():
        return Preparation()
    try:
        return Preparation.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not a preparation: {error}") from error
