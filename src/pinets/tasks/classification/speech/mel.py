r"""From sound to a picture of it: the short-time Fourier transform and the log-mel spectrogram.

One second at 16 kHz becomes 32 mel bands by 32 frames.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from pinets.data.transforms import Transform
from pinets.tasks.classification.speech.audio import SAMPLE_RATE

__all__ = ["LogMel", "PowerSpectrum", "Waveform", "mel_matrix"]

_LINEAR_STEP = 200 / 3  # Hz per mel below 1 kHz
_BREAK = 1000.0  # Hz; from here on the scale is logarithmic
_LOG_STEP = math.log(6.4) / 27  # 27 mels from 1 kHz to 6.4 kHz


class Waveform(Transform):
    """int16 clips as float32 between -1 and 1."""

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        return inputs / 32768

    def __repr__(self) -> str:
        return "Waveform()"


@dataclass(frozen=True)
class PowerSpectrum(Transform):
    r"""The power of every frequency in every frame, :math:`|X|^2` of the short-time Fourier transform :math:`X`.

    Frames are centred on multiples of ``hop`` and weighted by a Hann window; beyond its ends a clip is zero.
    (N, T) becomes (N, 1 + T / hop, 1 + n_fft / 2).
    """

    n_fft: int = 2048
    hop: int = 512

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        if len(inputs) == 0:  # of a last batch, a process may have no rows; the FFT takes none
            return inputs.new_empty(0, 1 + inputs.shape[1] // self.hop, 1 + self.n_fft // 2)
        window = torch.hann_window(self.n_fft, dtype=inputs.dtype, device=inputs.device)
        spectrum = torch.stft(
            inputs, self.n_fft, self.hop, window=window, center=True, pad_mode="constant", return_complex=True
        )
        # torch.stft computes frame by frame and then transposes: undone, frames are contiguous again
        return (spectrum.real.square() + spectrum.imag.square()).transpose(1, 2)


@dataclass(frozen=True)
class LogMel(Transform):
    r"""The power in mel bands, in decibels relative to the loudest of the clip.

    .. math:: y = \max\bigl(10 \log_{10} \tfrac{M |X|^2}{\max M |X|^2}, -\mathrm{range}\bigr)

    (N, frames, frequencies) becomes (N, 1, bands, frames).

    Example:
        >>> clip = torch.sin(torch.arange(16000) * 0.3)[None]
        >>> picture = LogMel()(PowerSpectrum()(clip))
        >>> picture.shape, picture.max()
        (torch.Size([1, 1, 32, 32]), tensor(0.))
    """

    bands: int = 32
    rate: int = SAMPLE_RATE
    decibels: float = 80.0  # the range

    def apply(self, inputs: Tensor, uniforms: Tensor) -> Tensor:
        matrix = mel_matrix(self.bands, 2 * (inputs.shape[2] - 1), self.rate)
        mel = inputs @ matrix.to(inputs).T
        level = 10 * mel.clamp_min(1e-10).log10()
        relative = level - level.amax(dim=(1, 2), keepdim=True)
        return relative.clamp_min(-self.decibels).transpose(1, 2).unsqueeze(1)


@cache
def mel_matrix(bands: int, n_fft: int, rate: int) -> Tensor:
    """Triangles of equal area over the frequencies, their corners evenly spaced on Slaney's mel scale up to rate / 2.

    Returns:
        float64 of shape ``(bands, 1 + n_fft / 2)``.
    """
    frequencies = torch.linspace(0, rate / 2, 1 + n_fft // 2, dtype=torch.float64)
    mels = torch.linspace(0, _to_mel(rate / 2), bands + 2, dtype=torch.float64)
    break_mel = _BREAK / _LINEAR_STEP
    corners = torch.where(mels < break_mel, mels * _LINEAR_STEP, _BREAK * torch.exp(_LOG_STEP * (mels - break_mel)))
    low, centre, high = (corners[start : start + bands, None] for start in range(3))
    rising = (frequencies - low) / (centre - low)
    falling = (high - frequencies) / (high - centre)
    return torch.minimum(rising, falling).clamp_min(0) * 2 / (high - low)


def _to_mel(frequency: float) -> float:
    if frequency < _BREAK:
        return frequency / _LINEAR_STEP
    return _BREAK / _LINEAR_STEP + math.log(frequency / _BREAK) / _LOG_STEP
