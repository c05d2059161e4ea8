from __future__ import annotations

import json

import pytest
import torch

from pinets.algebra import trace
from pinets.models import create_model
from pinets.report.figures import drawing_png
from pinets.tasks.classification.explain import adversarial_patterns, class_figure, explain, write_explanation


@pytest.fixture(scope="module")
def explained():
    torch.manual_seed(0)
    network = create_model("ccp4_mnist", image=(1, 4, 4), rank=3, order=3, num_classes=3).eval()
    images = torch.randn(40, 1, 4, 4)
    with torch.no_grad():
        labels = network(images).argmax(1)
    return network, explain(network, images, labels, classes=("a", "b", "c"), components=3)


def test_all_components_of_degree_two_give_the_whole_network(explained):
    _, found = explained
    assert found.accuracy == 1.0
    assert max(found.truncated[2]) == found.spectra[2].values.shape[1]
    assert found.truncated[2][max(found.truncated[2])] == 1.0
    assert set(found.spectra) == {2, 3}


def test_the_pattern_is_where_the_quadratic_form_is_largest(explained):
    network, _ = explained
    traced = trace(network, torch.zeros(1, 1, 4, 4))
    patterns = adversarial_patterns(network, traced, 3)
    torch.testing.assert_close(patterns.norm(dim=1), torch.ones(3))
    contrast = torch.tensor([1, -0.5, -0.5])

    def second_order(v):
        shape = torch.zeros(1, 1, 4, 4)
        return contrast @ (network(shape + v) + network(shape - v) - 2 * network(shape))[0]

    others = torch.nn.functional.normalize(torch.randn(200, 16), dim=1)
    with torch.no_grad():
        best = second_order(1e-1 * patterns[0].reshape(1, 4, 4))
        assert all(second_order(1e-1 * v.reshape(1, 4, 4)) <= best + 1e-6 for v in others)


def test_pictures_and_numbers_are_written(explained, tmp_path):
    _, found = explained
    files = write_explanation(found, tmp_path)
    assert {file.name for file in files} == {"explain.json", "components.png", *(f"class-{n}.png" for n in range(3))}
    numbers = json.loads((tmp_path / "explain.json").read_text())
    assert numbers["mean_effective_rank"]["2"] == pytest.approx(float(found.spectra[2].effective_rank.mean()))
    assert drawing_png(class_figure(found, 0))[:4] == b"\x89PNG"


class Squares(torch.nn.Module):
    """Two sums of squares: polynomials without linear terms."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([[4.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 5.0]]))

    def forward(self, x):
        z = x.flatten(1)
        return (z * z) @ self.weight.T


def test_patterns_without_linear_terms_have_unit_length_and_one_class_of_images_is_enough():
    images = torch.randn(5, 1, 2, 2)
    found = explain(Squares(), images, torch.zeros(5, dtype=torch.int64), classes=("a", "b"), components=2)
    torch.testing.assert_close(found.patterns.abs(), torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 1.0]]))
    assert all(0 <= share <= 1 for pair in found.pulled.values() for share in pair)
