"""Embeddings: rows of a matrix in memory or on disk, read block by block, checked and brought to length one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from pinets._modes import evaluating
from pinets.data.faces.pixels import FACE_PIXELS
from pinets.data.samples import SampleSet

__all__ = ["Matrix", "Summed", "embed", "embed_faces", "raw_rows", "read_blocks", "read_rows", "require_finite_rows"]

_SAFE = 1e-15, 1e15  # lengths of rows whose squares are ordinary float32 numbers

Matrix: TypeAlias = Any  # a tensor, a NumPy array, or a memory-mapped one: has a shape and can be sliced


def read_rows(matrix: Matrix, start: int = 0, stop: int | None = None) -> Tensor:
    """Some rows as float32, brought to length one; a row of zeros stays zero, and so is similar to nothing.

    A value that is not finite is an error, by its row: a NaN compares false with everything, and left in would
    be counted as a rejection, right or wrong by chance.

    >>> read_rows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000], [0.0000, 0.0000]])
    >>> read_rows(torch.tensor([[1.0, 2.0], [float("nan"), 0.0]]))
    Traceback (most recent call last):
    ...
    ValueError: embeddings must be finite: 1 of 2 rows are not, the first is row 1
    """
    rows = raw_rows(matrix, start, stop)
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    if lengths.numel() and not (lengths.min() > _SAFE[0] and lengths.max() < _SAFE[1]):  # also for NaN
        require_finite_rows(rows, start)
        largest = rows.abs().amax(dim=1, keepdim=True)
        rows = rows / torch.where(largest > 0, largest, 1.0)  # or the squares are not float32 numbers
        lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        lengths = torch.where(lengths > 0, lengths, 1.0)
    return rows / lengths


def raw_rows(matrix: Matrix, start: int = 0, stop: int | None = None) -> Tensor:
    """Some rows as float32, as they are."""
    if len(matrix.shape) != 2:
        raise ValueError(f"embeddings must be a matrix, one row for each image, got shape {tuple(matrix.shape)}")
    part = matrix[start:stop]
    if not isinstance(part, Tensor):
        part = torch.from_numpy(part.astype("float32", subok=False))  # a copy, of whatever numbers in whatever order
    return part.detach().to("cpu", torch.float32)


class Summed:
    """The sum of two matrices, such as the embeddings of images and of their mirror images, added as it is sliced.

    >>> both = Summed(torch.tensor([[1, 2], [3, 4]]), torch.tensor([[10, 20], [30, 40]]))
    >>> both.shape, both[1:2]
    ((2, 2), tensor([[33., 44.]]))
    """

    def __init__(self, first: Matrix, second: Matrix) -> None:
        if first.shape != second.shape:
            raise ValueError(f"only matrices of one shape can be added, got {first.shape} and {second.shape}")
        self.first, self.second = first, second

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.first.shape
        return rows, columns

    def __getitem__(self, part: slice) -> Tensor:
        return raw_rows(self.first, part.start or 0, part.stop) + raw_rows(self.second, part.start or 0, part.stop)


def require_finite_rows(rows: Tensor, start: int = 0) -> None:
    """Refuse embeddings that are not finite, by the first such row, of which ``start`` is the number of the first."""
    broken = (~rows.isfinite().all(dim=1)).nonzero()
    if len(broken):
        raise ValueError(
            f"embeddings must be finite: {len(broken)} of {len(rows)} rows are not, the first is row "
            f"{start + int(broken[0])}"
        )


def read_blocks(matrix: Matrix, size: int) -> Iterator[tuple[int, Tensor]]:
    """The rows of length one, ``size`` at a time, each block with the number of its first row."""
    for start in range(0, matrix.shape[0], size):
        yield start, read_rows(matrix, start, start + size)


@torch.inference_mode()
def embed(network: nn.Module, batches: Iterable[Tensor], *, flip: bool = True) -> Tensor:
    """The embeddings of images, in evaluation mode.

    Args:
        network: From images (N, C, H, W) to embeddings (N, D).
        batches: Images as the network takes them, on any device.
        flip: Add the embedding of the mirror image, as published.

    Example:
        >>> flatten = nn.Flatten()
        >>> embed(flatten, [torch.tensor([[[[1.0, 2.0]]]])])  # (1, 2) + (2, 1)
        tensor([[3., 3.]])
    """
    parameter = next(network.parameters(), torch.empty(0))
    found = []
    with evaluating(network):
        for images in batches:
            images = images.to(parameter.device)
            rows = network(images)
            if flip:
                rows = rows + network(images.flip(-1))
            found.append(rows.float().cpu())
    if not found:
        raise ValueError("there are no images to embed")
    return torch.cat(found)


def embed_faces(network: nn.Module, faces: SampleSet, *, flip: bool = True, batch: int = 64) -> Tensor:
    """The embeddings of a set of images of bytes, which are normalised as (x - 127.5) / 128 and read in order.

    Args:
        network: From images (N, 3, H, W) to embeddings (N, D).
        faces: The images.
        flip: Add the embedding of the mirror image, as published.
        batch: Images at a time; only speed and memory depend on it.
    """
    parts = torch.arange(len(faces)).split(batch)
    return embed(network, (FACE_PIXELS(faces.read(part, torch.empty(len(part), 0))) for part in parts), flip=flip)
