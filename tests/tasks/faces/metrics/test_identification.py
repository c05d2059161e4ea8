"""Identification against loops over every probe."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pinets.tasks.faces.metrics import (
    identification,
    identify,
    rank_rates,
)
from tests.tasks.faces.metrics.by_hand import by_hand


def whole_numbers(count, width, seed):
    """Embeddings of few different directions with exact similarities along axes: ties and duplicates."""
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.one_hot(torch.randint(width, (count,), generator=generator), width).float()


@pytest.mark.parametrize("budget", [1, 64, 1 << 24])
@pytest.mark.parametrize("make", ["random", "ties"])
def test_equals_a_loop(make, budget, monkeypatch):
    monkeypatch.setattr(identification, "_SCORES", budget)
    generator = torch.Generator().manual_seed(0)
    if make == "random":
        probes, gallery = (torch.randn(count, 6, generator=generator) for count in (40, 30))
    else:
        probes, gallery = whole_numbers(40, 6, 1), whole_numbers(30, 6, 2)
    # more than one row for a subject, and probes of subjects that are not there
    probe_subjects = torch.randint(0, 14, (40,), generator=generator)
    gallery_subjects = torch.randint(2, 12, (30,), generator=generator)
    found = identify(probes, probe_subjects, gallery, gallery_subjects, tail=50)
    mates, others, ranks = by_hand(probes, probe_subjects, gallery, gallery_subjects)
    np.testing.assert_allclose(found.mate.numpy(), mates, atol=1e-6)
    np.testing.assert_allclose(found.other.numpy(), [max(scores) for scores in others], atol=1e-6)
    assert found.rank.tolist() == ranks
    pooled = sorted((score for scores in others for score in scores), reverse=True)[:50]
    np.testing.assert_allclose(found.tail.numpy(), pooled, atol=1e-6)


def test_embeddings_that_tell_nothing_apart_find_nobody():
    people = torch.arange(5)
    found = identify(torch.ones(5, 8), people, torch.ones(5, 8), people)
    assert found.rank.tolist() == [5] * 5
    assert rank_rates(found.rank, [1, 5]) == {1: 0.0, 5: 1.0}


def test_nobody_to_find_is_an_error():
    found = identify(torch.eye(2), torch.tensor([1, 2]), torch.eye(2), torch.tensor([3, 4]))
    assert not found.mated.any()
    with pytest.raises(ValueError, match="no probe's subject is in the gallery"):
        rank_rates(found.rank, [1])


def test_embeddings_must_be_finite_and_have_subjects():
    broken = torch.eye(3)
    broken[1, 1] = math.inf
    with pytest.raises(ValueError, match="the first is row 1"):
        identify(torch.eye(3), torch.arange(3), broken, torch.arange(3))
    with pytest.raises(ValueError, match="gallery: one subject for each row"):
        identify(torch.eye(3), torch.arange(3), torch.eye(3), torch.arange(2))
