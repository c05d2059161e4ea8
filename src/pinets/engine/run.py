"""The run folder: what is needed to repeat a run, and what it produced.

``recipe.json``, ``environment.json``, ``data.json``, ``metrics.jsonl``, ``tensorboard/``, ``checkpoints/``, for
generators ``pictures/`` and, when the run is finished, ``result.json``.
"""

from __future__ import annotations

import json
import platform
import re
import reprlib
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import pinets
from pinets._extras import require
from pinets._files import write_bytes
from pinets._storage import digest, parse_json, read_json_object, write_json
from pinets.data.samples import SampleSet, fingerprint
from pinets.engine.checkpoint import Checkpoint, Checkpoints

__all__ = [
    "ChangedRecipeError",
    "RunExistsError",
    "RunFolder",
    "changed_keys",
    "describe_data",
    "differ",
    "environment",
]

_FREE = ("compile",)  # keys of a recipe that change at most the last bits: a run may be resumed with other values
_CHECKSUMS = {"fingerprint": "other images or labels", "content": "other shapes"}  # in data.json: what differs
_MOST_NAMES = 1000  # classes whose names are written down; more of them (identities) only count in the checksum


class ChangedRecipeError(ValueError):
    """A run was resumed with other values than it was started with."""


class RunExistsError(FileExistsError):
    """A run was to be started in a folder that already holds one."""


class RunFolder:
    """The folder of one run.

    Args:
        path: The folder; it need not exist yet.
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
        """Whether the run has a result or a checkpoint, even a damaged one."""
        return self.exists and (self.finished or self.has_weights)

    def require_new(self) -> None:
        """Raise a :class:`RunExistsError` if the run has a checkpoint or a result: it is never overwritten."""
        if self.has_progress:
            raise RunExistsError(f"{self.path} already holds a run: resume it, or choose another folder")

    def start(self, recipe: dict[str, Any], processes: int, data: dict[str, Any] | None = None) -> None:
        """Begin a new run; one that died before its first checkpoint is replaced.

        Args:
            recipe: All its values, as JSON.
            processes: How many processes train it.
            data: What :func:`describe_data` says of its data.
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

        Args:
            recipe: The other recipe, as JSON.
            before: The run's own recipe, with defaults for keys that did not exist yet when it was started.
        """
        found = changed_keys(self.recipe() if before is None else before, recipe)
        changes = [change for change in found if change[0] not in _FREE]
        if changes:
            raise ChangedRecipeError(
                f"{self.path} was started with another recipe: "
                + "; ".join(f"{key} was {old!r} and is now {new!r}" for key, old, new in changes)
                + " (a run is resumed with the values it was started with)"
            )

    def changed_environment(self, processes: int, recipe: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        """Changes since the run was started that may alter the last bits of its numbers: key, old and new value."""
        keys = ("torch", "device", "threads", "platform", "processes")
        before, now = self.environment(), environment(processes)
        free = {key: recipe[key] for key in _FREE if key in recipe}
        return changed_keys(
            {key: before.get(key) for key in keys} | {key: self.recipe().get(key, False) for key in free},
            {key: now[key] for key in keys} | free,
        )

    def recipe(self) -> dict[str, Any]:
        """The resolved recipe the run was started with."""
        if not self.exists:
            raise FileNotFoundError(f"{self.path} is not a run: it has no {self.recipe_file.name}")
        return read_json_object(self.recipe_file)

    def environment(self) -> dict[str, Any]:
        """The :func:`environment` at the start of the run."""
        return read_json_object(self.environment_file)

    def data_folder(self, data_dir: str | Path | None = None) -> str | Path | None:
        """Where to look for the run's data: ``data_dir`` if given, else where they were in training if still there."""
        known = self._data().get("folder")
        return known if data_dir is None and isinstance(known, str) and Path(known).is_dir() else data_dir

    def require_same_data(self, data: dict[str, Any]) -> None:
        """Refuse to resume on other data; ``data`` is what :func:`describe_data` says of them."""
        known = self._data()
        for key in ("samples", "classes", *_CHECKSUMS):
            is_older = not known or (key == "content" and key not in known)
            if not is_older and known.get(key) != data.get(key):
                differs = _CHECKSUMS.get(key) or f"{key} {_difference(known.get(key), data.get(key))}"
                raise ValueError(f"{self.path} was started with other data: {differs}")

    def require_same_kind(self, samples: SampleSet) -> None:
        """Refuse training samples of other classes than the run has learnt, and warn of other samples.

        Splits and normalisation follow the samples: with one image more, others may be held out for the test.
        """
        self.require_same_classes(samples.classes)
        if differ(self.checksums(), _checksums(samples)):
            warnings.warn(
                f"{self.path} was trained on other samples than the training samples there are now: those that it has "
                "learnt may be among the test samples, and inputs may be scaled in another way",
                stacklevel=3,
            )

    def require_same_classes(self, classes: Sequence[str] | None) -> None:
        """Refuse data whose classes are not those the run has learnt, in the same order."""
        known = self._data().get("classes")
        if known is not None and classes is not None and known != list(classes):
            raise ValueError(f"{self.path} was trained on other data: classes {_difference(known, list(classes))}")

    def checksums(self) -> dict[str, str]:
        """Those of the training samples by kind; empty for records and older runs."""
        return {key: value for key, value in self._data().items() if key in _CHECKSUMS}

    def _data(self) -> dict[str, Any]:
        """The content of ``data.json``; empty for older runs, which lack the file."""
        return read_json_object(self.data_file) if self.data_file.is_file() else {}

    def inputs(self) -> dict[str, Any] | None:
        """The description of the network's inputs in ``data.json``; None for older runs, which lack it."""
        return self._data().get("inputs")

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result: with it, the run is finished."""
        write_json(self.result_file, result)

    @property
    def has_weights(self) -> bool:
        """Whether there is a checkpoint; a record has none."""
        return bool(Checkpoints(self.checkpoints_folder, owner="").folders())

    def write_record(self, path: str | Path) -> None:
        """Record a finished run: copy its recipe, environment and result, and its curves with one line an epoch.

        A record is small and can be committed; to every report it is a run. It has no weights, and names no folders.
        """
        record, result = RunFolder(path), self.result()
        record.path.mkdir(parents=True, exist_ok=True)
        local = ("command",)  # holds paths
        write_json(record.environment_file, {k: v for k, v in self.environment().items() if k not in local})
        last = {(row["split"], row["epoch"]): row for row in self.metrics()}
        write_bytes(record.metrics_file, b"".join(json.dumps(row).encode() + b"\n" for row in last.values()))
        write_json(record.recipe_file, self.recipe())
        write_json(record.result_file, result)  # last: with it, the run is finished

    def result(self) -> dict[str, Any]:
        """The metrics of a finished run."""
        if not self.finished:
            raise FileNotFoundError(f"the run in {self.path} is not finished: it has no {self.result_file.name}")
        result = read_json_object(self.result_file)
        if missing := [key for key in ("test", "parameters", "seconds") if key not in result]:
            raise ValueError(f"{self.result_file} is damaged: it has no {', '.join(missing)}")
        for key in ("test", "validation", "parameters"):
            if key in result:
                _require_numbers(result[key], f"{self.result_file}: {key}")
        _require_numbers({"seconds": result["seconds"]}, str(self.result_file))
        return result

    def metrics(self, split: str | None = None) -> list[dict[str, Any]]:
        """The lines of the log, or those of one split; a line that a crash cut short is left out."""
        if not self.metrics_file.is_file():
            return []
        lines = self.metrics_file.read_bytes().split(b"\n")[:-1]  # a whole line ends in a newline
        rows = [_metrics_row(line, f"{self.metrics_file}, line {number}") for number, line in enumerate(lines, start=1)]
        return [row for row in rows if split is None or row["split"] == split]

    def pictures(self, name: str) -> list[Path]:
        """The pictures with this name, oldest first, without links: in a stranger's run they may point to any file."""
        if self.pictures_folder.is_symlink():
            return []
        files = sorted(self.pictures_folder.glob(f"{name}-*.png"))
        numbered = re.compile(re.escape(name) + r"-[0-9]{8,18}\.png")  # as MetricsLog.picture names them
        return [file for file in files if numbered.fullmatch(file.name) and not file.is_symlink()]

    def owner(self) -> str:
        """A checksum of the recipe, which checkpoints carry."""
        return digest(self.recipe())

    def newest_checkpoint(self) -> Checkpoint:
        """The newest undamaged checkpoint; an error if there is none."""
        checkpoint = Checkpoints(self.checkpoints_folder, self.owner()).newest()
        if checkpoint is None:
            raise FileNotFoundError(f"the run in {self.path} has no checkpoint yet")
        return checkpoint

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep a second process from training in the same folder; the system frees the lock if this process dies."""
        filelock = require("filelock", extra="train")
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with filelock.FileLock(self.path / ".lock", timeout=0):
                yield
        except filelock.Timeout as error:
            raise RuntimeError(f"another process is training in {self.path}") from error


def describe_data(
    samples: SampleSet, data_dir: str | Path | None, inputs: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The content of ``data.json``, which describes the data a run is trained on.

    Args:
        samples: The training samples.
        data_dir: The data folder, if one was given.
        inputs: Shape, classes and preprocessing of the network's inputs, as JSON.
    """
    return {
        "folder": None if data_dir is None else str(Path(data_dir).resolve()),
        "samples": len(samples),
        "classes": list(samples.classes) if len(samples.classes) <= _MOST_NAMES else None,
        **_checksums(samples),
        **({} if inputs is None else {"inputs": inputs}),
    }


def _checksums(samples: SampleSet) -> dict[str, str]:
    """What tells samples from others; ``content`` only for sets of numbers that are not computed but read."""
    content = getattr(samples, "content_checksum", None)
    return {"fingerprint": fingerprint(samples), **({} if content is None else {"content": content()})}


def differ(known: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether checksums are of other samples; a kind that an older run lacks tells nothing."""
    return any(known[key] != now[key] for key in known.keys() & now.keys())


def _difference(before: Any, now: Any) -> str:
    """The difference of two values in words; for lists of equal length, that of the first differing members."""
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        before, now = next((old, new) for old, new in zip(before, now, strict=True) if old != new)
        return f"have {now!r} where the run knows {before!r}"
    return f"were {before} and are now {now}"


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
    row = parse_json(line, place)
    if not isinstance(row, dict) or not {"split", "step", "epoch"} <= row.keys():
        raise ValueError(f"{place}: a line of the log must have split, step and epoch, got {row!r}")
    _require_numbers({name: value for name, value in row.items() if name != "split"}, place)
    return row


def _require_numbers(values: Any, place: str) -> None:
    """Refuse values that are not numbers, such as texts or lists."""
    if not isinstance(values, dict):
        raise ValueError(f"{place} must be an object of numbers, got {reprlib.repr(values)}")
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{place}: {name} must be a number, got {reprlib.repr(value)}")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"{place}: {name} must have at most 64 bits, got {reprlib.repr(value)}")


def environment(processes: int) -> dict[str, Any]:
    """Versions, machine and command: everything besides the recipe that a run's numbers depend on."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # its own class compares by version and parses what it is compared with
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
    """The commit of pinets' source, with ``+changed`` if files differ from it; ``None`` if pinets was installed."""
    git, source = shutil.which("git"), Path(pinets.__file__).parent
    if git is None:
        return None

    def ask(*command: str) -> str | None:
        answer = subprocess.run([git, "-C", str(source), *command], capture_output=True, text=True, check=False)
        return answer.stdout.strip() if answer.returncode == 0 else None

    commit = ask("log", "-1", "--format=%H", "--", ".")
    return f"{commit}+changed" if commit and ask("status", "--porcelain", "--", ".") else commit or None
