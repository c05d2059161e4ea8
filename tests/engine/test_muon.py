"""Muon against the singular value decomposition, torch's SGD, and a network whose gradients are uneven."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from pinets.engine.muon import orthogonalize
from pinets.engine.optimization import SGD, Muon

OTHERS = SGD(lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True)


def polar(matrix):
    """U V^T, from the singular value decomposition."""
    u, _, vt = torch.linalg.svd(matrix, full_matrices=False)
    return u @ vt


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 9, 3))


def train(model, optimizer, steps, start=0):
    for step in range(start, start + steps):
        torch.manual_seed(100 + step)
        optimizer.zero_grad()
        model(torch.randn(8, 2, 5, 5)).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize("shape", [(8, 40), (40, 8), (16, 16), (6, 3, 3, 3)])
def test_orthogonalize_is_near_the_polar_factor(shape):
    torch.manual_seed(1)
    matrix = torch.randn(shape)
    found, expected = orthogonalize(matrix).reshape(shape[0], -1), polar(matrix.reshape(shape[0], -1))
    values = torch.linalg.svdvals(found)
    assert 0.4 < values.max() < 1.3
    assert torch.cosine_similarity(found.flatten(), expected.flatten(), dim=0) > 0.9


def test_orthogonalize_does_not_depend_on_the_size():
    torch.manual_seed(2)
    matrix = torch.randn(8, 20)
    assert torch.allclose(orthogonalize(matrix), orthogonalize(1024 * matrix), atol=1e-2)
    assert torch.equal(orthogonalize(torch.zeros(4, 6)), torch.zeros(4, 6))


def test_a_step_of_a_convolution_follows_the_formula():
    model, momentum, lr = network(), 0.6, 0.1
    optimizer = Muon(lr, momentum, OTHERS).build(model.parameters())
    expected, buffer = model[0].weight.detach().clone(), torch.zeros_like(model[0].weight)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 2, 5, 5)).square().mean().backward()
        gradient = model[0].weight.grad.clone()
        buffer = momentum * buffer + gradient
        direction = orthogonalize(gradient + momentum * buffer)
        expected = 4**0.5 * expected / expected.norm() - lr * direction
        optimizer.step()
        assert torch.allclose(model[0].weight, expected, atol=1e-5), step


def test_all_other_parameters_follow_torchs_sgd():
    ours, theirs = network(), network()
    train(ours, Muon(0.1, others=OTHERS).build(ours.parameters()), 1)
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True)
    train(theirs, sgd, 1)
    for name, value in theirs.named_parameters():
        assert torch.equal(ours.get_parameter(name), value) == (name != "0.weight"), name


def test_saved_and_loaded_it_goes_on_bit_for_bit():
    model = network()
    optimizer = Muon(0.1).build(model.parameters())
    train(model, optimizer, 2)
    other = copy.deepcopy(model)
    again = Muon(0.1).build(other.parameters())
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(model, optimizer, 2, start=2)
    train(other, again, 2, start=2)
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


def test_it_learns_all_directions_of_an_uneven_problem():
    """A layer whose inputs differ a hundredfold in size: descent along the gradient learns the largest alone."""
    scales = torch.logspace(0, -2, 8)
    torch.manual_seed(3)
    x, target = torch.randn(64, 8, 1, 1) * scales.view(1, -1, 1, 1), torch.randn(8, 8)

    def error(make):
        torch.manual_seed(4)
        layer = nn.Conv2d(8, 8, 1, bias=False)
        optimizer = make(layer.parameters())
        for step in range(200):
            optimizer.param_groups[0]["lr"] = 0.3 * (1 - step / 200)
            optimizer.zero_grad()
            weight = layer.weight.flatten(1) / layer.weight.norm()
            wanted = target / target.norm()
            ((x.flatten(1) @ (weight - wanted).T).square().sum() / 64).backward()
            optimizer.step()
        return (layer.weight.flatten(1) / layer.weight.norm() - wanted).norm().item()

    assert error(Muon(0.3, 0.6).build) < 0.7 * error(lambda parameters: SGD(lr=0.3, momentum=0.9).build(parameters))


def test_bad_values_are_refused():
    with pytest.raises(ValueError, match="networks with convolutions"):
        Muon(0.1).build(nn.Linear(2, 2).parameters())
    with pytest.raises(ValueError, match="lr must be above 0"):
        Muon(0.0)
    with pytest.raises(ValueError, match="momentum must be at least 0 and below 1"):
        Muon(0.1, momentum=1.0)


def test_a_weight_of_zeros_begins_to_learn():
    model = network()
    nn.init.zeros_(model[0].weight)
    optimizer = Muon(lr=0.1, others=OTHERS).build(model.parameters())
    optimizer.zero_grad()
    gradient = torch.randn_like(model[0].weight)
    model[0].weight.grad = gradient.clone()
    optimizer.step()
    expected = -0.1 * orthogonalize(1.8 * gradient)  # G + 0.8 B, and B = G in the first step
    torch.testing.assert_close(model[0].weight.detach(), expected, rtol=0.02, atol=1e-3)
