"""The adversarial losses against their formulas, with discriminators whose gradients are known."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pinets.tasks.generation.losses import Hinge, NonSaturating, Wasserstein


def number(value):
    return value.detach().item()


LOSSES = [Hinge(), NonSaturating(), Wasserstein()]


class Linear(nn.Module):
    """Scores <w, x>: the gradient by an image is w."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(12, dtype=torch.float64))
        self.calls = 0

    def forward(self, images):
        self.calls += 1
        return images.flatten(1) @ self.weight


@pytest.fixture
def images():
    return torch.randn(2, 5, 3, 2, 2, dtype=torch.float64)


def test_hinge(images):
    network, (real, fake) = Linear(), images
    a, b = network(real).detach(), network(fake).detach()
    expected = sum(max(0.0, 1 - float(s)) for s in a) / 5 + sum(max(0.0, 1 + float(s)) for s in b) / 5
    assert Hinge().discriminator(network, real, fake).item() == pytest.approx(expected)
    assert Hinge().generator(b).item() == pytest.approx(-number(b.mean()))


def test_non_saturating_with_r1(images):
    network, (real, fake) = Linear(), images
    a, b = network(real), network(fake)
    plain = -torch.sigmoid(a).log().mean() - torch.sigmoid(-b).log().mean()
    norm = network.weight.square().sum()
    assert number(NonSaturating(r1=0.0).discriminator(network, real, fake)) == pytest.approx(number(plain))
    expected = number(plain + 4.0 / 2 * norm)
    assert number(NonSaturating(r1=4.0).discriminator(network, real, fake)) == pytest.approx(expected)
    assert number(NonSaturating().generator(b)) == pytest.approx(number(-torch.sigmoid(b).log().mean()))


def test_wasserstein_with_gradient_penalty(images):
    network, (real, fake) = Linear(), images
    a, b = network(real), network(fake)
    penalty = (network.weight.norm() - 1).square()
    expected = number(b.mean() - a.mean() + 10 * penalty)
    assert number(Wasserstein(penalty=10.0).discriminator(network, real, fake)) == pytest.approx(expected)


def test_the_penalty_is_taken_between_real_and_generated():
    seen = []

    def discriminator(images):
        seen.append(images.detach())
        return images.flatten(1).sum(1)

    real, fake = torch.zeros(64, 1, 2, 2), torch.ones(64, 1, 2, 2)
    Wasserstein().discriminator(discriminator, real, fake)
    between = seen[0][128:].flatten(1)
    assert torch.equal(between, between[:, :1].expand_as(between))  # on the line
    assert between.min() > 0
    assert between.max() < 1
    assert between[:, 0].std() > 0.2


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_one_forward_pass_and_gradients_of_the_penalty(loss, images):
    network, (real, fake) = Linear(), images
    value = loss.discriminator(network, real, fake)
    assert network.calls == 1
    value.backward()
    step = 1e-6
    with torch.no_grad():
        network.weight[0] += step
    # the place between real and generated images is drawn; for a linear network the penalty does not depend on it
    with torch.enable_grad():
        change = number(loss.discriminator(network, real, fake) - value) / step
    assert number(network.weight.grad[0]) == pytest.approx(change, abs=1e-4)


def test_a_discriminator_that_sees_nothing_has_a_finite_penalty():
    network = Linear()
    nn.init.zeros_(network.weight)
    loss = Wasserstein().discriminator(network, *torch.randn(2, 4, 3, 2, 2, dtype=torch.float64))
    loss.backward()
    assert torch.isfinite(network.weight.grad).all()


@pytest.mark.parametrize("make", [lambda: NonSaturating(r1=-1.0), lambda: Wasserstein(penalty=-1.0)])
def test_negative_penalties_are_refused(make):
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        make()
