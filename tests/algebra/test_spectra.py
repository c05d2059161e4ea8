from __future__ import annotations

import pytest
import torch
from torch import nn

from pinets import CCP, NCP, expand, orders
from pinets.algebra import NotPolynomialError, TooLargeError, spectra
from pinets.polynomial import Step


class Powers(nn.Module):
    """Sums of powers of linear forms: the output o is sum_k value[o, k] (form_k . z)^degree."""

    def __init__(self, forms, values, degree):
        super().__init__()
        self.forms, self.values = nn.Parameter(forms), nn.Parameter(values)
        self.steps = nn.ModuleList(Step(gate=nn.Identity()) for _ in range(degree - 1))

    def forward(self, z):
        first = z @ self.forms.T
        x = first
        for step in self.steps:
            x = step(first, x)
        return x @ self.values.T


@pytest.mark.parametrize("make", [CCP, NCP])
def test_degree_two_equals_the_eigenvalues_of_the_dense_tensor(make):
    network = make(7, 3, rank=4, order=3).double()
    z = torch.randn(5, 7).double()
    dense = expand(network, z[:1]).coefficients[2]
    found = spectra(network, z[:1])
    values = torch.linalg.eigvalsh(dense)
    expected = values.gather(1, values.abs().argsort(1, descending=True))
    rank = found.values.shape[1]
    torch.testing.assert_close(found.values, expected[:, :rank])
    assert (expected[:, rank:].abs() < 1e-12).all()
    torch.testing.assert_close(found.vectors @ found.vectors.mT, torch.eye(rank).double().expand(3, -1, -1))
    torch.testing.assert_close(found(z), orders(network, z)[2])
    assert found.exact


def test_fewer_components_are_the_best_of_so_few():
    network, z = CCP(7, 2, rank=4, order=2).double(), torch.randn(1, 7).double()
    all_of_them, few = spectra(network, z), spectra(network, z, components=2)
    assert not few.exact
    torch.testing.assert_close(few.values, all_of_them.values[:, :2])
    torch.testing.assert_close(few(z), all_of_them(z, components=2))


@pytest.mark.parametrize("degree", [3, 4])
def test_higher_degrees_find_orthogonal_components_again(degree):
    """For orthogonal forms the decomposition is unique, and greedy search finds it."""
    torch.manual_seed(0)
    forms = torch.linalg.qr(torch.randn(8, 4).double()).Q.T
    values = torch.tensor([[5.0, -3.0, 2.0, 1.0], [1.0, 1.5, -4.0, 2.5]]).double()
    network, z = Powers(forms, values, degree), torch.randn(6, 8).double()
    found = spectra(network, z[:1], degree=degree, components=4)
    torch.testing.assert_close(found(z), orders(network, z)[degree], rtol=1e-6, atol=1e-6)
    expected = values.abs().sort(1, descending=True).values
    torch.testing.assert_close(found.values.abs(), expected, rtol=1e-6, atol=1e-6)
    if degree == 3:
        assert (found.values > 0).all()  # the vectors take the signs


def test_each_component_takes_its_square_off_what_is_left():
    """For a unit vector v and the tensor's value l at it, |T - l v^m|^2 = |T|^2 - l^2."""
    network, z = CCP(6, 2, rank=5, order=3).double().eval(), torch.randn(1, 6).double()
    found = spectra(network, z, degree=3, components=8)
    dense = expand(network, z).coefficients[3]
    part = torch.einsum("ok,oka,okb,okc->oabc", found.values, *[found.vectors] * 3)
    left = (dense - part).square().flatten(1).sum(1)
    expected = dense.square().flatten(1).sum(1) - found.values.square().sum(1)
    torch.testing.assert_close(left, expected)
    assert (left < 0.3 * dense.square().flatten(1).sum(1)).all()


def test_sums_and_differences_of_outputs():
    network, z = CCP(6, 3, rank=4, order=2).double(), torch.randn(5, 6).double()
    difference = torch.tensor([[1.0, -1.0, 0.0]]).double()
    found = spectra(network, z[:1], outputs=difference)
    torch.testing.assert_close(found(z), orders(network, z)[2] @ difference.T)


def test_bad_requests_are_refused_with_the_rule(monkeypatch):
    network, z = CCP(6, 3, rank=4, order=2), torch.randn(1, 6)
    with pytest.raises(ValueError, match="degree must be at least 2, got 1"):
        spectra(network, z, degree=1)
    with pytest.raises(ValueError, match="components must be at least 1, got 0"):
        spectra(network, z, components=0)
    silent = CCP(5, 3, rank=4, order=2)
    nn.init.zeros_(silent.steps[0].gate.weight)  # no products are left
    with pytest.raises(ValueError, match=r"no terms of degree 2, but of 1"):
        spectra(silent, torch.zeros(1, 5))
    with pytest.raises(ValueError, match=r"no terms of degree 5, but of 1, 2"):
        spectra(network, z, degree=5)
    with pytest.raises(NotPolynomialError):
        spectra(nn.Sequential(network, nn.ReLU()), z)
    monkeypatch.setattr("pinets.algebra._spectra._LIMIT", 10)
    with pytest.raises(TooLargeError, match="too many products"):
        spectra(network, z)
