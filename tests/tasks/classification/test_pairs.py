"""The strongest products of two inputs are those of the expanded polynomial."""

from __future__ import annotations

import torch
from torch import nn

from pinets import CCP, expand
from pinets.tasks.classification.pairs import pair_figure, strongest_pairs


def test_components_are_the_eigenvectors_of_the_coefficients_of_degree_2():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), CCP(9, 3, rank=4, order=3)).eval()
    forms = torch.zeros(3, 9, 9, dtype=torch.float64)
    for term in expand(network, torch.zeros(1, 1, 3, 3)).top(100_000):
        if len(term.indices) == 2:
            first, second = term.indices
            forms[term.output, first, second] += term.coefficient / 2
            forms[term.output, second, first] += term.coefficient / 2
    assert forms.any()
    values, vectors = torch.linalg.eigh(forms - forms.mean(0))
    found = strongest_pairs(network, (1, 3, 3), 3)
    torch.testing.assert_close(found.values.double(), values[:, [-1, 0]], rtol=1e-3, atol=1e-4)
    alike = (found.vectors.double() * vectors[:, :, [-1, 0]].mT).sum(2).abs()
    torch.testing.assert_close(alike, torch.ones(3, 2, dtype=torch.float64), rtol=1e-3, atol=0)
    figure = pair_figure(found, (1, 3, 3), ("a", "b", "c"))
    assert [axis.get_title() for axis in figure.axes[:3]] == ["a", "b", "c"]
    assert len({image.get_clim() for axis in figure.axes for image in axis.get_images()}) == 1  # one scale for all
