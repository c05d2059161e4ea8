"""Sound files (WAV, FLAC and what else libsndfile knows) as clips of one length, and folders of them."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from pinets._extras import require
from pinets.data.errors import DataError, MissingDataError
from pinets.data.samples import ClipSet, Splits
from pinets.data.sets.folders import class_names, files_in
from pinets.data.splits import divide, hold_out

__all__ = ["SAMPLE_RATE", "SOUND_SUFFIXES", "loudest", "read_clips", "read_sound", "read_sound_folder"]

SAMPLE_RATE = 16_000
SOUND_SUFFIXES = (".wav", ".flac")
_LONGEST = 3600  # seconds; a damaged header may announce more than memory holds
_UNKNOWN_SIZES = (0, 0xFFFFFFFF)  # in the header of a WAV that was written to a pipe


def read_sound(path: Path, *, convert: bool = False) -> Tensor:
    """Read a whole recording as int16, at ``SAMPLE_RATE``.

    Args:
        path: The file.
        convert: Whether to average channels and resample; otherwise a recording that is not mono at this rate is an
            error.
    """
    soundfile = require("soundfile", extra="audio")
    if not path.is_file():
        raise MissingDataError(f"{path} is missing")
    _require_whole_wav(path)
    try:
        with soundfile.SoundFile(path) as sound:
            found = sound.samplerate
            if not convert and (found != SAMPLE_RATE or sound.channels != 1):
                raise DataError(
                    f"{path}: must be mono at {SAMPLE_RATE} Hz, got {sound.channels} channels at {found} Hz"
                )
            announced = sound.frames
            if announced > _LONGEST * found:
                raise DataError(
                    f"{path}: must last at most {_LONGEST} s, but announces {announced} samples at {found} Hz"
                )
            samples = torch.from_numpy(sound.read(dtype="float32", always_2d=True)).mean(dim=1)
    except soundfile.LibsndfileError as error:
        raise DataError(f"{path}: cannot be read as sound, it is damaged or cut short ({error})") from error
    if announced == 0:
        raise DataError(f"{path}: holds no samples")
    if len(samples) != announced:
        raise DataError(f"{path}: cut short, {len(samples)} of {announced} samples are there")
    if not samples.isfinite().all():  # files of floats may hold NaN, which no int16 is
        raise DataError(f"{path}: {int((~samples.isfinite()).sum())} of {announced} samples are not finite")
    if found != SAMPLE_RATE:
        common = math.gcd(found, SAMPLE_RATE)
        resample = require("scipy.signal", extra="train").resample_poly  # its filter prevents aliasing
        samples = torch.from_numpy(resample(samples.numpy(), SAMPLE_RATE // common, found // common))
    return (samples * 32768).round().clamp(-32768, 32767).short()  # exact for 16-bit files


def read_clips(paths: Sequence[Path], *, length: int = SAMPLE_RATE, convert: bool = False) -> Tensor:
    """Read recordings as clips of one length: longer ones are cut, shorter ones filled with zeros, at their end.

    With ``convert``, recordings of any rate and any number of channels are taken, and of longer ones the loudest part.

    Returns:
        int16 of shape ``(len(paths), length)``.
    """
    clips = torch.zeros(len(paths), length, dtype=torch.int16)

    def read(position: int) -> None:
        sound = read_sound(paths[position], convert=convert)
        sound = (loudest(sound, length) if convert else sound)[:length]
        clips[position, : len(sound)] = sound

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(read, range(len(paths))):  # raises here what was raised there
            pass
    return clips


def loudest(sound: Tensor, length: int) -> Tensor:
    """The part of a recording, of the given length, that has the most energy; all of a shorter one.

    >>> loudest(torch.tensor([0, 1, 5, 5, 0]), 2)
    tensor([5, 5])
    """
    if len(sound) <= length:
        return sound
    energy = torch.cat([torch.zeros(1, dtype=torch.float64), sound.double().square().cumsum(0)])
    start = int((energy[length:] - energy[:-length]).argmax())
    return sound[start : start + length]


def _require_whole_wav(path: Path) -> None:
    """Compare the size a WAV announces with the file's: libsndfile reads one that was cut short without a word."""
    with path.open("rb") as file:
        header = file.read(8)
    if header[:4] != b"RIFF" or len(header) < 8:
        return
    (announced,) = struct.unpack("<I", header[4:])
    there = path.stat().st_size - 8
    if announced not in _UNKNOWN_SIZES and there < announced:
        raise DataError(f"{path}: cut short, {there} of {announced} bytes are there")


def read_sound_folder(folder: Path, *, validation: float = 0.1, seed: int = 0) -> Splits[ClipSet]:
    """Read recordings, WAV or FLAC, of any rate, from one folder for each class.

    ``folder`` is divided as by :func:`pinets.data.sets.folders.read_image_folder`. Of each recording the loudest second
    is kept, mono at 16 kHz; a shorter one is filled with silence.

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
