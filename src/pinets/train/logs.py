"""Where the numbers of a run go: JSON lines, TensorBoard, and a progress bar or plain lines for whoever watches."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TextIO

from torch import Tensor

from pinets._extras import require
from pinets._files import write_bytes
from pinets.data.decode import encode_png
from pinets.data.grid import image_grid

__all__ = ["Log", "MetricsLog", "NoLog", "PlainProgress", "Progress", "ProgressBar", "progress"]


class Log(Protocol):
    """What the loop writes its metrics to."""

    def write(self, split: str, step: int, epoch: int, metrics: Mapping[str, float], **notes: float) -> None: ...
    def picture(self, name: str, step: int, images: Tensor) -> None:
        """Keep images, uint8 (N, C, H, W), as one picture."""

    def flush(self) -> int:
        """Put everything on the disk; returns the position, to come back to with :meth:`rewind`."""

    def rewind(self, position: int, step: int) -> None:
        """Forget what was written after a position, at ``step``."""

    def close(self) -> None: ...


class NoLog:
    """The log of the processes that are not the main one."""

    def write(self, split: str, step: int, epoch: int, metrics: Mapping[str, float], **notes: float) -> None:
        pass

    def picture(self, name: str, step: int, images: Tensor) -> None:
        pass

    def flush(self) -> int:
        return 0

    def rewind(self, position: int, step: int) -> None:
        pass

    def close(self) -> None:
        pass


class MetricsLog:
    """Metrics as JSON lines, and the same to TensorBoard.

    Each checkpoint remembers how long the file was. A run resumed from it first cuts the file there, so that the lines
    hold every step once, whenever it was killed.

    Args:
        file: Of the JSON lines.
        tensorboard: Folder for TensorBoard.
        pictures: Folder for pictures; made when there is one.
    """

    def __init__(self, file: Path, tensorboard: Path, pictures: Path | None = None) -> None:
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
        if self._board is None:
            self._open_board(purge_step=None)
        for name, value in metrics.items():
            self._board.add_scalar(f"{split}/{name}", value, step)

    def picture(self, name: str, step: int, images: Tensor) -> None:
        grid = image_grid(images)
        if self._pictures is not None:
            write_bytes(self._pictures / f"{name}-{step:08d}.png", encode_png(grid))
        if self._board is None:
            self._open_board(purge_step=None)
        self._board.add_image(name, grid, step)

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

    def _open_board(self, purge_step: int | None) -> None:
        writer = require("torch.utils.tensorboard", extra="train").SummaryWriter
        self._board = writer(str(self._folder), purge_step=purge_step)


class Progress(Protocol):
    """Tells whoever watches how far a run is."""

    def __enter__(self) -> Progress: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def advance(self, metrics: Mapping[str, float]) -> None:
        """One step is done."""

    def say(self, text: str) -> None:
        """A line that stays."""


class ProgressBar:
    """A bar with the rate and the time left, for terminals."""

    def __init__(self, title: str, steps: int, done: int) -> None:
        tqdm = require("tqdm", extra="train").tqdm
        self._bar = tqdm(total=steps, initial=done, desc=title, unit="step", dynamic_ncols=True, smoothing=0.05)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def advance(self, metrics: Mapping[str, float]) -> None:
        self._bar.set_postfix({name: f"{value:.4g}" for name, value in metrics.items()}, refresh=False)
        self._bar.update()

    def say(self, text: str) -> None:
        self._bar.write(text, file=sys.stderr)


class PlainProgress:
    """A line now and then, for logs and pipes."""

    def __init__(
        self, title: str, steps: int, done: int, stream: TextIO | None = None, every_seconds: float = 60.0
    ) -> None:
        self._title, self._steps, self._first, self._done = title, steps, done, done
        self._stream, self._every = stream, every_seconds
        self._start = self._last = time.monotonic()

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def advance(self, metrics: Mapping[str, float]) -> None:
        self._done += 1
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            rate = (self._done - self._first) / (now - self._start)
            left = (self._steps - self._done) / rate
            numbers = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
            self.say(f"step {self._done}/{self._steps}, {rate:.3g} steps/s, {left / 60:.1f} min left: {numbers}")

    def say(self, text: str) -> None:
        print(f"{self._title}: {text}", file=self._stream or sys.stderr, flush=True)


class _NoProgress:
    """For the processes that are not the main one."""

    def __enter__(self) -> _NoProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def advance(self, metrics: Mapping[str, float]) -> None:
        pass

    def say(self, text: str) -> None:
        pass


def progress(title: str, steps: int, done: int, *, main: bool = True) -> Progress:
    """A bar on a terminal, plain lines elsewhere, nothing on processes that are not the main one."""
    if not main:
        return _NoProgress()
    return (ProgressBar if sys.stderr.isatty() else PlainProgress)(title, steps, done)
