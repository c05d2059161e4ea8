"""Shapley values, interaction indices and integrated gradients against brute force over all subsets."""

import itertools
import math

import pytest
import torch

from pinets import CCP, NCP
from pinets.algebra import integrated_gradients, interactions, shapley, trace
from pinets.polynomial import Polynomial


def coalition_values(model, x, background, groups):
    """The worth of every coalition, by evaluating the network."""
    players = max(groups) + 1
    member = torch.tensor(groups)
    worth = {}
    for size in range(players + 1):
        for coalition in itertools.combinations(range(players), size):
            inside = torch.isin(member, torch.tensor(coalition, dtype=torch.long))
            worth[coalition] = model(torch.where(inside, x, background)).mean(0)
    return worth, players


def brute_force(worth, players, group):
    """The Shapley interaction index by its definition."""
    rest = [player for player in range(players) if player not in group]
    total = 0
    for size in range(len(rest) + 1):
        weight = math.factorial(size) * math.factorial(len(rest) - size) / math.factorial(len(rest) + 1)
        for others in itertools.combinations(rest, size):
            for inner in range(len(group) + 1):
                for part in itertools.combinations(group, inner):
                    sign = (-1) ** (len(group) - inner)
                    total = total + weight * sign * worth[tuple(sorted((*others, *part)))]
    return total


@pytest.fixture(autouse=True)
def seed():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("groups", [[0, 1, 2, 3, 4, 5], [0, 0, 1, 2, 1, 3]])
@pytest.mark.parametrize("model", [CCP, NCP])
@torch.no_grad()
def test_they_agree_with_brute_force(model, groups):
    network = model(6, 2, rank=4, order=3, dtype=torch.float64).eval()
    x, background = torch.randn(2, 6, dtype=torch.float64), torch.randn(5, 6, dtype=torch.float64)
    found = shapley(network, x, background, groups=groups)
    torch.testing.assert_close(found.base, network(background).mean(0))
    torch.testing.assert_close(found.values.sum(2) + found.base, network(x))
    for row in range(2):
        worth, players = coalition_values(network, x[row], background, groups)
        for size in (1, 2, 3):
            indices = found.interactions(size)[row]
            for position, group in enumerate(found.supports(size).tolist()):
                expected = brute_force(worth, players, tuple(group))
                torch.testing.assert_close(indices[:, position], expected, rtol=0, atol=1e-8)


@torch.no_grad()
def test_twelve_columns():
    network = CCP(12, 1, rank=5, order=2, dtype=torch.float64).eval()
    x, background = torch.randn(1, 12, dtype=torch.float64), torch.randn(3, 12, dtype=torch.float64)
    worth, players = coalition_values(network, x[0], background, list(range(12)))
    expected = torch.cat([brute_force(worth, players, (player,)) for player in range(12)])
    torch.testing.assert_close(shapley(network, x, background).values[0, 0], expected, rtol=0, atol=1e-8)


def test_integrated_gradients_are_exact():
    network = NCP(5, 2, rank=4, order=4, dtype=torch.float64).eval()
    x, start = torch.randn(3, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    found = integrated_gradients(network, x, start)
    steps = torch.linspace(0, 1, 4001, dtype=torch.float64)[:-1] + 1 / 8000
    points = (start + steps[:, None, None] * (x - start)).reshape(-1, 5).requires_grad_()
    (gradient,) = torch.autograd.grad(network(points)[:, 1].sum(), points)
    expected = gradient.reshape(-1, 3, 5).mean(0) * (x - start)
    torch.testing.assert_close(found[:, 1], expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.sum(2), (network(x) - network(start[None])).detach())


class Frozen(torch.nn.Module):
    """z1 z2 and z1^2, with a factor that torch takes no derivative of."""

    def forward(self, z):
        with torch.no_grad():
            factor = z.flip(1)
        return torch.stack([z[:, 0] * factor[:, 0], z[:, 0] * z[:, 0].detach()], 1)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_integrated_gradients_where_torch_takes_no_derivative(mode):
    with mode():
        z, start = torch.tensor([[2.0, 3.0]]).double(), torch.zeros(2).double()
        expected = torch.tensor([[[3.0, 3.0], [4.0, 0.0]]]).double()
        torch.testing.assert_close(integrated_gradients(Frozen(), z, start), expected)


def test_integrated_gradients_are_of_evaluation_mode():
    network = torch.nn.Sequential(torch.nn.BatchNorm1d(3), CCP(3, 2, rank=4, order=2), torch.nn.Dropout(0.5)).double()
    network[0].running_var.uniform_(0.5, 3)
    x, start = torch.randn(5, 3).double(), torch.zeros(3).double()
    difference = (network.eval()(x) - network(start[None])).detach()
    for model in (network.train(), trace(network, x[:1])):
        torch.testing.assert_close(integrated_gradients(model, x, start).sum(2), difference)
    assert network.training


def test_bad_input():
    network = CCP(3, 1, rank=2, order=2)
    with pytest.raises(ValueError, match="must be finite, got 3 of 3"):
        integrated_gradients(network, torch.zeros(1, 3), torch.full((3,), torch.nan))
    with pytest.raises(ValueError, match=r"baseline must be inputs of shape \(3,\), got shape \(5,\)"):
        integrated_gradients(network, torch.zeros(1, 3), torch.zeros(5))
    with pytest.raises(ValueError, match="background must have 3 numbers a row, got 2"):
        shapley(network, torch.zeros(1, 3), torch.zeros(1, 2))
    with pytest.raises(ValueError, match=r"without gaps; got \[0, 2, 2\]"):
        shapley(network, torch.zeros(1, 3), torch.zeros(1, 3), groups=[0, 2, 2])


class Cubic(torch.nn.Module):
    def forward(self, z):
        return z[:, :1] ** 3 + z[:, :1] * z[:, 1:] ** 2 + z[:, 1:]


def test_marginals_from_data_give_the_variances_of_all_combinations_of_the_columns():
    """Independent columns with the data's own marginals: every value of one with every value of the other."""
    data = torch.tensor([[0.0, 1.0], [2.0, -1.0], [5.0, 1.0], [6.0, 3.0]], dtype=torch.float64)
    found = interactions(Cubic(), data[:1], marginals=data)
    first, second = torch.meshgrid(data[:, 0], data[:, 1], indexing="ij")
    values = Cubic()(torch.stack([first.flatten(), second.flatten()], 1)).reshape(4, 4)
    mean, variance = values.mean(), values.var(correction=0)
    rows, columns = values.mean(1) - mean, values.mean(0) - mean
    rest = values - mean - rows[:, None] - columns
    expected = torch.stack([rows.square().mean(), columns.square().mean(), rest.square().mean()]) / variance
    torch.testing.assert_close(found.mean[0], mean)
    torch.testing.assert_close(found.variance[0], variance)
    torch.testing.assert_close(torch.stack([found.index(0)[0], found.index(1)[0], found.index(0, 1)[0]]), expected)
    with pytest.raises(ValueError, match="data as marginals must have 2 numbers a row"):
        interactions(Cubic(), data[:1], marginals=data[:, :1])


def test_a_box_that_ignores_the_data_is_told():
    with pytest.warns(UserWarning, match="uniform between -1 and 1, and the example lies outside"):
        interactions(Cubic(), torch.tensor([[5.0, 0.0]]))


def test_a_linear_polynomial():
    linear = Polynomial(torch.nn.Linear(2, 1), [])
    with torch.no_grad():
        linear.start.weight.copy_(torch.tensor([[2.0, -1.0]]))
    found = shapley(linear, torch.tensor([[1.0, 1.0]]), torch.zeros(1, 2))
    assert found.values[0, 0].tolist() == [2.0, -1.0]
    assert found.interactions(2).tolist() == [[[0.0]]]
