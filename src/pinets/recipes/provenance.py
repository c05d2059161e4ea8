"""What a run was trained on: enough to notice when it goes on, or is used, with other data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pinets.data.batches import Batches
from pinets.data.fingerprint import fingerprint
from pinets.train.files import read_json
from pinets.train.run import RunFolder
from pinets.train.task import Task

__all__ = ["data_folder", "describe_data", "require_same_classes", "require_same_data"]

_MOST_NAMES = 1000  # of classes that are written down; identities of faces are told by their checksum


def describe_data(task: Task, data_dir: str | Path | None) -> dict[str, Any]:
    """What a run remembers of the data it is trained on; empty where they are not read in batches.

    Args:
        task: Prepared for training.
        data_dir: Where data sets were looked for, if that was said.
    """
    batches = getattr(task, "batches", None)
    if not isinstance(batches, Batches):
        return {}
    samples = batches.samples
    return {
        "folder": None if data_dir is None else str(Path(data_dir).resolve()),
        "samples": len(samples),
        "classes": list(samples.classes) if len(samples.classes) <= _MOST_NAMES else None,
        "fingerprint": fingerprint(samples),
    }


def data_folder(run: RunFolder, data_dir: str | Path | None) -> str | Path | None:
    """Where to look for the data of a run: where it is said, or where they were when it was trained."""
    known = _known(run).get("folder")
    return known if data_dir is None and known is not None and Path(known).is_dir() else data_dir


def require_same_data(run: RunFolder, found: dict[str, Any]) -> None:
    """Refuse to go on with a run on other data than it was started with."""
    known = _known(run)
    for key in ("samples", "classes", "fingerprint"):
        if known and known[key] != found.get(key):
            told = "other images or labels" if key == "fingerprint" else f"{key} {_told(known[key], found.get(key))}"
            raise ValueError(f"{run.path} was started with other data: {told}")


def require_same_classes(run: RunFolder, classes: list[str] | None) -> None:
    """Refuse data whose classes are not those that a run has learnt, in their order."""
    known = _known(run).get("classes")
    if known is not None and classes is not None and known != classes:
        raise ValueError(f"{run.path} was trained on other data: classes {_told(known, classes)}")


def _known(run: RunFolder) -> dict[str, Any]:
    """What was written when the run was started; nothing for runs from before that was done."""
    return read_json(run.data_file) if run.data_file.is_file() else {}


def _told(before: Any, now: Any) -> str:
    """What two values were, the first of their members that differ if they are lists of the same length."""
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        before, now = next((old, new) for old, new in zip(before, now, strict=True) if old != new)
        return f"have {now!r} where the run knows {before!r}"
    return f"were {before} and are now {now}"
