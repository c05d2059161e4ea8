"""The log-mel spectrogram against its definition, and against what librosa computes."""

import numpy as np
import pytest
import torch

from pinets.tasks.classification.speech.augment import speech_features
from pinets.tasks.classification.speech.mel import LogMel, PowerSpectrum, mel_matrix

# librosa 0.11: power_to_db(melspectrogram(y=signal(), sr=16000, n_fft=2048, hop_length=512, n_mels=32), ref=max),
# every eighth band and every sixth frame
LIBROSA = np.array(
    [
        [-16.5285, -39.0630, -40.2569, -39.5844, -37.8611, -38.8027],
        [-40.3498, -3.7553, -38.9774, -39.9574, -42.0143, -38.5000],
        [-42.8921, -38.8974, -40.5410, -16.1719, -38.6144, -39.1196],
        [-43.8014, -38.8228, -39.4909, -40.2527, -39.4632, -40.4405],
    ]
)


def signal():
    """A decaying chirp in noise, from whole numbers so that it is the same everywhere."""
    k = np.arange(16000)
    t = k / 16000
    noise = ((k * k * 7919 + k * 104729) % 65521) / 65521 - 0.5
    chirp = np.sin(2 * np.pi * (200 * t + 1500 * t**2)) * np.exp(-2 * t)
    return (0.3 * chirp + 0.05 * noise).astype(np.float32)


def mel_by_definition(bands=32, n_fft=2048, rate=16000):
    """Slaney's scale and triangles, one entry at a time."""

    def to_mel(hertz):
        return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * np.log(hertz / 1000) / np.log(6.4)

    def to_hertz(mel):
        return mel * 200 / 3 if mel < 15 else 1000 * 6.4 ** ((mel - 15) / 27)

    top = to_mel(rate / 2)
    corners = [to_hertz(top * number / (bands + 1)) for number in range(bands + 2)]
    matrix = np.zeros((bands, n_fft // 2 + 1))
    for band in range(bands):
        low, centre, high = corners[band : band + 3]
        for bin in range(n_fft // 2 + 1):
            frequency = bin * rate / n_fft
            if low < frequency <= centre:
                matrix[band, bin] = (frequency - low) / (centre - low)
            elif centre < frequency < high:
                matrix[band, bin] = (high - frequency) / (high - centre)
        matrix[band] *= 2 / (high - low)
    return matrix


def power_by_definition(wave, n_fft=2048, hop=512):
    """The discrete Fourier transform as a sum, frame by frame."""
    k = np.arange(n_fft)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * k / n_fft)
    angle = 2 * np.pi * np.outer(k, np.arange(n_fft // 2 + 1)) / n_fft
    padded = np.concatenate([np.zeros(n_fft // 2), wave.astype(np.float64), np.zeros(n_fft // 2)])
    frames = np.stack([padded[start : start + n_fft] * window for start in range(0, len(wave) + 1, hop)])
    return (frames @ np.cos(angle)) ** 2 + (frames @ np.sin(angle)) ** 2


def log_mel_by_definition(wave):
    mel = mel_by_definition() @ power_by_definition(wave).T
    decibels = 10 * np.log10(np.maximum(mel, 1e-10))
    return np.maximum(decibels - decibels.max(), -80)


def log_mel(wave):
    return LogMel()(PowerSpectrum()(torch.from_numpy(wave)[None]))[0, 0].numpy()


def test_mel_matrix_by_definition():
    np.testing.assert_allclose(mel_matrix(32, 2048, 16000).numpy(), mel_by_definition(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        mel_matrix(20, 512, 8000).numpy(), mel_by_definition(20, 512, 8000), rtol=1e-9, atol=1e-12
    )


def test_power_spectrum_by_definition():
    power = PowerSpectrum()(torch.from_numpy(signal())[None].double())[0].numpy()
    assert power.shape == (32, 1025)
    np.testing.assert_allclose(power, power_by_definition(signal()), rtol=1e-9, atol=1e-12)


def test_log_mel_by_definition():
    np.testing.assert_allclose(log_mel(signal()), log_mel_by_definition(signal()), rtol=0, atol=1e-3)


def test_log_mel_is_what_librosa_gave():
    np.testing.assert_allclose(log_mel(signal())[::8, ::6], LIBROSA, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_log_mel_is_what_librosa_gives():
    librosa = pytest.importorskip("librosa")
    matrix = librosa.filters.mel(sr=16000, n_fft=2048, n_mels=32, dtype=np.float64)
    np.testing.assert_allclose(mel_matrix(32, 2048, 16000).numpy(), matrix, rtol=0, atol=1e-15)
    mel = librosa.feature.melspectrogram(y=signal(), sr=16000, n_fft=2048, hop_length=512, n_mels=32)
    np.testing.assert_allclose(log_mel(signal()), librosa.power_to_db(mel, ref=np.max), rtol=0, atol=1e-3)


def test_levels_are_relative_to_the_loudest_of_each_clip():
    both = torch.from_numpy(np.stack([signal(), signal() / 16]))
    loud, soft = LogMel()(PowerSpectrum()(both))
    torch.testing.assert_close(loud, soft, rtol=0, atol=1e-4)
    assert loud.max() == 0


def test_range_is_limited_and_silence_is_finite():
    click = torch.zeros(1, 16000)
    click[0, 0] = 1
    picture = LogMel(decibels=60)(PowerSpectrum()(click))
    assert picture.min() == -60
    assert LogMel()(PowerSpectrum()(torch.zeros(1, 16000))).eq(0).all()


def test_features_of_int16_clips():
    clips = torch.from_numpy((signal() * 32767).astype(np.int16))[None].repeat(40, 1)
    features = speech_features()(clips)
    wanted = log_mel_by_definition(clips[0].numpy() / 32768) / 40 + 1
    assert features.shape == (40, 1, 32, 32)
    np.testing.assert_allclose(features[37, 0].numpy(), wanted, rtol=0, atol=1e-4)
