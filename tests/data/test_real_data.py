"""The real sets, where PINETS_DATA has them."""

import os
from pathlib import Path

import pytest
import torch

from pinets.data import load
from pinets.tasks.classification.speech.augment import speech_features
from pinets.tasks.classification.speech.commands import speaker_percentage

ROOT = Path(os.environ.get("PINETS_DATA") or "/nowhere")


def needs(folder):
    return pytest.mark.skipif(not (ROOT / folder).is_dir(), reason=f"PINETS_DATA does not hold {folder}")


@needs("cifar-10-batches-bin")
def test_cifar10():
    splits = load("cifar10", ROOT, download=False)
    assert splits.train.classes[:2] == ("airplane", "automobile")
    assert torch.bincount(splits.train.labels).tolist() == [4500] * 10
    assert torch.bincount(splits.validation.labels).tolist() == [500] * 10
    assert torch.bincount(splits.test.labels).tolist() == [1000] * 10
    whole = torch.cat([splits.train.images, splits.validation.images]).double() / 255
    # the figures everyone uses
    torch.testing.assert_close(
        whole.mean((0, 2, 3)), torch.tensor([0.4914, 0.4822, 0.4465]).double(), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("name, folder", [("fashion_mnist", "fashion-mnist"), ("mnist", "mnist")])
def test_mnist(name, folder):
    if not (ROOT / folder).is_dir():
        pytest.skip(f"PINETS_DATA does not hold {folder}")
    splits = load(name, ROOT, download=False)
    assert len(splits.train) + len(splits.validation) == 60_000
    assert len(splits.test) == 10_000
    assert splits.test.images.shape[1:] == (1, 28, 28)


@needs("speech_commands_test_set_v0.02")
def test_speech_commands_test12():
    folder = ROOT / "speech_commands_test_set_v0.02"
    splits = load("speech_commands_test12", ROOT, download=False)
    assert [len(part) for part in vars(splits).values()] == [3383, 510, 997]
    assert len(splits.train.classes) == 12
    for path in (folder / "yes").iterdir():  # all of them are in the test split of the whole set
        assert 10 <= speaker_percentage(path.name) < 20
    features = speech_features()(splits.test.clips[:64])
    assert features.isfinite().all()
    assert features.shape == (64, 1, 32, 32)


@needs("tiny-imagenet-50c")
def test_tiny_imagenet():
    splits = load("tiny_imagenet", ROOT, download=False)
    assert [len(part) for part in vars(splits).values()] == [4500, 500, 1000]
    assert splits.train.images.shape[1:] == (3, 64, 64)
    assert torch.bincount(splits.test.labels).tolist() == [20] * 50
