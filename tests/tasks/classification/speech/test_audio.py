import numpy as np
import pytest
import soundfile
import torch

from pinets.data import DataError, MissingDataError
from pinets.tasks.classification.speech.audio import read_clips, read_sound


def wave(count=16000, seed=0):
    return np.random.default_rng(seed).integers(-32768, 32768, count, dtype=np.int16)


@pytest.mark.parametrize("ending", ["wav", "flac"])
def test_sixteen_bit_files_are_read_exactly(tmp_path, ending):
    path = tmp_path / f"clip.{ending}"
    soundfile.write(path, wave(), 16000, subtype="PCM_16")
    assert np.array_equal(read_sound(path).numpy(), wave())


def test_files_of_floats_are_scaled(tmp_path):
    path = tmp_path / "clip.wav"
    soundfile.write(path, np.array([0.0, 0.5, -1.0, 1.0]), 16000, subtype="FLOAT")
    assert read_sound(path).tolist() == [0, 16384, -32768, 32767]


def test_clips_are_cut_and_filled_at_their_end(tmp_path):
    paths = []
    for position, count in enumerate([4, 10, 7]):
        paths.append(tmp_path / f"{position}.wav")
        soundfile.write(paths[-1], np.arange(1, count + 1, dtype=np.int16), 16000)
    wanted = [[1, 2, 3, 4, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7]]
    clips = read_clips(paths, length=7)
    assert clips.dtype == torch.int16
    assert clips.tolist() == wanted


@pytest.mark.parametrize("ending", ["wav", "flac"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9, 0.999])
def test_every_cut_is_seen(tmp_path, ending, share):
    path = tmp_path / f"clip.{ending}"
    soundfile.write(path, wave(), 16000)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(DataError, match=rf"clip\.{ending}: .*cut short"):
        read_sound(path)


def test_an_absurd_length_is_refused(tmp_path):
    """A FLAC announces its length in 36 bits, from the middle of byte 21 on."""
    path = tmp_path / "clip.flac"
    soundfile.write(path, wave(), 16000, subtype="PCM_16")
    raw = bytearray(path.read_bytes())
    assert int.from_bytes(raw[21:26], "big") & (1 << 36) - 1 == len(wave())
    raw[21] |= 0x0F
    path.write_bytes(raw)
    announced = (15 << 32) + len(wave())
    with pytest.raises(DataError, match=rf"clip\.flac: must last at most 3600 s, but announces {announced} samples"):
        read_sound(path)


def test_sounds_without_samples_or_with_samples_that_are_no_numbers_are_refused(tmp_path):
    path = tmp_path / "clip.wav"
    soundfile.write(path, np.zeros(0), 16000, subtype="FLOAT")
    with pytest.raises(DataError, match=r"clip\.wav: holds no samples"):
        read_sound(path)
    soundfile.write(path, np.array([0.0, np.nan, np.inf]), 16000, subtype="FLOAT")
    with pytest.raises(DataError, match=r"clip\.wav: 2 of 3 samples are not finite"):
        read_sound(path)


def test_what_is_no_sound_is_named(tmp_path):
    path = tmp_path / "clip.wav"
    path.write_bytes(b"this is not a sound file" * 100)
    with pytest.raises(DataError, match=r"clip\.wav: cannot be read as sound"):
        read_sound(path)
    with pytest.raises(MissingDataError, match=r"other\.wav is missing"):
        read_sound(tmp_path / "other.wav")


@pytest.mark.parametrize("rate, channels", [(8000, 1), (16000, 2)])
def test_other_rates_and_stereo_are_refused(tmp_path, rate, channels):
    path = tmp_path / "clip.wav"
    soundfile.write(path, np.zeros((100, channels), dtype=np.int16), rate)
    with pytest.raises(DataError, match=rf"clip\.wav: must be mono at 16000 Hz, got {channels} channels at {rate} Hz"):
        read_sound(path)


def test_one_bad_clip_among_many_is_named(tmp_path):
    paths = [tmp_path / f"{number}.wav" for number in range(20)]
    for path in paths:
        soundfile.write(path, wave(100), 16000)
    paths[13].write_bytes(paths[13].read_bytes()[:100])
    with pytest.raises(DataError, match=r"13\.wav"):
        read_clips(paths)
