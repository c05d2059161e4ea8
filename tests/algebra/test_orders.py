import pytest
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, orders
from tests.algebra.networks import CONV


def by_interpolation(model: nn.Module, z: torch.Tensor, degree: int) -> torch.Tensor:
    """The same from outside: evaluate at t z for some t, and solve for the coefficients of t."""
    t = torch.cos(torch.pi * (torch.arange(degree + 1, dtype=torch.float64) + 0.5) / (degree + 1))
    with torch.no_grad():
        values = torch.stack([model(s * z) for s in t])
    powers = torch.linalg.vander(t)
    return torch.linalg.solve(powers, values.flatten(1)).reshape(values.shape)


def warmed_up(network: nn.Sequential) -> nn.Sequential:
    """With running statistics that are not those of a fresh batch norm."""
    with torch.no_grad():
        for _ in range(3):
            network(3 + 2 * torch.randn(8, 2, 6, 6, dtype=torch.float64))
    return network.eval()


NETWORKS = {
    "ccp": (lambda: CCP(5, 3, rank=4, order=4), (3, 5), 4),
    "ncp": (lambda: NCP(5, 3, rank=4, order=5), (3, 5), 5),
    "ncp_skip": (lambda: NCPSkip(5, 3, rank=4, order=3), (3, 5), 3),
    "product": (lambda: nn.Sequential(CCP(5, 4, rank=4, order=3), NCP(4, 2, rank=3, order=2)), (3, 5), 6),
    "convolutional": (
        lambda: nn.Sequential(
            NCP(2, 4, rank=4, order=2, op=CONV),
            nn.BatchNorm2d(4),
            nn.AvgPool2d(2),
            CCP(4, 4, rank=3, order=2, op=CONV),
            nn.Flatten(),
            nn.Linear(36, 3),
        ),
        (2, 2, 6, 6),
        4,
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_orders_are_the_coefficients_along_the_ray(name):
    make, shape, degree = NETWORKS[name]
    torch.manual_seed(0)
    network = make().double()
    if name == "convolutional":
        network = warmed_up(network)
    z = torch.randn(shape, dtype=torch.float64)
    found = orders(network, z)
    assert found.shape[0] == degree + 1
    torch.testing.assert_close(found, by_interpolation(network, z, degree), rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(found.sum(0), network(z).detach(), rtol=1e-10, atol=1e-10)


def test_each_order_is_homogeneous():
    layer = NCPSkip(5, 3, rank=4, order=4, dtype=torch.float64)
    z = torch.randn(2, 5, dtype=torch.float64)
    scale = 1.7 ** torch.arange(5, dtype=torch.float64)[:, None, None]
    torch.testing.assert_close(orders(layer, 1.7 * z), scale * orders(layer, z))


def test_non_finite_input_is_refused():
    with pytest.raises(ValueError, match="finite"):
        orders(CCP(2, 1, rank=1, order=2), torch.tensor([[1.0, torch.inf]]))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return x + self.alpha * (x * x)


def test_a_product_that_is_still_scaled_by_zero():
    z = torch.randn(3, 4)
    torch.testing.assert_close(orders(Scaled(), z), torch.stack([torch.zeros_like(z), z]))


@pytest.mark.parametrize("how", ["masked_fill", "double"])
def test_constants_and_casts_inside_a_network(how):
    linear = nn.Linear(4, 2).double() if how == "double" else nn.Linear(4, 2)

    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = linear
            self.register_buffer("mask", torch.tensor([True, False, False, False]))

        def forward(self, x):
            return self.linear(x.double() if how == "double" else x.masked_fill(self.mask, 0.5))

    z = torch.randn(3, 4)
    torch.testing.assert_close(orders(Inside(), z).sum(0), Inside()(z).detach())


def test_a_constant_network_is_refused_as_such():
    with pytest.raises(ValueError, match="this one is constant"):
        orders(Constant(), torch.randn(2, 3))


class Constant(nn.Module):
    def forward(self, z):
        return torch.ones(2)
