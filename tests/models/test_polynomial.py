"""The networks without activations are polynomials, of the degree their blocks give."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pinets.algebra import certify
from pinets.models import DropBlock, MultilinearLayer, create_model
from pinets.operators import SpatialShift


def with_products(model):
    """The products' scales, which start at zero, set to something."""
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("alpha"):
                parameter.fill_(0.5)
    return model


@pytest.mark.parametrize("channels", [1, 3])
def test_the_polynomial_resnet_certifies(channels):
    model = with_products(create_model("polynomial_resnet_cifar", width=4, depths=(2, 1), in_channels=channels))
    certificate = certify(model, torch.randn(1, channels, 8, 8))
    assert certificate.polynomial, str(certificate)
    assert certificate.degree == 2**3


def test_eight_blocks_have_degree_256():
    model = with_products(create_model("polynomial_resnet_cifar", width=2).double())
    assert certify(model, torch.randn(1, 3, 8, 8)).bound == 256


def test_its_twin_and_the_baseline_do_not():
    for name in ("polynomial_resnet_cifar_relu", "prodpoly_resnet18_cifar", "resnet18_cifar"):
        certificate = certify(create_model(name, width=2, depths=(1, 1)), torch.randn(1, 3, 8, 8))
        assert not certificate.polynomial
        assert any("relu" in str(violation) for violation in certificate.violations)


def test_tanh_is_named_as_such():
    certificate = certify(create_model("prodpoly_resnet50", width=2, depths=(1,)), torch.randn(1, 3, 32, 32))
    assert any("tanh" in str(violation) for violation in certificate.violations)


def test_the_twin_differs_by_its_activations_only():
    model, twin = (create_model(f"polynomial_resnet_cifar{end}", width=4, depths=(1, 1)) for end in ("", "_relu"))
    twin.load_state_dict(model.state_dict())
    x = torch.randn(2, 3, 16, 16)
    assert not torch.equal(twin.eval()(x), model.eval()(x))


@pytest.mark.parametrize("pool, polynomial", [("max", False), ("average", True)])
def test_pinet_is_a_polynomial_without_its_max_pool(pool, polynomial):
    model = create_model("pinet18_1x1", width=2, depths=(1, 1), pool=pool)
    with torch.no_grad():
        for block in (model.layer1[0], model.layer2[0]):
            block.join.step.norm[-1].weight.fill_(1.0)
    certificate = certify(model, torch.randn(1, 3, 32, 32))
    assert certificate.polynomial is polynomial
    assert certificate.degree == (4 if polynomial else None)


@pytest.mark.parametrize("norm, polynomial", [("layer", False), ("batch", True)])
def test_monet_is_a_polynomial_with_batch_norm(norm, polynomial):
    model = with_products(create_model("monet_t", depths=(1, 1), widths=(8, 8), num_classes=3, norm=norm))
    certificate = certify(model, torch.randn(1, 3, 16, 16))
    assert certificate.polynomial is polynomial
    assert certificate.degree == (2**4 if polynomial else None)  # two layers a block


def test_a_multilinear_layer_is_its_formula():
    layer = MultilinearLayer(8, 16, mix=nn.Identity, norm=nn.LayerNorm).double()
    with_products(layer)
    x = torch.randn(2, 3, 3, 8, dtype=torch.float64)
    (a, _, _), (b, _, d, _) = layer.steps[0].gate, layer.steps[0].body
    u = F.layer_norm(x @ a.weight.T + a.bias, (16,))
    v = F.layer_norm((x @ b.weight.T + b.bias) @ d.weight.T + d.bias, (16,))
    assert b.weight.shape == (2, 8)  # an eighth of 16
    expected = F.linear(u + 0.5 * torch.einsum("nhwc,nhwc->nhwc", u, v), layer.head.weight, layer.head.bias)
    torch.testing.assert_close(layer(x), expected)


def test_the_shift_moves_each_quarter_by_a_pixel():
    x = torch.randn(2, 5, 6, 8)
    out = SpatialShift()(x)
    for position, (axis, by) in enumerate([(1, 1), (1, -1), (2, 1), (2, -1)]):
        channels = slice(2 * position, 2 * position + 2)
        rolled = x[..., channels].roll(by, axis)
        border = 0 if by == 1 else -1
        index = [slice(None)] * 3 + [slice(None)]
        index[axis] = border
        rolled[tuple(index)] = x[..., channels][tuple(index)]  # where nothing comes in, the old value stays
        assert torch.equal(out[..., channels], rolled)


def test_dropblock_drops_whole_squares_at_its_rate_and_only_in_training():
    drop, x = DropBlock(3, 0.2), torch.ones(64, 8, 12, 12)
    assert torch.equal(drop.eval()(x), x)
    out = drop.train()(x)
    zero = out == 0
    assert 0.1 < zero.float().mean() < 0.22  # squares overlap, so a little less than the rate
    torch.testing.assert_close(out.mean(), torch.tensor(1.0))
    # every dropped pixel lies in a square of dropped pixels
    full = F.avg_pool2d(zero.float(), 3, stride=1) == 1
    covered = F.max_pool2d(F.pad(full.float(), [2] * 4), 3, stride=1) == 1
    assert torch.equal(covered, zero)


def test_dropblock_fits_small_maps_and_refuses_bad_rates():
    assert DropBlock(7, 0.5).train()(torch.ones(2, 3, 4, 4)).shape == (2, 3, 4, 4)
    with pytest.raises(ValueError, match="rate=1"):
        DropBlock(7, 1.0)
