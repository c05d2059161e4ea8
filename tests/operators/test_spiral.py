from __future__ import annotations

import copy
from functools import partial

import pytest
import torch

from pinets import NCP, certify, orders
from pinets.operators import Resample, SpiralConv


def random_spirals(vertices, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    spirals = torch.randint(0, vertices + 1, (vertices, length), generator=generator)
    spirals[:, 0] = torch.arange(vertices)
    return spirals


def by_hand(conv, x):
    """The equation, vertex by vertex."""
    spirals, features = conv.spirals.tolist(), conv.in_features
    out = torch.zeros(*x.shape[:-1], conv.out_features, dtype=x.dtype)
    for vertex, spiral in enumerate(spirals):
        for place, other in enumerate(spiral):
            if other < len(spirals):
                part = conv.weight[:, place * features : (place + 1) * features]
                out[..., vertex, :] += x[..., other, :] @ part.T
    return out if conv.bias is None else out + conv.bias


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 3), (5, 7, 3), (2, 3, 7, 3)])
def test_the_equation(bias, shape):
    torch.manual_seed(0)
    conv = SpiralConv(3, 4, random_spirals(7, 5), bias=bias, dtype=torch.float64)
    x = torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(conv(x), by_hand(conv, x))


def test_gradients():
    torch.manual_seed(0)
    conv = SpiralConv(3, 4, random_spirals(7, 5), dtype=torch.float64)
    x = torch.randn(5, 7, 3, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(5, 7, 4, dtype=torch.float64)
    found = torch.autograd.grad((conv(x) * weights).sum(), [x, *conv.parameters()])
    expected = torch.autograd.grad((by_hand(conv, x) * weights).sum(), [x, *conv.parameters()])
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_transforms_of_torch_see_the_same_function():
    conv = SpiralConv(3, 4, random_spirals(7, 5), dtype=torch.float64)
    x, along = torch.randn(2, 5, 7, 3, dtype=torch.float64)
    batched = torch.vmap(conv)(x)
    torch.testing.assert_close(batched, conv(x))
    _, tangent = torch.func.jvp(conv, (x,), (along,))
    torch.testing.assert_close(tangent, conv(along) - conv(torch.zeros_like(along)))
    compiled = torch.compile(conv, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), conv(x))
    exported = torch.export.export(conv, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    torch.testing.assert_close(exported.module()(x[:3]), conv(x[:3]))


def test_mixed_precision():
    conv, x = SpiralConv(3, 4, random_spirals(7, 5)), torch.randn(2, 7, 3)
    with torch.autocast("cpu", torch.bfloat16):
        out = conv(x)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), conv(x), rtol=0.05, atol=0.05)


def test_it_is_an_operator_of_the_core():
    torch.manual_seed(0)
    ncp = NCP(3, 2, rank=4, order=3, op=partial(SpiralConv, spirals=random_spirals(5, 3)))
    x = torch.randn(1, 5, 3)
    certificate = certify(ncp, x)
    assert certificate.degree == 3
    parts = orders(ncp, x)
    torch.testing.assert_close(sum(parts).to(x.dtype), ncp(x), rtol=1e-4, atol=1e-5)


def test_the_template_is_not_in_the_state():
    conv = SpiralConv(3, 4, random_spirals(7, 5))
    assert set(conv.state_dict()) == {"weight", "bias"}
    assert copy.deepcopy(conv).spirals.equal(conv.spirals)
    spirals = random_spirals(7, 5)
    with torch.device("meta"):
        assert SpiralConv(3, 4, spirals).weight.is_meta


@pytest.mark.parametrize(
    "spirals, message",
    [
        (torch.zeros(3, 2), "int64"),
        (torch.zeros(3, dtype=torch.int64), r"\(V, L\)"),
        (torch.full((3, 2), 4), "from 0 to 3 .* got 4 to 4"),
        (torch.full((3, 2), -1), "got -1 to -1"),
    ],
)
def test_bad_spirals_are_refused(spirals, message):
    with pytest.raises(ValueError, match=message):
        SpiralConv(1, 1, spirals)


def test_a_wrong_shape_is_refused_with_the_rule():
    with pytest.raises(ValueError, match=r"expects 7 vertices of 3 features, got shape \(2, 6, 3\)"):
        SpiralConv(3, 4, random_spirals(7, 5))(torch.randn(2, 6, 3))
    assert "7 vertices, spirals of 5" in repr(SpiralConv(3, 4, random_spirals(7, 5)))


def dense(resample):
    """The matrix, written out."""
    matrix = torch.zeros(len(resample.indices), resample.vertices, dtype=torch.float64)
    indices = resample.indices.reshape(len(matrix), -1)
    weights = torch.ones(indices.shape) if resample.weights is None else resample.weights
    for row, (columns, values) in enumerate(zip(indices.tolist(), weights.tolist(), strict=True)):
        for column, value in zip(columns, values, strict=True):
            matrix[row, column] += value
    return matrix


@pytest.mark.parametrize("weighted", [True, False])
def test_resampling_is_a_matrix(weighted):
    torch.manual_seed(0)
    if weighted:
        resample = Resample(5, torch.randint(5, (9, 3)), torch.rand(9, 3), dtype=torch.float64)
    else:
        resample = Resample(5, torch.tensor([4, 0, 2]))
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(resample(x), dense(resample) @ x)
    assert torch.autograd.gradcheck(resample, (x,))
    torch.testing.assert_close(torch.vmap(resample)(x), resample(x))
    assert certify(resample, x.detach()[:1]).degree == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((3, torch.tensor([3])), "one of 3 vertices, got 3 to 3"),
        ((3, torch.tensor([[0, 1]])), "as the weights are"),
        ((3, torch.tensor([[0, 1]]), torch.ones(1, 3)), "as the weights are"),
        ((3, torch.tensor([0.5])), "int64"),
    ],
)
def test_bad_resamplings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Resample(*arguments)
    with pytest.raises(ValueError, match="expects 3 vertices"):
        Resample(3, torch.tensor([0]))(torch.zeros(1, 4, 2))


def test_resampling_no_samples_at_all():
    resample = Resample(4, torch.tensor([[0, 1, 2]]), torch.full((1, 3), 1 / 3))
    assert resample(torch.empty(0, 4, 2)).shape == (0, 1, 2)
