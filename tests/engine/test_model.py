"""Narrow strided convolutions, which torch gets wrong on CPUs with the channels last, are never trained that way."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pinets import tasks as recipes
from pinets.engine.model import put_channels_last

CPU = torch.device("cpu")


@pytest.mark.parametrize("channels", [4, 8, 15])
def test_channels_that_fill_no_register_are_refused(channels):
    network = nn.Sequential(nn.Conv2d(channels, 16, 1, stride=2))
    with pytest.raises(ValueError, match=f"0 is a strided 1x1 convolution of {channels} channels"):
        put_channels_last(network, CPU)


@pytest.mark.parametrize("layer", [nn.Conv2d(16, 16, 1, 2), nn.Conv2d(4, 16, 1), nn.Conv2d(4, 16, 3, 2, 1)], ids=str)
def test_what_is_let_through_has_the_gradients_of_the_other_layout(layer):
    x = torch.randn(4, layer.in_channels, 32, 32)
    found = []
    for layout in (torch.contiguous_format, torch.channels_last):
        if layout == torch.channels_last:
            put_channels_last(layer, CPU)
        given = x.to(memory_format=layout).requires_grad_()
        out = layer(given)
        found.append(torch.autograd.grad(out.square().sum(), (given, layer.weight)))
    for first, last in zip(*found, strict=True):
        torch.testing.assert_close(last, first, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("scale", ["full", "small"])
@pytest.mark.parametrize("name", recipes.list_recipes())
def test_every_recipe_has_a_layout_that_is_safe(name, scale):
    recipe = recipes.get_recipe(name, scale)
    if not getattr(recipe, "channels_last", False):
        return
    with torch.device("meta"):
        networks = [
            getattr(recipe, part).build(classes=10) for part in ("model", "discriminator") if hasattr(recipe, part)
        ]
    for network in networks:
        put_channels_last(network, CPU)
