"""Loading must not hold training up: at least five times the rate at which a small network trains."""

import time

import pytest
import torch
from torch import nn

from pinets.data import Batches, ClipSet, Compose, ImageSet, Normalize, RandomCrop, RandomFlip
from pinets.tasks.classification.speech.augment import speech_features


def network(channels, stages):
    """The convolutions of a CIFAR ResNet with one block of two for each stage."""
    layers = [nn.Conv2d(channels, stages[0], 3, padding=1, bias=False), nn.BatchNorm2d(stages[0]), nn.ReLU()]
    for inner, outer in zip((stages[0], *stages), stages, strict=False):
        stride = 1 if inner == outer else 2
        layers += [nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]
        layers += [nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(stages[-1], 10))


def times(batches, model):
    """The best time of loading a batch and that of a training step with it, measured in turns."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loading, training = [], []
    source = iter(batches)
    for _ in range(len(batches)):
        start = time.perf_counter()
        inputs, labels = next(source)
        loaded = time.perf_counter()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
        loading.append(loaded - start)
        training.append(time.perf_counter() - loaded)
    return min(loading), min(training)


def test_images_with_crop_flip_and_normalisation():
    images = torch.randint(0, 256, (128 * 6, 3, 32, 32), dtype=torch.uint8)
    samples = ImageSet(images, torch.arange(len(images)) % 10, tuple("0123456789"))
    transform = Compose(RandomCrop(4), RandomFlip(), Normalize((0.5,) * 3, (0.25,) * 3))
    batches = Batches(samples, 128, shuffle=True, transform=transform)
    loading, training = times(batches, network(3, (16, 32, 64)))  # ResNet8: less than any recipe trains
    assert 5 * loading <= training


@pytest.mark.slow
@pytest.mark.parametrize("augment", [False, True])
def test_speech(augment):
    clips = torch.randint(-9999, 9999, (32 * 8, 16000), dtype=torch.int16)
    samples = ClipSet(clips, torch.arange(len(clips)) % 10, tuple("0123456789"))
    transform = speech_features(augment=augment, noise=tuple(clips[:20].unbind()))
    batches = Batches(samples, 32, shuffle=True, transform=transform)
    # ResNet34, a quarter as wide: blocks [3, 4, 6, 3]
    loading, training = times(batches, network(1, (16,) * 3 + (32,) * 4 + (64,) * 6 + (128,) * 3))
    assert 5 * loading <= training
