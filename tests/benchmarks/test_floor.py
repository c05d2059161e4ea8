"""What the floor of a residual Π-net has and has not."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.floor import convolutions_alone
from pinets.models import create_model
from pinets.polynomial import Step


def operations(network):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.eval()(torch.randn(1, 3, 32, 32))
    return counter.get_total_flops()


def test_the_floor_multiplies_as_often_as_the_network_and_has_nothing_else_of_its_products():
    network = create_model("prodpoly_resnet18_cifar", width=4)
    floor = convolutions_alone(network)
    assert operations(floor) == operations(network)
    assert not any(isinstance(module, (Step, nn.InstanceNorm2d, nn.LeakyReLU)) for module in floor.modules())
    assert any(isinstance(module, Step) for module in network.modules())  # which is left as it was


def test_blocks_of_faces_have_a_floor_too():
    network = create_model("prodpoly_iresnet50", depths=(1,), width=4, embedding=8, size=32)
    block = convolutions_alone(network).layer1[0]
    branch, shortcut = torch.randn(1, 4, 3, 3), torch.randn(1, 4, 3, 3)
    (weight,) = block.join.parameters()
    expected = branch + shortcut + F.conv2d(shortcut, weight)
    torch.testing.assert_close(block.join(shortcut, branch), expected)
