"""Sounds of one's own: one folder of recordings for each class."""

from __future__ import annotations

from pathlib import Path

import torch

from pinets.data.errors import DataError
from pinets.data.samples import ClipSet, Splits
from pinets.data.sets.folders import class_names, files_in
from pinets.data.splits import divide, hold_out
from pinets.tasks.classification.speech.audio import SOUND_SUFFIXES, read_clips

__all__ = ["read_sound_folder"]


def read_sound_folder(folder: Path, *, validation: float = 0.1, seed: int = 0) -> Splits[ClipSet]:
    """Read recordings, WAV or FLAC, of any rate, from one folder for each class.

    ``folder`` may hold ``train`` and ``test`` (or ``val``, which then is the test set), and both ``val`` and ``test``.
    Without any of these the folders of the classes are in ``folder`` itself, and the test recordings are held out as
    those for validation are. Of each recording the loudest second is kept, mono at
    16 kHz; a shorter one is filled with silence.

    Args:
        folder: The root.
        validation: Fraction of every class that is held out.
        seed: Decides which recordings are held out.
    """
    own = [name for name in ("test", "val") if (folder / name).is_dir()]
    if not own:
        return divide(_read_classes(folder / "train" if (folder / "train").is_dir() else folder), validation, seed=seed)
    train = _read_classes(folder / "train")
    test, *held = [_read_classes(folder / name, train.classes) for name in own]
    return Splits(train, held[0], test) if held else Splits(*hold_out(train, validation, seed=seed), test)


def _read_classes(folder: Path, classes: tuple[str, ...] | None = None) -> ClipSet:
    found = tuple(class_names(folder, classes))
    paths = [path for name in found for path in files_in(folder / name, SOUND_SUFFIXES)]
    names = classes or found
    labels = [names.index(path.relative_to(folder).parts[0]) for path in paths]
    for name in found:
        if names.index(name) not in labels:
            raise DataError(f"{folder / name} holds no {' or '.join(SOUND_SUFFIXES)} files")
    return ClipSet(read_clips(paths, convert=True), torch.tensor(labels), names)
