"""Google Speech Commands v0.02: the folder of 35 words, and the smaller 12-class test set divided by speaker."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.text import read_text
from pinets.data.samples import ClipSet, Splits
from pinets.data.sets.folders import class_names
from pinets.tasks.classification.speech.audio import SOUND_SUFFIXES, read_clips, read_sound

__all__ = ["read_speech_commands", "read_speech_commands_test12", "speaker_percentage"]

_NOISE = "_background_noise_"
_SILENCE = "_silence_"
_BUCKETS = 2**27 - 1


def speaker_percentage(name: str) -> float:
    """The percentage by which the data set assigns a speaker to a split: validation below 10, test below 20.

    Only the speaker counts, the part of a file's name before ``_nohash_``, so that one speaker never is in two splits.

    Example:
        >>> round(speaker_percentage("022cd682_nohash_0.wav"), 3) == round(speaker_percentage("022cd682"), 3)
        True
    """
    speaker = name.rpartition("/")[2].partition("_nohash_")[0]
    return int(hashlib.sha1(speaker.encode()).hexdigest(), 16) % (_BUCKETS + 1) * 100 / _BUCKETS


def read_speech_commands(folder: Path) -> Splits[ClipSet]:
    """Read the 35 words, WAV or FLAC, with the splits of ``validation_list.txt`` and ``testing_list.txt``.

    The training clips carry the recordings of ``_background_noise_`` to mix in.
    """
    words = tuple(name for name in class_names(folder) if name != _NOISE)
    sounds = {f"{path.parent.name}/{path.stem}": path for word in words for path in _sounds(folder / word)}
    validation = _listed(folder / "validation_list.txt", sounds)
    test = _listed(folder / "testing_list.txt", sounds)
    if both := sorted(set(validation) & set(test)):
        raise DataError(f"{folder}: {both[0]} is in validation_list.txt and in testing_list.txt")
    train = sorted(set(sounds) - set(validation) - set(test))
    noise = tuple(read_sound(path) for path in _sounds(folder / _NOISE)) if (folder / _NOISE).is_dir() else ()
    parts = _clip_sets(folder, [[sounds[key] for key in keys] for keys in (train, validation, test)], words)
    return replace(parts, train=replace(parts.train, noise=noise))


def read_speech_commands_test12(folder: Path) -> Splits[ClipSet]:
    """Divide the 12-class test set (10 words, ``_unknown_``, ``_silence_``) by speaker, to train at small scale.

    All its speakers are in the data set's test split: the rule gives them 10 to 20 %. The next digit of the same
    percentage divides them again: 10 % of its range is validation, 20 % test, the rest for training. ``_silence_`` has
    no speakers; its clips are divided by the hash of their names. Those for training also are the noise to mix in.
    """
    classes = tuple(class_names(folder))
    paths = [path for name in classes for path in _sounds(folder / name)]
    divided: dict[str, list[Path]] = {"train": [], "validation": [], "test": []}
    for path in paths:
        divided[_part_of_test12(path)].append(path)
    parts = _clip_sets(folder, list(divided.values()), classes)
    train = parts.train
    silent = train.labels == (classes.index(_SILENCE) if _SILENCE in classes else -1)
    return replace(parts, train=replace(train, noise=tuple(train.clips[silent].unbind())))


def _part_of_test12(path: Path) -> str:
    if "_nohash_" in path.name:
        # clips of _unknown_ also say their word: bed_0ea0e2f4_nohash_1
        speaker = path.name.partition("_nohash_")[0].rpartition("_")[2]
        percentage = speaker_percentage(speaker)
        if not 10 <= percentage < 20:
            raise DataError(f"{path}: its speaker is not one of the test split's, so this is not the 12-class test set")
        percentage = 10 * (percentage - 10)
    else:
        percentage = speaker_percentage(path.stem)
    return "validation" if percentage < 10 else "test" if percentage < 30 else "train"


def _clip_sets(folder: Path, parts: Sequence[Sequence[Path]], classes: tuple[str, ...]) -> Splits[ClipSet]:
    """Read the clips for training, validation and test; the class of each is the name of its folder."""
    number = {name: label for label, name in enumerate(classes)}
    sets = []
    for part, paths in zip(("training", "validation", "test"), parts, strict=True):
        if not paths:
            raise DataError(f"{folder}: no clip is left for {part}")
        labels = torch.tensor([number[path.parent.name] for path in paths])
        sets.append(ClipSet(read_clips(paths), labels, classes))
    return Splits(*sets)


def _sounds(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SOUND_SUFFIXES)
    if not found:
        raise MissingDataError(f"{folder} holds no {' or '.join(SOUND_SUFFIXES)} files")
    return found


def _listed(path: Path, sounds: dict[str, Path]) -> list[str]:
    """The clips a list file names, as word/name without the ending (a copy may be FLAC)."""
    if not path.is_file():
        raise MissingDataError(f"{path} is missing: it says which clips are not for training")
    keys = [line.strip().rpartition(".")[0] for line in read_text(path).splitlines() if line.strip()]
    for number, key in enumerate(keys, start=1):
        if key not in sounds:
            raise MissingDataError(f"{path}, line {number}: {path.parent / key}.wav is listed, but is not there")
    return keys
