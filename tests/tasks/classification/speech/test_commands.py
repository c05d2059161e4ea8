import hashlib
import itertools

import numpy as np
import pytest
import soundfile
import torch

from pinets.data import DataError, MissingDataError, load
from pinets.tasks.classification.speech.commands import (
    read_speech_commands,
    read_speech_commands_test12,
    speaker_percentage,
)

WORDS = ("bed", "cat", "yes")


def percentage(speaker):
    """The rule as the data set's README gives it, with the arithmetic of whole numbers."""
    return int.from_bytes(hashlib.sha1(speaker.encode()).digest(), "big") % 2**27 * (100 / (2**27 - 1))


def speakers(low, high, count):
    names = (f"{number:08x}" for number in itertools.count())
    return list(itertools.islice((name for name in names if low <= percentage(name) < high), count))


def write(path, value, count=16000):
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.full(count, value, dtype=np.int16), 16000)


def write_commands(folder, ending="wav"):
    lists = {"validation": [], "testing": []}
    for number, word in enumerate(WORDS):
        for position in range(6):
            write(folder / word / f"{position:08x}_nohash_0.{ending}", 100 * number + position)
            key = f"{word}/{position:08x}_nohash_0.wav"
            if position < 2:
                lists["validation"].append(key)
            elif position < 3:
                lists["testing"].append(key)
    for name, keys in lists.items():
        (folder / f"{name}_list.txt").write_text("\n".join(keys) + "\n")
    write(folder / "_background_noise_" / "hum.wav", 7, count=50000)
    (folder / "_background_noise_" / "README.md").write_text("noise")
    return folder


@pytest.mark.parametrize("ending", ["wav", "flac"])
def test_lists_divide_the_words(tmp_path, ending):
    splits = read_speech_commands(write_commands(tmp_path, ending))
    assert splits.train.classes == WORDS
    wanted = {"train": (3, 4, 5), "validation": (0, 1), "test": (2,)}
    for part, positions in wanted.items():
        samples = getattr(splits, part)
        assert samples.clips.shape == (3 * len(positions), 16000)
        found = {(int(label), int(clip[0])) for label, clip in zip(samples.labels, samples.clips, strict=True)}
        assert found == {(number, 100 * number + position) for number in range(3) for position in positions}
    assert [len(noise) for noise in splits.train.noise] == [50000]
    assert splits.test.noise == ()


@pytest.mark.parametrize("name", ["validation_list.txt", "testing_list.txt"])
def test_lists_are_needed(tmp_path, name):
    (write_commands(tmp_path) / name).unlink()
    with pytest.raises(MissingDataError, match=name):
        read_speech_commands(tmp_path)


def test_listed_clip_that_is_not_there(tmp_path):
    (write_commands(tmp_path) / "cat" / "00000001_nohash_0.wav").unlink()
    with pytest.raises(MissingDataError, match=r"validation_list\.txt, line 4: .*cat/00000001_nohash_0\.wav is listed"):
        read_speech_commands(tmp_path)


def test_clip_in_both_lists(tmp_path):
    write_commands(tmp_path)
    with (tmp_path / "testing_list.txt").open("a") as file:
        file.write("bed/00000000_nohash_0.wav\n")
    with pytest.raises(DataError, match=r"bed/00000000_nohash_0 is in validation_list\.txt and in testing_list\.txt"):
        read_speech_commands(tmp_path)


def test_damaged_clip_is_named(tmp_path):
    path = write_commands(tmp_path) / "yes" / "00000004_nohash_0.wav"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"yes/00000004_nohash_0\.wav: cut short"):
        read_speech_commands(tmp_path)


def test_rule_of_the_data_set():
    """Only the speaker counts; the values are those of the README's formula."""
    for name in ("022cd682", "0a7c2a8d", "ffffffff"):
        assert speaker_percentage(f"bed/{name}_nohash_3.wav") == speaker_percentage(name)
        assert speaker_percentage(name) == pytest.approx(percentage(name), abs=1e-9)
    assert 10 <= speaker_percentage("022cd682") < 20  # a speaker of the published test set


def write_test12(folder, silences=60):
    names = speakers(10, 20, 40)
    for name in names:
        write(folder / "yes" / f"{name}_nohash_0.wav", 1)
        write(folder / "_unknown_" / f"bed_{name}_nohash_1.wav", 2)
    for number in range(silences):
        write(folder / "_silence_" / f"{number}.wav", 3)
    return names


def test_test_set_is_divided_by_speaker(tmp_path):
    names = write_test12(tmp_path)
    splits = read_speech_commands_test12(tmp_path)
    assert splits.train.classes == ("_silence_", "_unknown_", "yes")
    limits = {"validation": (10, 11), "test": (11, 13), "train": (13, 20)}
    for part, (low, high) in limits.items():
        expected = sum(low <= percentage(name) < high for name in names)
        counts = torch.bincount(getattr(splits, part).labels, minlength=3).tolist()
        assert counts[1:] == [expected, expected]
        assert (getattr(splits, part).clips[:, 0] == torch.tensor([3, 2, 1])[getattr(splits, part).labels]).all()
    silences = torch.tensor([percentage(str(number)) for number in range(60)])
    assert (splits.validation.labels == 0).sum() == (silences < 10).sum()
    assert len(splits.train.noise) == (silences >= 30).sum()
    assert all(len(noise) == 16000 and (noise == 3).all() for noise in splits.train.noise)


def test_other_speakers_are_refused(tmp_path):
    write_test12(tmp_path, silences=1)
    (stranger,) = speakers(50, 60, 1)
    write(tmp_path / "yes" / f"{stranger}_nohash_0.wav", 1)
    with pytest.raises(DataError, match=rf"{stranger}_nohash_0\.wav: its speaker is not one of the test split's"):
        read_speech_commands_test12(tmp_path)


def test_too_few_speakers(tmp_path):
    (name,) = speakers(15, 16, 1)
    write(tmp_path / "speech_commands_test_set_v0.02" / "yes" / f"{name}_nohash_0.wav", 1)
    with pytest.raises(DataError, match="no clip is left for validation"):
        load("speech_commands_test12", tmp_path, download=False)
