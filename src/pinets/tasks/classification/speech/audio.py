"""Reading sound files (WAV, FLAC and what else libsndfile knows) into clips of one length."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from pinets._extras import require
from pinets.data.errors import DataError, MissingDataError

__all__ = ["SAMPLE_RATE", "read_clips", "read_sound"]

SAMPLE_RATE = 16_000
_LONGEST = 3600  # seconds; what a damaged header announces may not fit into memory
_UNKNOWN_SIZES = (0, 0xFFFFFFFF)  # what a WAV says that was written to a pipe


def read_sound(path: Path, *, rate: int = SAMPLE_RATE) -> Tensor:
    """Read a whole mono recording as int16."""
    soundfile = require("soundfile", extra="audio")
    if not path.is_file():
        raise MissingDataError(f"{path} is missing")
    _require_whole_wav(path)
    try:
        with soundfile.SoundFile(path) as sound:
            if sound.samplerate != rate or sound.channels != 1:
                raise DataError(
                    f"{path}: must be mono at {rate} Hz, got {sound.channels} channels at {sound.samplerate} Hz"
                )
            announced = sound.frames
            if announced > _LONGEST * rate:
                raise DataError(
                    f"{path}: must last at most {_LONGEST} s, but announces {announced} samples at {rate} Hz"
                )
            samples = torch.from_numpy(sound.read(dtype="float32"))
    except soundfile.LibsndfileError as error:
        raise DataError(f"{path}: cannot be read as sound, it is damaged or cut short ({error})") from error
    if len(samples) != announced or announced == 0:
        raise DataError(f"{path}: cut short, {len(samples)} of {announced} samples are there")
    return (samples * 32768).round().clamp(-32768, 32767).short()  # exact for 16-bit files


def read_clips(paths: Sequence[Path], *, length: int = SAMPLE_RATE, rate: int = SAMPLE_RATE) -> Tensor:
    """Read recordings as clips of one length: longer ones are cut, shorter ones filled with zeros, at their end.

    Returns:
        int16 of shape ``(len(paths), length)``.
    """
    clips = torch.zeros(len(paths), length, dtype=torch.int16)

    def read(position: int) -> None:
        sound = read_sound(paths[position], rate=rate)[:length]
        clips[position, : len(sound)] = sound

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(read, range(len(paths))):  # raises here what was raised there
            pass
    return clips


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
