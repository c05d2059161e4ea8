from __future__ import annotations

import pytest
import torch

from pinets.models import create_model
from pinets.models.strict_convnet import ProductBlock, ReluBlock, SquareBlock, SquareReluBlock
from pinets.testing import assert_polynomial


def test_the_block_is_its_formula():
    block, x = ProductBlock(3, 5).double().eval(), torch.randn(2, 3, 6, 6).double()
    for norm in (block.norm, block.step.gate[1], block.step.body[1]):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    gate, body = block.step.gate, block.step.body
    u, v = (
        torch.nn.functional.batch_norm(
            torch.nn.functional.conv2d(x, conv.weight, padding=1), norm.running_mean, norm.running_var
        )
        for conv, norm in (gate, body)
    )
    expected = (u * v + u - block.norm.running_mean[:, None, None]) / (
        block.norm.running_var[:, None, None] + 1e-5
    ).sqrt()
    torch.testing.assert_close(block(x), expected)
    assert_polynomial(block, x, degree=2)


def test_the_square_is_normalised_apart_from_what_is_squared():
    block, x = SquareBlock(3, 5, gain=0.5).double(), torch.randn(4, 3, 6, 6).double()
    u = torch.nn.functional.conv2d(x, block.view[0].weight, padding=1)
    mean, deviation = u.mean((0, 2, 3), keepdim=True), u.var((0, 2, 3), keepdim=True, correction=0)
    u = 0.5 * (u - mean) / (deviation + 1e-5).sqrt()
    square = u**2 - (u**2).mean((0, 2, 3), keepdim=True)
    spread = (u**2).var((0, 2, 3), keepdim=True, correction=0)
    torch.testing.assert_close(block(x), u + 0.25 * square / (spread + 1e-5).sqrt())
    assert_polynomial(block.eval(), x, degree=2)


@pytest.mark.parametrize("name, thousands", [("strict_convnet", 484), ("strict_resnet", 1538)])
def test_it_has_the_size_it_is_known_for(name, thousands):
    count, twin = (
        sum(parameter.numel() for parameter in create_model(which).parameters()) for which in (name, f"{name}_relu")
    )
    assert count == twin
    assert round(count / 1000) == thousands


def test_every_block_doubles_the_degree():
    network = create_model("strict_resnet", widths=(2, 3), depths=(2, 3)).double().eval()
    assert_polynomial(network, torch.randn(1, 3, 4, 4).double(), degree=32)


def test_the_twin_is_linear_on_each_side_of_its_kinks():
    block, x = ReluBlock(2, 3).double().eval(), torch.randn(1, 2, 4, 4).double()
    u, v = block.shortcut(x), block.branch(x)
    torch.testing.assert_close(block(x), (u + v * (v > 0)) / (1 + 1e-5) ** 0.5)
    block = SquareReluBlock(2, 3).double().eval()
    u = block.view(x)
    torch.testing.assert_close(block(x), 0.5 * u * (u > 0) / (1 + 1e-5) ** 0.5 + u)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"widths": ()}, "at least one number"),
        ({"widths": (4, 0)}, "each at least 1"),
        ({"block": "gelu"}, "block must be one of product, scaled, relu"),
        ({"in_channels": 0}, "in_channels must be at least 1, got 0"),
        ({"cells": 0}, "cells must be at least 1, got 0"),
    ],
)
def test_bad_arguments_are_refused_with_the_rule(arguments, message):
    with pytest.raises(ValueError, match=message):
        create_model("strict_convnet", **arguments)


def test_a_mirrored_network_is_a_polynomial_that_mirroring_does_not_change():
    options = {"widths": (2, 3), "depths": (1, 2)}
    once = create_model("strict_resnet", **options).double()
    network, x = create_model("strict_resnet", **options, mirror=True).double(), torch.randn(2, 3, 4, 4).double()
    network.load_state_dict(once.state_dict())
    torch.testing.assert_close(network(x), once(x))  # in training it is one network
    network.eval(), once.eval()
    torch.testing.assert_close(network(x), (once(x) + once(x.flip(-1))) / 2)
    torch.testing.assert_close(network(x), network(x.flip(-1)))
    assert_polynomial(network, x[:1], degree=8)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"widths": (4, 4), "depths": (1, 1, 1)}, "depths must have 2 numbers like widths"),
        ({"widths": (4, 4), "depths": (1, 0)}, r"each at least 1, got \(1, 0\)"),
        ({"widths": (), "depths": ()}, "at least one number"),
        ({"block": "product"}, "block must be one of square, relu"),
    ],
)
def test_bad_depths_are_refused_with_the_rule(arguments, message):
    with pytest.raises(ValueError, match=message):
        create_model("strict_resnet", **arguments)


def test_the_classifier_sees_the_means_of_cells():
    network = create_model("strict_convnet", widths=(3, 4), in_channels=1, cells=2).eval()
    x = torch.randn(2, 1, 8, 8)
    features = network.forward_features(x)
    means = features.reshape(2, 4, 2, 2, 2, 2).mean((3, 5)).flatten(1)  # 4 x 4 places in 2 x 2 cells
    torch.testing.assert_close(network(x), network.fc(means))
    assert_polynomial(network.double(), x.double(), degree=4)


def test_a_scaled_block_is_its_formula():
    block, x = ProductBlock(3, 5, scaled=True).double().eval(), torch.randn(2, 3, 6, 6).double()
    torch.nn.init.normal_(block.step.norm.logits)
    u, v = block.step.gate(x), block.step.body(x)
    torch.testing.assert_close(block(x), block.norm(block.step.norm.logits.sigmoid() * u * v + u))
    assert_polynomial(block, x, degree=2)
