from __future__ import annotations

import pytest
import torch

from pinets.algebra import certify
from pinets.models import create_model, model_entry
from pinets.models.polynext_layers import AttentionUpdate, BilinearUpdate, ConvUpdate, PixelBatchNorm
from pinets.models.polynext_weights import load_published_polynext, published_name


def toy(name, **changes):
    return create_model(name, **{**model_entry(name).toy, **changes})


@pytest.mark.parametrize(
    "name, millions",
    [
        *(("polynext_t", 6.4), ("polynext_s", 26), ("polynext_b", 40), ("polynext_l", 57)),
        *(("apolynext_t", 6.5), ("apolynext_s", 26)),
    ],
)
def test_parameters_are_as_many_as_published(name, millions):
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in create_model(name).parameters())
    assert round(count / 1e6, 1 if millions < 10 else None) == millions


# The updates, written out


def test_the_convolutional_update_is_its_formula():
    update, p = (
        ConvUpdate(4, 6, kernel=5, norm=torch.nn.Identity(), drop_path=0).double(),
        torch.randn(2, 4, 8, 8).double(),
    )
    gate, (other, _), (mix, narrow, *_) = update.product.gate, update.product.body, update.product.norm
    b = torch.einsum("oc,nchw->nohw", update.expand.weight[..., 0, 0], p)
    left = torch.nn.functional.conv2d(b, gate.weight, padding=4, dilation=2, groups=6)
    right = torch.nn.functional.conv2d(b, other.weight, padding=1, groups=6)
    product = torch.stack([left[:, channel] * right[:, 5 - channel] for channel in range(6)], dim=1)
    expected = torch.nn.functional.conv2d(product, mix.weight, padding=1, groups=6)
    torch.testing.assert_close(update(p), torch.einsum("oc,nchw->nohw", narrow.weight[..., 0, 0], expected))


def test_the_bilinear_update_is_its_formula():
    update, p = BilinearUpdate(3, 5, norm=torch.nn.Identity(), drop_path=0).double(), torch.randn(2, 3, 4, 4).double()
    inside, outside = update.expand.weight[..., 0, 0], update.product.norm[1].weight[..., 0, 0]
    high, low = (torch.einsum("oc,nchw->nohw", weight, p) for weight in (inside[:5], inside[5:]))
    torch.testing.assert_close(update(p), torch.einsum("oc,nchw->nohw", outside, high * low))


def test_attention_is_its_formula():
    update = AttentionUpdate(64, 3, norm=lambda *_: torch.nn.Identity(), strict=False, drop_path=0).double()
    for conv in (update.query, update.key, update.value, update.mix[0]):  # the centre alone: pixels stay apart
        weight = torch.zeros_like(conv.weight)
        weight[..., conv.kernel_size[0] // 2, conv.kernel_size[0] // 2] = 1
        conv.weight.data = weight
    p = torch.randn(1, 64, 3, 3).double()
    mixed, values = (update.expand.weight[..., 0, 0] @ p[0].flatten(1)).split(32)  # (32, 9) each, one head
    weights = (mixed.T @ mixed * 32**-0.5 + 1) ** 4
    expected = (values @ (weights / weights.sum(dim=1, keepdim=True)).T).reshape(1, 32, 3, 3)
    torch.testing.assert_close(update(p), torch.einsum("oc,nchw->nohw", update.mix[1].weight[..., 0, 0], expected))


def test_statistics_are_those_of_each_pixel():
    norm, x = PixelBatchNorm(5, 3, eps=0, momentum=1.0).double(), torch.randn(7, 5, 3, 3).double() * 2 + 1
    pixels = x.transpose(0, 1).reshape(-1, 3, 3)  # all samples and channels of a pixel
    expected = (x - pixels.mean(0)) / pixels.std(0, correction=0)
    torch.testing.assert_close(norm(x), expected)
    torch.testing.assert_close(norm.eval()(x), expected)


# What is a polynomial


def settle(model, x):
    """Running statistics of a batch, without which a fresh network of such a degree overflows."""
    for module in model.modules():
        if hasattr(module, "momentum"):
            module.momentum = 1.0
    model.train()(x)
    return model.eval()


def test_maps_of_another_size_are_refused_with_the_rule():
    with pytest.raises(ValueError, match=r"for maps of 3x3 pixels, got 4x5: image_size must be the images' own"):
        PixelBatchNorm(5, 3)(torch.randn(2, 5, 4, 5))


def test_layer_norms_and_row_sums_are_in_the_way():
    x = torch.randn(2, 3, 32, 32)
    small = {"image_size": 32, "stem_stride": 1, "width": 4, "nodes": (2, 2), "reduce_at": (1,)}
    assert not certify(toy("polynext_cifar", **small), x).polynomial
    reasons = str(certify(toy("apolynext_t", image_size=32), x))
    assert "layer_norm" in reasons
    assert "RowSum" in reasons


def test_batch_norm_makes_it_a_polynomial_of_the_degree_of_its_products():
    model = toy("polynext_cifar_bn", width=4, nodes=(2,), reduce_at=(), image_size=8, num_classes=2).double()
    x = torch.randn(8, 3, 8, 8).double()
    certificate = certify(settle(model, x), x[:1])
    assert certificate.degree == 2**3  # two updates and the head, each a product of two values of one degree


# Published checkpoints

PUBLISHED_CONV = """
    cells.0.preprocess0.scale cells.0.preprocess1.scale cells.0.postprocess.weight cells.0.skip_weight
    cells.0.ops.0.weight cells.0.ops.1.weight cells.0.ops.2.weight
    cells.0.ops.3.0.weight cells.0.ops.3.1.weight cells.0.ops.3.2.weight
    cells.0.ops.4.weight cells.0.ops.5.0.weight cells.0.ops.5.1.weight
    cells.0.ops.6.weight cells.0.ops.7.weight cells.0.ops.8.weight
    cells.0.ops.9.0.weight cells.0.ops.9.1.weight cells.0.ops.9.2.weight
    cells.0.ops.10.weight cells.0.ops.11.0.weight cells.0.ops.11.1.weight
"""
PUBLISHED_ATTENTION = """
    cells.1.preprocess0.scale cells.1.preprocess1.scale cells.1.skip_weight
    cells.1.postprocess.gamma_c cells.1.postprocess.gamma_hw
    cells.1.postprocess.running_mean cells.1.postprocess.running_var
    cells.1.ops.0.0.gamma_c cells.1.ops.0.0.gamma_hw cells.1.ops.0.0.running_mean cells.1.ops.0.0.running_var
    cells.1.ops.0.1.scale cells.1.ops.0.1.qkv.weight cells.1.ops.0.1.proj.weight
    cells.1.ops.0.1.q_conv.weight cells.1.ops.0.1.k_conv.weight cells.1.ops.0.1.v_conv.weight
    cells.1.ops.0.1.final_conv.weight cells.1.ops.0.1.norm.gamma cells.1.ops.0.1.norm.running_denom
    cells.1.ops.0.1.norm2.gamma_c cells.1.ops.0.1.norm2.gamma_hw
    cells.1.ops.0.1.norm2.running_mean cells.1.ops.0.1.norm2.running_var
    cells.1.ops.1.weight cells.1.ops.2.0.gamma_c cells.1.ops.2.0.gamma_hw
    cells.1.ops.2.0.running_mean cells.1.ops.2.0.running_var cells.1.ops.2.1.weight
"""
OTHERS = """
    stem.weight norm.weight proj.weight head.3.weight head.3.bias reductions.0.0.weight reductions.0.1.weight
    reductions.1.weight
"""


def names(model, beginning):
    found = (published_name(model, key) for key in model.state_dict())
    return {name for name in found if name.startswith(beginning)}


def test_the_names_of_published_checkpoints():
    model = toy("polynext_s", nodes=(4, 2), reduce_at=(1,), ratios=(0.0,) * 4, full_reduction=True)
    assert names(model, "cells.0.") == set(PUBLISHED_CONV.split())
    assert {name for name in names(model, "") if not name.startswith("cells.")} == set(OTHERS.split())
    assert names(toy("apolynext_t_bn"), "cells.1.") == set(PUBLISHED_ATTENTION.split())


def test_a_published_checkpoint_loads_and_another_is_refused():
    model, other = toy("polynext_t"), toy("polynext_t")
    state = {published_name(model, key): value for key, value in model.state_dict().items()}
    state["cells.0.preprocess0.scale"] = state["cells.0.preprocess0.scale"][None]  # published with an axis more
    load_published_polynext(other, {**state, "head.2.p": torch.tensor(0.1)})
    x = torch.randn(1, 3, 64, 64)
    assert torch.equal(other.eval()(x), model.eval()(x))
    del state["proj.weight"]
    with pytest.raises(ValueError, match=r"1 tensors are missing \(proj.weight\), 0 are unknown"):
        load_published_polynext(other, state)


@pytest.mark.parametrize(
    "arguments, message",
    [({"norm": "group"}, "norm must be one of"), ({"nodes": (3,)}, "even number"), ({"stem_stride": 2}, "1 or 4")],
)
def test_bad_arguments_are_refused_with_the_rule(arguments, message):
    with pytest.raises(ValueError, match=message):
        toy("polynext_t", **arguments)
