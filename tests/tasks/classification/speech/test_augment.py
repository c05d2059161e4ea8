"""Every augmentation against its formula, written out for one clip at a time."""

import numpy as np
import pytest
import torch

from pinets.data import Batches, ClipSet
from pinets.tasks.classification.speech.augment import (
    RandomLoudness,
    RandomNoise,
    RandomShift,
    RandomSpeed,
    RandomStretch,
    speech_features,
)
from pinets.tasks.classification.speech.mel import PowerSpectrum

NOISE = (torch.arange(100, 130, dtype=torch.int16) * 100, torch.arange(-220, -200, dtype=torch.int16) * 100)
ALL = [RandomLoudness(), RandomSpeed(), RandomShift(hop=2), RandomNoise(NOISE, 20)]


def waves(count=8, length=20):
    return torch.rand(count, length, generator=torch.Generator().manual_seed(0)) - 0.5


def uniforms(count, draws, hit=0.0):
    numbers = torch.rand(count, draws, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    numbers[:, 0] = hit
    return numbers


@pytest.mark.parametrize("transform", [*ALL, RandomStretch()], ids=repr)
def test_half_of_the_samples_are_left_as_they_are(transform):
    inputs = waves(4000) if not isinstance(transform, RandomStretch) else torch.rand(4000, 9, 5) + 0.1
    numbers = torch.rand(4000, transform.draws, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    out = transform.apply(inputs, numbers)
    changed = (out != inputs).flatten(1).any(1)
    assert not changed[numbers[:, 0] >= 0.5].any()
    # a shift by 0 of its 17 places changes nothing
    allowed = 1 / 17 if isinstance(transform, RandomShift) else 0.0
    share = changed.double().mean() / (1 - allowed)
    assert abs(share - 0.5) < 4 * 0.5 / 4000**0.5


def test_loudness():
    inputs, numbers = waves(), uniforms(8, 2)
    wanted = inputs.double() * (0.7 + 0.4 * numbers[:, 1:])
    torch.testing.assert_close(RandomLoudness().apply(inputs, numbers).double(), wanted, rtol=1e-6, atol=0)


def test_speed_is_linear_interpolation():
    inputs, numbers = waves(), uniforms(8, 2)
    out = RandomSpeed().apply(inputs, numbers)
    for wave, number, got in zip(inputs.numpy(), numbers[:, 1].tolist(), out.numpy(), strict=True):
        speed = 0.8 + 0.4 * number
        wanted = np.interp(speed * np.arange(20), np.arange(21), [*wave, 0.0], right=0)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("number, speed", [(0.0, 0.8), (0.5, 1.0), (1 - 1e-9, 1.2)])
def test_speed_moves_the_pitch(number, speed):
    """The dominating frequency of a sine is multiplied by the speed."""
    sine = torch.sin(2 * torch.pi * 1000 / 16000 * torch.arange(16000))[None]
    out = RandomSpeed().apply(sine, torch.tensor([[0.0, number]], dtype=torch.float64))
    loudest = torch.fft.rfft(out[0, :12000] * torch.hann_window(12000)).abs().argmax() * 16000 / 12000
    assert abs(loudest - 1000 * speed) <= 16000 / 12000


@pytest.mark.parametrize("place", range(17))
def test_shift_by_frames(place):
    inputs = waves(1, 20)
    out = RandomShift(hop=2).apply(inputs, torch.tensor([[0.0, (place + 0.5) / 17]], dtype=torch.float64))
    wanted = torch.zeros(1, 20)
    shift = 2 * (8 - place)  # to the right where positive
    for position in range(20):
        if 0 <= position - shift < 20:
            wanted[0, position] = inputs[0, position - shift]
    assert torch.equal(out, wanted)


def test_shift_moves_the_frames_of_the_spectrum():
    wave = torch.zeros(1, 16000)
    wave[0, 6000:9000] = waves(1, 3000)
    before, after = (PowerSpectrum()(x)[0] for x in (wave, RandomShift().apply(wave, uniforms(1, 2))))
    moved = [shift for shift in range(-8, 9) if torch.allclose(before.roll(shift, 0), after, rtol=1e-4, atol=1e-6)]
    assert len(moved) == 1


def test_noise_is_a_piece_of_one_recording():
    inputs, numbers = waves(200), uniforms(200, 3)
    out = RandomNoise(NOISE, 20).apply(inputs, numbers)
    pieces = [recording[start : start + 20] for recording in NOISE for start in range(len(recording) - 20 + 1)]
    used = set()
    for wave, (_, amount, place), got in zip(inputs, numbers.tolist(), out, strict=True):
        share = 0.45 * amount
        number = int(place * len(pieces))
        used.add(number)
        wanted = (1 - share) * wave.double() + share * pieces[number].double() / 32768
        torch.testing.assert_close(got.double(), wanted, rtol=0, atol=1e-6)
    assert used == set(range(12))  # 11 places in the recording of 30, one in that of 20


def test_noise_must_be_long_enough():
    with pytest.raises(ValueError, match="at least 31 samples long, got one of 20"):
        RandomNoise(NOISE, 31)
    with pytest.raises(ValueError, match="no recordings"):
        RandomNoise((), 20)


def test_stretch_interpolates_magnitudes_between_frames():
    power = torch.rand(6, 10, 4, generator=torch.Generator().manual_seed(0))
    numbers = uniforms(6, 2)
    out = RandomStretch().apply(power, numbers)
    for sample, number, got in zip(power.numpy(), numbers[:, 1].tolist(), out.numpy(), strict=True):
        rate = 0.8 + 0.4 * number
        for frequency in range(4):
            magnitude = [*np.sqrt(sample[:, frequency]), 0.0]
            wanted = np.interp(rate * np.arange(10), np.arange(11), magnitude, right=0) ** 2
            np.testing.assert_allclose(got[:, frequency], wanted, rtol=0, atol=1e-6)


def test_a_process_without_rows_gets_an_empty_batch():
    samples = ClipSet((waves(9, 16000) * 20000).short(), torch.zeros(9).long(), ("word",))
    features = speech_features(augment=True, noise=tuple(samples.clips.unbind()))
    whole = list(Batches(samples, 8, transform=features))
    shares = [list(Batches(samples, 8, transform=features, rank=rank, world_size=2)) for rank in range(2)]
    assert [len(labels) for share in shares for _, labels in share] == [4, 0, 4, 1]
    for (both, _), *parts in zip(whole, *shares, strict=True):
        torch.testing.assert_close(torch.cat([inputs for inputs, _ in parts]), both, rtol=0, atol=1e-5)


def test_features_are_augmented_from_their_generator_alone():
    clips = (waves(20, 16000) * 20000).short()
    noise = (torch.randint(-9999, 9999, (50000,), dtype=torch.int16),)
    features = speech_features(augment=True, noise=noise)
    torch.manual_seed(0)
    first = features(clips, torch.Generator().manual_seed(3))
    torch.manual_seed(1)
    assert torch.equal(first, features(clips, torch.Generator().manual_seed(3)))
    other = features(clips, torch.Generator().manual_seed(4))
    assert not any(torch.equal(left, right) for left, right in zip(first, other, strict=True))
    assert first.isfinite().all()
    assert first.min() >= -1
    assert first.max() <= 1 + 1e-6
