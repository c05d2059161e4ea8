"""What a PyTorch user expects of any module."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, PowerSum

CONV = partial(nn.Conv2d, kernel_size=3, padding=1)
LAYERS = {
    "ccp": (lambda **k: CCP(4, 3, rank=5, order=3, **k), (2, 4)),
    "ncp": (lambda **k: NCP(4, 3, rank=5, order=3, **k), (2, 4)),
    "ncp_skip": (lambda **k: NCPSkip(4, 3, rank=5, order=3, **k), (2, 4)),
    "factored bias": (lambda **k: NCP(4, 3, rank=5, order=3, bias_size=2, **k), (2, 4)),
    "conv2d": (lambda **k: NCPSkip(4, 3, rank=5, order=3, op=CONV, **k), (2, 4, 6, 6)),
    "conv1d": (lambda **k: CCP(4, 3, rank=5, order=3, op=partial(nn.Conv1d, kernel_size=3, padding=1), **k), (2, 4, 6)),
    "transposed": (
        lambda **k: NCP(4, 3, rank=5, order=3, op=partial(nn.ConvTranspose2d, kernel_size=3, padding=1), **k),
        (2, 4, 6, 6),
    ),
    "strided": (
        lambda **k: CCP(
            4, 3, rank=5, order=3, op=partial(nn.Conv2d, kernel_size=3, padding=1, stride=2), head_op=CONV, **k
        ),
        (2, 4, 8, 8),
    ),
    "product": (lambda **k: nn.Sequential(CCP(4, 6, rank=5, order=2, **k), NCP(6, 3, rank=2, order=3, **k)), (2, 4)),
}


@pytest.fixture(params=LAYERS)
def case(request):
    make, shape = LAYERS[request.param]
    torch.manual_seed(0)
    return make, torch.randn(shape)


def test_compiles_as_one_graph(case):
    make, z = case
    layer = make()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(z), layer(z))


def test_exports_with_a_dynamic_batch(case):
    make, z = case
    layer = make()
    exported = torch.export.export(layer, (z,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    more = torch.cat([z, z, z])
    torch.testing.assert_close(exported.module()(more), layer(more))


def test_autocast(case):
    make, z = case
    layer = make()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(z)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), layer(z), rtol=0.1, atol=0.1)
    out.float().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in layer.parameters())


def test_meta_device_then_materialised(case):
    make, z = case
    layer = make(device="meta")
    assert all(parameter.is_meta for parameter in layer.parameters())
    real = make()
    layer = layer.to_empty(device="cpu")
    layer.load_state_dict(real.state_dict())
    torch.testing.assert_close(layer(z), real(z), rtol=0, atol=0)


def test_dtype(case):
    make, z = case
    assert make(dtype=torch.float64)(z.double()).dtype == torch.float64


def test_deepcopy_and_state_dict_round_trip(case):
    make, z = case
    layer = make()
    torch.testing.assert_close(copy.deepcopy(layer)(z), layer(z), rtol=0, atol=0)
    other = make()
    assert not torch.equal(other(z), layer(z))
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other(z), layer(z), rtol=0, atol=0)


def test_gradients_are_those_of_finite_differences(case):
    make, z = case
    layer = make(dtype=torch.float64)
    assert torch.autograd.gradcheck(layer, z.double().requires_grad_(), fast_mode=True)


def test_functional_transforms():
    layer = NCPSkip(4, 3, rank=5, order=3)
    z = torch.randn(6, 4)
    torch.testing.assert_close(torch.vmap(layer)(z), layer(z))
    assert torch.func.jacfwd(layer)(z[0]).shape == (3, 4)


def test_reset_parameters_draws_anew():
    layer = CCP(4, 3, rank=5, order=3)
    before = layer.start.weight.clone()
    layer.reset_parameters()
    assert not torch.equal(before, layer.start.weight)


def test_construction_leaves_global_state_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    PowerSum(3)
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_factored_biases_are_made_in_half_precision(dtype):
    layer = NCP(8, 2, rank=16, order=3, bias_size=4, dtype=dtype)
    assert {parameter.dtype for parameter in layer.parameters()} == {dtype}
