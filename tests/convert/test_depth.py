"""Fewer blocks, with the weights of those that stay."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pinets.convert import drop_blocks
from pinets.models import create_model


def test_the_first_blocks_stay_with_their_weights(strangers):
    network = strangers.Network(strangers.VisionBasic, depths=(3, 2)).eval()
    smaller, report = drop_blocks(network, [2, 1])
    assert report.dropped == ["layer1.2", "layer2.1"]
    assert [len(network.layer1), len(network.layer2)] == [3, 2]
    kept = network.state_dict()
    assert all(torch.equal(value, kept[key]) for key, value in smaller.state_dict().items())
    x = torch.randn(2, 3, 8, 8)
    features = network.relu(network.bn1(network.conv1(x)))
    features = network.layer2[0](network.layer1[1](network.layer1[0](features)))
    assert torch.equal(smaller(x), network.fc(features.mean((2, 3))))


def test_parameters_before_and_after_are_reported():
    report = drop_blocks(create_model("resnet34_cifar"), [3, 3, 2, 2]).report
    assert report.parameters[0] == 21_282_122
    # a Prodpoly-ResNet of the same depth less its 1x1 convolutions and scales
    squares = 2 * (3 * 64**2 + 3 * 128**2 + 2 * 256**2 + 2 * 512**2)
    assert report.parameters[1] == 12_976_980 - squares - 10


def test_what_others_rely_on_cannot_be_dropped(strangers):
    class Widening(strangers.VisionBasic):
        pass

    network = nn.Sequential(strangers.VisionBasic(4, 4), Widening(4, 8))
    with pytest.raises(ValueError, match=r"1 cannot be dropped: it turns shape \(2, 4, 16, 16\) into \(2, 8, 16, 16\)"):
        drop_blocks(network, [1])
    assert len(network) == 2


@pytest.mark.parametrize(
    "depths, message",
    [
        ([1], r"one entry for each of the 2 stages, \[2, 2\]; got \[1\]"),
        ([0, 1], "layer1 has 2 blocks, so 1 to 2 can stay; got 0"),
        ([2, 3], "layer2 has 2 blocks, so 1 to 2 can stay; got 3"),
        ([1, True], "got True"),
        ([1, 1.5], "got 1.5"),
    ],
)
def test_depths_that_cannot_be_are_refused(strangers, depths, message):
    network = strangers.Network(strangers.VisionBasic)
    with pytest.raises(ValueError, match=message):
        drop_blocks(network, depths, inplace=True)
    assert [len(network.layer1), len(network.layer2)] == [2, 2]
