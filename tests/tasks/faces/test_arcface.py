"""ArcFace against its formula in float64, and at the cosines where a careless form is not finite."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from pinets.tasks.faces.arcface import ArcFace, cosines


def formula(embeddings, centres, labels, scale, margin):
    """The loss sample by sample, by the angle itself."""
    total = 0.0
    for embedding, label in zip(embeddings.double(), labels.tolist(), strict=True):
        logits = []
        for identity, centre in enumerate(centres.double()):
            angle = math.acos(float(embedding @ centre / (embedding.norm() * centre.norm())))
            if identity == label:
                beyond = math.cos(angle) - margin * math.sin(margin)
                logits.append(scale * (math.cos(angle + margin) if angle + margin <= math.pi else beyond))
            else:
                logits.append(scale * math.cos(angle))
        highest = max(logits)
        total += math.log(sum(math.exp(logit - highest) for logit in logits)) + highest - logits[label]
    return total / len(labels)


@pytest.mark.parametrize("scale, margin", [(64.0, 0.5), (16.0, 0.2), (1.0, 0.0)])
def test_the_formula(scale, margin):
    embeddings, centres, labels = torch.randn(6, 5), torch.randn(7, 5), torch.randint(7, (6,))
    embeddings[0] = -2 * centres[labels[0]] + 0.1 * torch.randn(5)  # where the angle and the margin exceed pi
    loss = ArcFace(scale, margin).loss(embeddings, centres, labels)
    assert loss.item() == pytest.approx(formula(embeddings, centres, labels, scale, margin), rel=1e-4)


def test_without_margin_it_is_the_softmax_of_cosines():
    embeddings, centres, labels = torch.randn(4, 6), torch.randn(9, 6), torch.randint(9, (4,))
    expected = F.cross_entropy(30 * F.normalize(embeddings) @ F.normalize(centres).T, labels)
    torch.testing.assert_close(ArcFace(30.0, 0.0).loss(embeddings, centres, labels), expected)


def test_the_gradient_is_the_formulas():
    """By the angle: d cos(theta + m) / d cos(theta) = sin(theta + m) / sin(theta)."""
    angle = torch.linspace(0.02, math.pi - 0.52, 50, dtype=torch.float64)
    cosine = angle.cos().requires_grad_()
    ArcFace(margin=0.5).with_margin(cosine).sum().backward()
    torch.testing.assert_close(cosine.grad, (angle + 0.5).sin() / angle.sin())


def test_a_smaller_angle_is_never_worse():
    cosine = torch.linspace(-1, 1, 10_001, dtype=torch.float64)
    assert (ArcFace(margin=0.5).with_margin(cosine).diff() > 0).all()


@settings(max_examples=200, deadline=None)
@given(
    near=st.sampled_from([1.0, -1.0]),
    distance=st.floats(0, 1e-2) | st.sampled_from([0.0, 6e-8, 1.2e-7, 1e-6]),
    size=st.sampled_from([1e-20, 1e-4, 1.0, 1e4, 1e15]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    autocast=st.sampled_from([None, torch.bfloat16, torch.float16]),
    seed=st.integers(0, 1000),
)
def test_no_cosine_makes_it_infinite(near, distance, size, dtype, autocast, seed):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(5, 8, generator=generator)
    embeddings = near * centres[:3] + distance * torch.randn(3, 8, generator=generator)
    limit = torch.finfo(dtype).max
    embeddings, centres = ((values * size).clamp(-limit, limit).to(dtype) for values in (embeddings, centres))
    embeddings.requires_grad_()
    centres.requires_grad_()
    with torch.autocast("cpu", dtype=autocast, enabled=autocast is not None):
        loss = ArcFace().loss(embeddings, centres, torch.arange(3))
    assert loss.dtype == torch.float32
    assert loss.isfinite()
    loss.backward()
    # what half precision cannot hold is told from what the loss makes: the scale of GradScaler is for that
    if dtype == torch.float32:
        assert embeddings.grad.isfinite().all()
        assert centres.grad.isfinite().all()


@pytest.mark.parametrize("cosine", [1.0, -1.0, 1 + 1e-3, -1 - 1e-3, 1 - 6e-8, -1 + 6e-8, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_ends_and_beyond(cosine, dtype):
    values = torch.full((2,), cosine, dtype=dtype, requires_grad=True)
    out = ArcFace().with_margin(values)
    out.sum().backward()
    assert out.isfinite().all()
    assert values.grad.isfinite().all()
    within = min(max(values[0].item(), -1.0), 1.0)
    angle = math.acos(within)
    expected = math.cos(angle + 0.5) if angle + 0.5 <= math.pi else within - 0.5 * math.sin(0.5)
    assert out[0].item() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("row", [slice(0, 1), slice(None)], ids=["one", "all"])
@pytest.mark.parametrize("zeros", ["embeddings", "centres"])
def test_zeros_have_a_finite_gradient(zeros, row, dtype):
    values = {"embeddings": torch.randn(2, 4).to(dtype), "centres": torch.randn(3, 4).to(dtype)}
    values[zeros][row] = 0
    leaves = {name: value.requires_grad_() for name, value in values.items()}
    loss = ArcFace().loss(**leaves, labels=torch.tensor([0, 1]))
    loss.backward()
    assert loss.isfinite()
    for leaf in leaves.values():
        assert leaf.grad.isfinite().all()
    assert leaves[zeros].grad[0].any()  # by which it gets a direction


@pytest.mark.parametrize("size", [1e-11, 1e-4, 1.0, 1e15])
def test_lengths_do_not_count(size):
    embeddings, centres = torch.randn(4, 6), torch.randn(9, 6)
    expected = cosines(embeddings, centres)
    torch.testing.assert_close(cosines(size * embeddings, size * centres), expected)
    torch.testing.assert_close(expected, F.cosine_similarity(embeddings[:, None], centres[None], dim=2))


def test_autocast_changes_nothing():
    embeddings, centres, labels = torch.randn(4, 16), torch.randn(9, 16), torch.randint(9, (4,))
    expected = ArcFace().loss(embeddings, centres, labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(ArcFace().loss(embeddings, centres, labels), expected)
        assert cosines(embeddings, centres).dtype == torch.float32


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"scale": 0.0}, "scale must be positive, got 0.0"),
        ({"scale": math.inf}, "scale must be positive, got inf"),
        ({"margin": -0.1}, "margin must lie between 0 and pi / 2, got -0.1"),
        ({"margin": 1.6}, "margin must lie between 0 and pi / 2, got 1.6"),
    ],
)
def test_values_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ArcFace(**arguments)
