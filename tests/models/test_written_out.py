"""Coefficients of small random networks against sympy: the layers are written out on polynomials of sympy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from pinets.algebra import certify, expand, orders
from pinets.models import create_model
from pinets.models.polynext import polynext

rings = pytest.importorskip("sympy.polys.rings")
from sympy.polys.domains import RR  # noqa: E402

pytestmark = pytest.mark.slow

# Layers on maps (channels, height, width) of polynomials


def numbers(tensor):
    return tensor.detach().double().numpy().astype(object)


def conv(layer, x):
    weight, (height, width) = numbers(layer.weight), x.shape[1:]
    bias = np.zeros(len(weight), dtype=object) if layer.bias is None else numbers(layer.bias)
    stride, margin, apart = layer.stride[0], layer.padding[0], layer.dilation[0]
    kernel, each = weight.shape[-1], len(weight) // layer.groups
    rows, columns = ((side + 2 * margin - apart * (kernel - 1) - 1) // stride + 1 for side in (height, width))
    out = np.empty((len(weight), rows, columns), dtype=object)
    for o, i, j in np.ndindex(out.shape):
        total, first = bias[o], o // each * weight.shape[1]
        for c, a, b in np.ndindex(weight.shape[1:]):
            y, z = i * stride + a * apart - margin, j * stride + b * apart - margin
            if 0 <= y < height and 0 <= z < width:
                total = total + x[first + c, y, z] * weight[o, c, a, b]
        out[o, i, j] = total
    return out


def batch_norm(layer, x):
    """The channels are the first axis."""
    mean, variance = numbers(layer.running_mean), layer.running_var.detach().double().numpy()
    factor = (layer.weight.detach().double().numpy() / np.sqrt(variance + layer.eps)).astype(object)
    shape = (-1, *[1] * (x.ndim - 1))
    return (x - mean.reshape(shape)) * factor.reshape(shape) + numbers(layer.bias).reshape(shape)


def pixel_norm(layer, x):
    deviation = np.sqrt(layer.running_var.detach().double().numpy() + layer.eps).astype(object)
    return (x - numbers(layer.running_mean)) / deviation * numbers(layer.pixel_weight) * numbers(layer.weight)


def linear(layer, x):
    """The channels are the last axis."""
    out = x.dot(numbers(layer.weight).T)
    return out if layer.bias is None else out + numbers(layer.bias)


def last_axis_norm(layer, x):
    return np.moveaxis(batch_norm(layer, np.moveaxis(x, -1, 0)), 0, -1)


def pooled(x, side=2):
    channels, height, width = x.shape
    cells = x.reshape(channels, height // side, side, width // side, side)
    return cells.sum(4).sum(2) * (1 / side**2)


# Networks


def product_block(block, x):
    u, v = (batch_norm(norm, conv(layer, x)) for layer, norm in (block.step.gate, block.step.body))
    product = u * v
    if block.step.norm is not None and hasattr(block.step.norm, "logits"):
        product = product * numbers(block.step.norm.logits.sigmoid())
    return batch_norm(block.norm, product + u)


def square_block(block, x):
    u = batch_norm(block.view[1], conv(block.view[0], x))
    return batch_norm(block.step.norm, u * u) + u


def strict_convnet(network, x):
    for number, block in enumerate(network.blocks):
        x = product_block(block, x if number == 0 else pooled(x))
    return linear(network.fc, pooled(x, x.shape[1] // network.cells).reshape(-1))


def strict_resnet(network, x):
    def features(x):
        for number, (first, *others) in enumerate(network.blocks):
            x = square_block(first, x if number == 0 else pooled(x))
            for other in others:
                x = x + square_block(other.block, x)
        return x

    both = (features(x) + features(x[:, :, ::-1])[:, :, ::-1]) * 0.5
    return linear(network.fc, both.sum(2).sum(1) * (1 / both[0].size))


def shifted(x):
    """Channels last; quarters are as numpy splits them."""
    down, up, right, left = np.array_split(x, 4, axis=-1)
    moved = [
        down[[0, *range(len(x) - 1)]],
        up[[*range(1, len(x)), -1]],
        right[:, [0, *range(x.shape[1] - 1)]],
        left[:, [*range(1, x.shape[1]), -1]],
    ]
    return np.concatenate(moved, axis=-1)


def monet(network, x):
    def layer(made, x, mix):
        (step,) = made.steps
        u = last_axis_norm(step.gate[2], mix(linear(step.gate[0], x)))
        v = last_axis_norm(step.body[3], linear(step.body[2], mix(linear(step.body[0], x))))
        return linear(made.head, u + u * v * step.norm.alpha.item())

    for part in network.stem:
        x = conv(part, x)
    for number, stage in enumerate(network.stages):
        x = np.moveaxis(x if number == 0 else conv(network.downsamples[number - 1], x), 0, -1)
        for block in stage:
            x = x + layer(block.pixels, last_axis_norm(block.norms[0], x), shifted)
            x = x + layer(block.channels, last_axis_norm(block.norms[1], x), lambda y: y)
        x = np.moveaxis(x, -1, 0)
    return linear(network.fc, x.sum(2).sum(1) * (1 / x[0].size))


def polynext_update(update, p):
    if hasattr(update, "query"):
        mixed, values = np.split(conv(update.expand, pixel_norm(update.norm, p)), 2)
        query, key, value = (
            conv(layer, y).reshape(len(y), -1)
            for layer, y in ((update.query, mixed), (update.key, mixed), (update.value, values))
        )
        weights = (query.T.dot(key) * update.scale.sigmoid().item() + 1.0) ** 4  # of one head
        weights = weights / numbers(update.rows.running_sum + update.rows.eps)[0] * numbers(update.rows.weight)[0]
        first, norm, last, _ = update.mix
        return conv(last, pixel_norm(norm, conv(first, value.dot(weights.T).reshape(mixed.shape))))
    inner = conv(update.expand, p)
    if hasattr(update.product.gate, "weight"):
        left, right = conv(update.product.gate, inner), conv(update.product.body[0], inner)[::-1]
        mix, narrow, norm, _ = update.product.norm
        return pixel_norm(norm, conv(narrow, conv(mix, left * right)))
    high, low = np.split(inner, 2)
    norm, narrow, _ = update.product.norm
    return conv(narrow, pixel_norm(norm, high * low))


def polynext_forward(network, x):
    before = last = conv(network.stem, x)
    for number, cell in enumerate(network.cells):
        if str(number) in network.reductions:
            one, two = network.reductions[str(number)]
            before = conv(one[1], conv(one[0], before))
            last = conv(two, last) if isinstance(two, nn.Conv2d) else conv(two[1], conv(two[0], last))
        p = pixel_norm(cell.norm, before * numbers(cell.scale_before) + last * numbers(cell.scale_last))
        for at, update in enumerate(cell.updates):
            ratio = cell.ratios[(at + 1) // 2 if cell.paired else at].sigmoid()
            p = p + polynext_update(update, p) * ratio.item()
        before, last = last, p
    left, right = np.split(conv(network.project, pixel_norm(network.norm, last)), 2)
    out = left + left * right
    return linear(network.fc, out.sum(2).sum(1) * (1 / out[0].size))


def settled(network, side):
    """A network in evaluation mode whose parameters and statistics are all in use, and of moderate size."""
    network = network.double()
    with torch.no_grad():
        for module in network.modules():
            if hasattr(module, "momentum"):
                module.momentum = 1.0
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        for _ in range(3):
            network(torch.randn(16, 1, side, side, dtype=torch.float64))
    return network.eval()


SMALL = {"width": 2, "norm": "batch", "stem_stride": 1, "in_channels": 1, "num_classes": 2}
NETWORKS = {
    "convnet": (lambda: create_model("strict_convnet", widths=(2, 3), in_channels=1, num_classes=2), 4),
    "cells": (
        lambda: create_model("strict_convnet", widths=(2,), in_channels=1, num_classes=2, block="scaled", cells=2),
        4,
    ),
    "resnet": (
        lambda: create_model("strict_resnet", widths=(2, 2), depths=(1, 2), in_channels=1, num_classes=2, mirror=True),
        4,
    ),
    "monet": (
        lambda: create_model("monet_t_bn", depths=(1, 1), widths=(5, 3), in_channels=1, num_classes=2, expansion=2),
        8,
    ),
    "polynext": (lambda: polynext(nodes=(2,), reduce_at=(), ratios=(0, 0.5), image_size=4, **SMALL), 4),
    "reduced": (
        lambda: polynext(
            nodes=(2, 2), reduce_at=(1,), ratios=(0, 0.5), paired=True, full_reduction=False, image_size=4, **SMALL
        ),
        4,
    ),
    "attention": (
        lambda: polynext(nodes=(2,), reduce_at=(0, 0), ratios=(0, 0), image_size=2, attention=True, **SMALL),
        2,
    ),
}
WRITTEN = {"convnet": strict_convnet, "cells": strict_convnet, "resnet": strict_resnet, "monet": monet}


def written(name, network, x):
    return WRITTEN.get(name, polynext_forward)(network, x)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_share_of_every_degree_is_sympys(name):
    torch.manual_seed(len(name))
    make, side = NETWORKS[name]
    network = settled(make(), side)
    z = 0.5 * torch.randn(1, 1, side, side, dtype=torch.float64)
    _, t = rings.ring("t", RR)
    polynomials = written(name, network, numbers(z[0]) * t)
    found = orders(network, z)[:, 0]
    assert len(found) == max(one.degree() for one in polynomials) + 1 == certify(network, z).bound + 1
    for output, polynomial in enumerate(polynomials):
        terms = {degree: float(value) for (degree,), value in polynomial.terms()}
        expected = torch.tensor([terms.get(degree, 0.0) for degree in range(len(found))], dtype=torch.float64)
        atol = 1e-10 * float(expected.abs().max())
        torch.testing.assert_close(found[:, output], expected, rtol=1e-7, atol=atol)
    torch.testing.assert_close(found.sum(0), network(z)[0])


class Embedded(nn.Module):
    """A network on images that depend on two numbers."""

    def __init__(self, network, side):
        super().__init__()
        self.first, self.network, self.side = nn.Linear(2, side * side).double(), network, side

    def forward(self, z):
        return self.network(self.first(z).unflatten(1, (1, self.side, self.side)))


@pytest.mark.parametrize("name", ["convnet", "cells", "resnet", "polynext"])
def test_all_coefficients_are_sympys(name):
    torch.manual_seed(len(name))
    make, side = NETWORKS[name]
    network = Embedded(settled(make(), side), side).eval()
    _, x, y = rings.ring("x, y", RR)
    image = linear(network.first, np.array([x, y], dtype=object)).reshape(1, side, side)
    expansion = expand(network, torch.zeros(1, 2, dtype=torch.float64))
    for output, polynomial in enumerate(written(name, network.network, image)):
        terms = {power: float(value) for power, value in polynomial.terms()}
        largest = max(map(abs, terms.values()))
        for degree, tensor in expansion.coefficients.items():
            for power in range(degree + 1):  # the coefficient of x^(degree - power) y^power
                places = (0,) * (degree - power) + (1,) * power
                many = math.comb(degree, power)
                found = float(tensor[(output, *places)]) * many
                assert found == pytest.approx(terms.get((degree - power, power), 0.0), rel=1e-7, abs=1e-10 * largest)
