"""Every network of the paper runs through ``Step.forward``, and every layer runs its own forward."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, PowerSum
from pinets.models import create_model, list_models, model_entry
from pinets.polynomial import Step

SMALL = {"width": 4, "num_classes": 3}
FACES = {"width": 8, "embedding": 16, "size": 32}
SPIRAL = model_entry("spiral_autoencoder").toy  # two layers in the encoder, two in the decoder

# what makes the network, its input, and how many orders are added: one for each step
FAMILIES = {
    "CCP of order 5": (lambda: CCP(6, 3, rank=4, order=5), (6,), 4),
    "NCP of order 5": (lambda: NCP(6, 3, rank=4, order=5), (6,), 4),
    "NCP-Skip of order 5": (lambda: NCPSkip(6, 3, rank=4, order=5), (6,), 4),
    "powers up to 5": (lambda: PowerSum(5), (6,), 4),
    "CCP of order 4 for MNIST": (lambda: create_model("ccp4_mnist", rank=4), (1, 28, 28), 3),
    "Prodpoly-ResNet": (lambda: create_model("prodpoly_resnet18_cifar", **SMALL), (3, 32, 32), 2 + 2 + 1 + 1),
    "Prodpoly-ResNet50": (lambda: create_model("prodpoly_resnet50", **SMALL), (3, 64, 64), 3 + 4 + 6 + 3),
    "PiNet": (lambda: create_model("pinet18_1x1", **SMALL), (3, 64, 64), 2 + 2 + 2 + 2),
    "polynomial ResNet": (lambda: create_model("polynomial_resnet_cifar", **SMALL), (3, 32, 32), 2 + 2 + 2 + 2),
    "Prodpoly-IR-ResNet50": (lambda: create_model("prodpoly_iresnet50", **FACES), (3, 32, 32), 3 + 4 + 14 + 3),
    "MONet": (lambda: create_model("monet_t", depths=(1, 2), widths=(8, 8)), (3, 32, 32), 2 * (1 + 2)),
    "SNGAN's blocks at 4, 8, 16": (lambda: create_model("sngan_ncp_generator", width=4, latent=6), (6,), 3),
    "SNGAN after a polynomial of order 2": (
        lambda: create_model("sngan_prodpoly_generator", width=4, latent=6),
        (6,),
        3 + 1,
    ),
    "StyleGAN, two at 4, 8, 16": (
        lambda: create_model("stylegan_generator", size=16, base=64, most=8, latent=8).eval(),
        (8,),
        2 * 3,
    ),
    "StyleGAN after an NCP of order 4": (
        lambda: create_model("stylegan_prodpoly_generator", size=16, base=64, most=8, latent=8).eval(),
        (8,),
        2 * 3 + 3,
    ),
    "spiral NCP of order 3": (
        lambda: create_model("spiral_autoencoder", layer="ncp", order=3, **SPIRAL),
        (40, 3),
        4 * 2,
    ),
    "spiral NCP-Skip of order 4": (
        lambda: create_model("spiral_autoencoder", layer="ncp_skip", order=4, **SPIRAL),
        (40, 3),
        4 * 3,
    ),
    "spiral powers up to 3": (
        lambda: create_model("spiral_autoencoder", layer="simple", order=3, **SPIRAL),
        (40, 3),
        4 * 2,
    ),
}


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_step_forward_runs_once_for_every_order(family, gradients, monkeypatch):
    make, shape, expected = FAMILIES[family]
    network, calls, forward = make(), [], Step.forward
    monkeypatch.setattr(Step, "forward", lambda self, z, x: calls.append(self) or forward(self, z, x))
    with torch.set_grad_enabled(gradients):
        network(torch.randn(2, *shape))
    assert len(calls) == len(set(calls)) == expected


def make_toy(name):
    entry = model_entry(name)
    # images small enough for a test, and large enough for four halvings
    shape = (*entry.input_shape[:-2], *(min(side, 64) for side in entry.input_shape[-2:]))
    if name == "spiral_autoencoder":
        return create_model(name, layer="ncp_skip", order=3, norm="batch", **SPIRAL), (40, 3)
    if entry.task == "faces":
        shape = (3, entry.toy["size"], entry.toy["size"])
    elif entry.task == "generation":
        shape = (entry.toy["latent"],)
    elif "size" in entry.toy:
        shape = (entry.input_shape[0], entry.toy["size"], entry.toy["size"])
    return create_model(name, **entry.toy), shape


@pytest.mark.parametrize("name", [name for name in list_models() if "discriminator" not in name])
def test_hooks_on_steps_and_batch_norms_fire(name):
    network, shape = make_toy(name)
    kinds = (Step, nn.modules.batchnorm._BatchNorm)
    watched = {path: module for path, module in network.named_modules() if isinstance(module, kinds)}
    fired: Counter[str] = Counter()
    for path, module in watched.items():
        module.register_forward_hook(lambda *_, path=path: fired.update([path]))
    z = torch.randn(2, *shape)
    for training in (True, False):
        fired.clear()
        network.train(training)
        with torch.set_grad_enabled(training):
            network(z)
        # StyleGAN mixes two styles while it trains
        assert fired == {path: 2 if training and path.startswith("mapping.") else 1 for path in watched}
