"""Published augmentations of speech, each happening with probability one half.

All but the stretch work on the wave, and the stretch on its power spectrum.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from pinets.data.transforms import Chunked, Compose, Normalize, Transform, whole_number
from pinets.tasks.classification.speech.audio import SAMPLE_RATE
from pinets.tasks.classification.speech.mel import LogMel, PowerSpectrum, Waveform

__all__ = [
    "RandomLoudness",
    "RandomNoise",
    "RandomShift",
    "RandomSpeed",
    "RandomStretch",
    "speech_features",
]


class _Sometimes(Transform):
    """Change each sample with a probability, and only those it hits."""

    probability = 0.5
    draws = 2  # the first number decides whether a sample is changed

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        hit = (uniforms[:, 0] < self.probability).nonzero().flatten()
        if len(hit) == 0:
            return inputs
        return inputs.index_copy(0, hit, self.change(inputs[hit], uniforms[hit, 1:]))

    @abstractmethod
    def change(self, inputs: Tensor, values: Tensor) -> Tensor: ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RandomLoudness(_Sometimes):
    """Multiply a wave by a number between 0.7 and 1.1."""

    def change(self, inputs: Tensor, values: Tensor) -> Tensor:
        return inputs * _between(0.7, 1.1, values).to(inputs.dtype)


class RandomSpeed(_Sometimes):
    """Play a wave up to 20 % slower or faster, pitch and all; it is cut or filled with zeros to its old length."""

    def change(self, inputs: Tensor, values: Tensor) -> Tensor:
        return _played(inputs[:, :, None], _between(0.8, 1.2, values))[:, :, 0]


class RandomShift(_Sometimes):
    """Move a wave by up to 8 frames of ``hop`` samples to the left or right, with silence moving in."""

    def __init__(self, hop: int = 512) -> None:
        self.hop = hop

    def change(self, inputs: Tensor, values: Tensor) -> Tensor:
        padded = F.pad(inputs, (8 * self.hop, 8 * self.hop))
        shifted = padded.unfold(1, inputs.shape[1], self.hop)  # a view: (N, 17 places, T)
        return shifted[torch.arange(len(inputs), device=inputs.device), whole_number(values[:, 0], 17)]


class RandomNoise(_Sometimes):
    r"""Mix up to 45 % of noise into a wave, :math:`(1 - a) x + a n`, from a random place of the recordings.

    Args:
        recordings: int16, each at least as long as a clip.
        length: The length of a clip.
    """

    draws = 3

    def __init__(self, recordings: Sequence[Tensor], length: int) -> None:
        if not recordings:
            raise ValueError("there are no recordings of noise to mix in")
        if (shortest := min(map(len, recordings))) < length:
            raise ValueError(f"recordings of noise must be at least {length} samples long, got one of {shortest}")
        self.length = length
        self.noise = torch.cat([*recordings])
        sizes = torch.tensor([len(recording) for recording in recordings])
        self.first = sizes.cumsum(0) - sizes  # where each recording begins
        self.places = (sizes - length + 1).cumsum(0)  # where a piece may start and not run into the next recording

    def change(self, inputs: Tensor, values: Tensor) -> Tensor:
        place = whole_number(values[:, 1].cpu(), int(self.places[-1]))
        recording = torch.searchsorted(self.places, place, right=True)
        start = self.first[recording] + place - F.pad(self.places, (1, 0))[recording]
        piece = Waveform()(self.noise[start[:, None] + torch.arange(self.length)]).to(inputs)
        amount = _between(0, 0.45, values[:, :1]).to(inputs.dtype)
        return torch.lerp(inputs, piece, amount)


class RandomStretch(_Sometimes):
    """Play a power spectrum up to 20 % slower or faster at the same pitch; it is cut or filled with silence.

    As in a phase vocoder magnitudes are interpolated between neighbouring frames; phases are not needed any more.
    """

    def change(self, inputs: Tensor, values: Tensor) -> Tensor:
        return _played(inputs.sqrt(), _between(0.8, 1.2, values)).square()


def speech_features(*, augment: bool = False, noise: Sequence[Tensor] = ()) -> Transform:
    """Turn int16 clips into 32x32 log-mel pictures, from -80 dB .. 0 dB scaled to -1 .. 1.

    Args:
        augment: Whether to vary loudness, speed, stretch and place, and mix in noise if there is any.
        noise: Recordings to mix in, as a :class:`pinets.data.ClipSet` carries them.

    Example:
        >>> clips = torch.randint(-999, 999, (4, 16000), dtype=torch.int16)
        >>> speech_features()(clips).shape
        torch.Size([4, 1, 32, 32])
    """
    wave: list[Transform] = [RandomLoudness(), RandomSpeed(), RandomShift()] if augment else []
    if augment and noise:
        wave.append(RandomNoise(noise, length=SAMPLE_RATE))
    spectrum = [RandomStretch()] if augment else []
    scale = Normalize(mean=(-40.0,), std=(40.0,), maximum=1.0)
    steps = Compose(Waveform(), *wave, PowerSpectrum(), *spectrum, LogMel(), scale)
    return Chunked(steps, rows=16)  # thrice as fast as 128 at once


def _played(frames: Tensor, speed: Tensor) -> Tensor:
    """Frames (N, T, features) at another speed each, interpolated between neighbours, with silence after their end."""
    length = frames.shape[1]
    position = speed * torch.arange(length, device=frames.device)  # float64: (N, T)
    left = position.long()
    weight = (position - left).to(frames.dtype)[:, :, None]
    padded = F.pad(frames, (0, 0, 0, 1))  # one silent frame
    row = torch.arange(len(frames), device=frames.device)[:, None]
    before, after = (padded[row, place.clamp_max(length)] for place in (left, left + 1))
    return torch.lerp(before, after, weight)


def _between(low: float, high: float, uniforms: Tensor) -> Tensor:
    return low + (high - low) * uniforms
