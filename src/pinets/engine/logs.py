"""The log of a run: JSON lines, TensorBoard and pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from pinets._extras import require
from pinets._files import write_bytes
from pinets.data.formats.images import encode_png, image_grid

__all__ = ["Log", "MetricsLog"]


class Log:
    """The interface of a log. This one discards everything: only the main process keeps a log."""

    def write(self, split: str, step: int, epoch: int, metrics: Mapping[str, float], **notes: float) -> None:
        """Add a line; ``notes`` are not for TensorBoard."""

    def picture(self, name: str, step: int, images: Tensor) -> None:
        """Keep images, uint8 (N, C, H, W), as one picture."""

    def flush(self) -> int:
        """Put everything on the disk; returns the position, for :meth:`rewind`."""
        return 0

    def rewind(self, position: int, step: int) -> None:
        """Remove what was written after a position, at ``step``."""

    def close(self) -> None:
        """Close all files."""


class MetricsLog(Log):
    """Metrics as JSON lines, and the same for TensorBoard.

    Each checkpoint remembers the length of the file. A run resumed from it first cuts the file to that length, so that
    the lines hold every step once, whenever the run was killed.

    Args:
        file: The JSON lines.
        tensorboard: Folder for TensorBoard.
        pictures: Folder for pictures.
    """

    def __init__(self, file: Path, tensorboard: Path, pictures: Path) -> None:
        self._path = file
        self._file = file.open("ab")
        self._folder, self._pictures = tensorboard, pictures
        self._board: Any = None

    def write(self, split: str, step: int, epoch: int, metrics: Mapping[str, float], **notes: float) -> None:
        row = {"split": split, "step": step, "epoch": epoch, **metrics, **notes}
        try:
            self._file.write((json.dumps(row) + "\n").encode())
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, f"cannot write: {error.strerror}", str(self._path)) from error
        board = self._board or self._open_board(purge_step=None)
        for name, value in metrics.items():
            board.add_scalar(f"{split}/{name}", value, step)

    def picture(self, name: str, step: int, images: Tensor) -> None:
        grid = image_grid(images)
        write_bytes(self._pictures / f"{name}-{step:08d}.png", encode_png(grid))
        (self._board or self._open_board(purge_step=None)).add_image(name, grid, step)

    def flush(self) -> int:
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._board is not None:
            self._board.flush()
        return self._file.tell()

    def rewind(self, position: int, step: int) -> None:
        size = os.fstat(self._file.fileno()).st_size
        if size < position:
            raise ValueError(f"{self._path} has {size} bytes, fewer than the {position} it had at the checkpoint")
        self._file.truncate(position)
        self._file.seek(position)
        self._open_board(purge_step=step + 1)

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()

    def _open_board(self, purge_step: int | None) -> Any:
        writer = require("torch.utils.tensorboard", extra="train").SummaryWriter
        self._board = writer(str(self._folder), purge_step=purge_step)
        return self._board
