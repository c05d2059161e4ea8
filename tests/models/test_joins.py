"""The joins of residual blocks against their formulas, and in half precision."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pinets.convert import to_pinet
from pinets.models import Add, BasicBlock, Multiply, Scale, Site, create_model, local_product, normalised_product

SITE = Site(4, True, nn.ReLU)


def test_a_product_is_added_to_the_sum():
    s, r = torch.randn(2, 2, 4, 3, 3).unbind(0)
    torch.testing.assert_close(Add(nn.ReLU())(s, r), F.relu(s + r))
    expected = F.relu(torch.tanh(torch.einsum("nchw,nchw->nchw", s, r)) + s + r)
    torch.testing.assert_close(Multiply(nn.Tanh(), nn.ReLU())(s, r), expected)


@pytest.mark.parametrize(
    "join",
    [
        lambda: local_product(SITE, convs=0),
        lambda: local_product(SITE, convs=2),
        lambda: normalised_product(SITE, conv=False),
        lambda: normalised_product(SITE, conv=True),
        lambda: Multiply(Scale(), nn.ReLU()),
    ],
    ids=["scale", "local", "batch norm", "convolution", "scale alone"],
)
def test_products_that_overflow_in_fp16_leave_a_fresh_block_alone(join):
    torch.manual_seed(0)
    join = join().half()
    # 300 * 300 is beyond 65,504, and far from it elsewhere
    s, r = torch.randn(2, 2, 4, 3, 3).half().unbind(0)
    s[0, 0, 1, 1], r[0, 0, 1, 1], s[1, 2, 0, 0], r[1, 2, 0, 0] = 300, 300, -400, 500
    s.requires_grad_(), r.requires_grad_()
    out = join(s, r)
    assert torch.equal(out, F.relu(r + s))
    out.float().sum().backward()
    slope = (out > 0).half()  # as of the sum alone
    assert torch.equal(s.grad, slope)
    assert torch.equal(r.grad, slope)
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in join.parameters())


def test_a_scale_of_zero_is_exact_for_what_overflowed():
    x = torch.tensor([float("inf"), float("-inf"), float("nan"), 3.0], dtype=torch.float16, requires_grad=True)
    scale = Scale().half()
    out = scale(x)
    assert torch.equal(out, torch.zeros(4, dtype=torch.float16))
    out.float().sum().backward()
    assert torch.equal(x.grad, torch.zeros(4, dtype=torch.float16))
    assert scale.alpha.grad.isfinite()


def test_a_converted_network_computes_the_same_in_fp16():
    torch.manual_seed(0)
    network = nn.Sequential(BasicBlock(4, 4, stride=1, join=lambda site: Add(site.activation()), activation=nn.ReLU))
    pinet, _ = to_pinet(network)
    x = 1000 * torch.randn(2, 4, 8, 8)
    network[0].bn2.weight.data.fill_(100)
    pinet.load_state_dict(network.state_dict(), strict=False)
    network, pinet, x = network.half().eval(), pinet.half().eval(), x.half()
    assert (network[0].shortcut(x).float() * (network(x) - x).float()).abs().max() > 65504
    assert torch.equal(pinet(x), network(x))


def test_gradients_reach_the_scale_from_the_first_step():
    torch.manual_seed(0)
    model = create_model("prodpoly_resnet18_cifar", width=4, depths=(1,))
    model(torch.randn(2, 3, 8, 8)).square().sum().backward()
    assert model.layer1[0].join.step.norm[-1].alpha.grad.abs() > 0
