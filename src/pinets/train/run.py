"""The run folder: everything needed to repeat a run, and all it produced.

``recipe.json``, ``environment.json``, ``data.json``, ``metrics.jsonl``, ``tensorboard/``, ``checkpoints/``, for
generators ``pictures/`` and, when it is finished, ``result.json``.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import pinets
from pinets._extras import require
from pinets.train.checkpoint import Checkpoint, Checkpoints
from pinets.train.files import read_json, write_json

__all__ = ["ChangedRecipeError", "RunFolder", "changed_keys", "environment"]


class ChangedRecipeError(ValueError):
    """A run was resumed with other values than it was started with."""


class RunFolder:
    """The folder of one run.

    Args:
        path: Where it is.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.recipe_file = self.path / "recipe.json"
        self.environment_file = self.path / "environment.json"
        self.data_file = self.path / "data.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.result_file = self.path / "result.json"
        self.checkpoints_folder = self.path / "checkpoints"
        self.pictures_folder = self.path / "pictures"
        self.tensorboard_folder = self.path / "tensorboard"

    @property
    def exists(self) -> bool:
        """Whether a run was ever started here."""
        return self.recipe_file.is_file()

    @property
    def finished(self) -> bool:
        return self.result_file.is_file()

    @property
    def has_progress(self) -> bool:
        """Whether the run that was started here has something to lose: a result, or a checkpoint in whatever state."""
        return self.exists and (self.finished or bool(Checkpoints(self.checkpoints_folder, owner="").folders()))

    def require_new(self) -> None:
        """A run that has come to something is never overwritten; one that died before its first checkpoint may be."""
        if self.has_progress:
            raise FileExistsError(
                f"{self.path} already holds a run: resume it (--resume) or choose another folder (--out)"
            )

    def start(self, recipe: dict[str, Any], processes: int, data: dict[str, Any] | None = None) -> None:
        """Begin a new run, in place of one that died before its first checkpoint if there is one.

        Args:
            recipe: All its values.
            processes: How many train it.
            data: What to remember of its data.
        """
        self.require_new()
        self.path.mkdir(parents=True, exist_ok=True)
        if self.exists:
            self.metrics_file.unlink(missing_ok=True)
            for folder in (self.tensorboard_folder, self.pictures_folder):
                shutil.rmtree(folder, ignore_errors=True)
        write_json(self.environment_file, environment(processes))
        self.data_file.unlink(missing_ok=True)
        if data:
            write_json(self.data_file, data)
        write_json(self.recipe_file, recipe)  # last: with it, the run exists

    def require_same_recipe(self, recipe: dict[str, Any], before: dict[str, Any] | None = None) -> None:
        """Raise a :class:`ChangedRecipeError` that names the keys in which a recipe differs from this run's.

        ``before`` is the run's own recipe with the keys that did not exist yet when it was started.
        """
        changes = changed_keys(self.recipe() if before is None else before, recipe)
        if changes:
            raise ChangedRecipeError(
                f"{self.path} was started with another recipe: "
                + "; ".join(f"{key} was {old!r} and is now {new!r}" for key, old, new in changes)
                + " (a run goes on with the values it was started with: give the same --set, or another --out)"
            )

    def changed_environment(self, processes: int) -> list[tuple[str, Any, Any]]:
        """What differs now from when the run was started and can change the last bits of its numbers."""
        keys = ("torch", "device", "threads", "platform", "processes")
        before, now = read_json(self.environment_file), environment(processes)
        return changed_keys({key: before.get(key) for key in keys}, {key: now[key] for key in keys})

    def recipe(self) -> dict[str, Any]:
        """The resolved recipe the run was started with."""
        if not self.exists:
            raise FileNotFoundError(f"{self.path} is not a run: it has no {self.recipe_file.name}")
        return read_json(self.recipe_file)

    def result(self) -> dict[str, Any]:
        """What came out."""
        if not self.finished:
            raise FileNotFoundError(f"the run in {self.path} is not finished: it has no {self.result_file.name}")
        return read_json(self.result_file)

    def metrics(self, split: str | None = None) -> list[dict[str, Any]]:
        """The lines of the log, of one split if given; a line that a crash cut short is left out."""
        if not self.metrics_file.is_file():
            return []
        lines = self.metrics_file.read_bytes().split(b"\n")[:-1]  # a whole line ends in a newline
        rows = [_metrics_row(line, f"{self.metrics_file}, line {number}") for number, line in enumerate(lines, start=1)]
        return [row for row in rows if split is None or row["split"] == split]

    def pictures(self, name: str) -> list[Path]:
        """The pictures of a name, oldest first."""
        return sorted(self.pictures_folder.glob(f"{name}-*.png"))

    def owner(self) -> str:
        """A checksum of the recipe, which checkpoints carry."""
        return hashlib.sha256(json.dumps(self.recipe(), sort_keys=True).encode()).hexdigest()

    def newest_checkpoint(self) -> Checkpoint:
        """The newest one that is unharmed; an error where there is none."""
        checkpoint = Checkpoints(self.checkpoints_folder, self.owner()).newest()
        if checkpoint is None:
            raise FileNotFoundError(f"the run in {self.path} has no checkpoint yet")
        return checkpoint

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep a second process from training in the same folder; freed by the system if this one dies."""
        filelock = require("filelock", extra="train")
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with filelock.FileLock(self.path / ".lock", timeout=0):
                yield
        except filelock.Timeout as error:
            raise RuntimeError(f"another process is training in {self.path}") from error


def changed_keys(old: Any, new: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """The keys in which two nested values differ, with both values.

    >>> changed_keys({"optimizer": {"lr": 0.1, "momentum": 0.9}}, {"optimizer": {"lr": 0.05, "momentum": 0.9}})
    [('optimizer.lr', 0.1, 0.05)]
    """
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*old, *(name for name in new if name not in old)]
        parts = (changed_keys(old.get(name), new.get(name), f"{key}.{name}" if key else name) for name in names)
        return [change for part in parts for change in part]
    return [] if old == new else [(key, old, new)]


def _metrics_row(line: bytes, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:  # JSON and Unicode errors are both ValueErrors
        raise ValueError(f"{place}: not valid JSON: {error}") from error
    if not isinstance(row, dict) or not {"split", "step", "epoch"} <= row.keys():
        raise ValueError(f"{place}: a line of the log must have split, step and epoch, got {row!r}")
    return row


def environment(processes: int) -> dict[str, Any]:
    """What the numbers of a run depend on beside its recipe."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "pinets": pinets.__version__,
        "accelerate": require("accelerate", extra="train").__version__,
        "commit": _commit(),
        "platform": platform.platform(),
        "device": torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu",  # type: ignore[union-attr]
        "threads": torch.get_num_threads(),
        "processes": processes,
        "command": sys.argv,
    }


def _commit() -> str | None:
    """The commit of the source pinets runs from, ``+changed`` if files differ from it; ``None`` if installed."""
    git, source = shutil.which("git"), Path(pinets.__file__).parent
    if git is None:
        return None

    def ask(*command: str) -> str | None:
        answer = subprocess.run([git, "-C", str(source), *command], capture_output=True, text=True, check=False)
        return answer.stdout.strip() if answer.returncode == 0 else None

    commit = ask("log", "-1", "--format=%H", "--", ".")
    return f"{commit}+changed" if commit and ask("status", "--porcelain", "--", ".") else commit or None
