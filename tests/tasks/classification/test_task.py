from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import top_k_accuracy_score

from pinets.tasks.classification.task import Mean, TopKAccuracy, count_top_k


@pytest.mark.parametrize("k", [1, 3, 5])
def test_top_k_equals_scikit_learns(k):
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(200, 7, generator=generator), torch.randint(7, (200,), generator=generator)
    accuracy = TopKAccuracy(k)
    for rows in torch.arange(200).split(33):  # in batches, the last one smaller
        accuracy.update(logits[rows], labels[rows])
    expected = top_k_accuracy_score(labels.numpy(), logits.numpy(), k=k, labels=np.arange(7))
    assert accuracy.compute() == pytest.approx(expected, abs=1e-12)


def test_a_collapsed_network_is_right_by_chance_only():
    labels = torch.arange(10).repeat(5)
    assert count_top_k(torch.zeros(50, 10), labels, k=1) == 5
    assert count_top_k(torch.zeros(50, 10), labels, k=5) == 25


def test_nan_is_never_right():
    assert count_top_k(torch.full((4, 3), float("nan")), torch.zeros(4).long(), k=3) == 0


def test_the_shares_of_two_processes_add_up():
    shares = [TopKAccuracy(1), TopKAccuracy(1)]
    shares[0].update(torch.eye(3), torch.tensor([0, 1, 2]))
    shares[1].update(torch.eye(2), torch.tensor([1, 1]))
    total = shares[0].total + shares[1].total
    assert shares[0].compute(lambda own: total) == pytest.approx(4 / 5)


def test_mean_weighs_by_count():
    mean = Mean()
    mean.update(torch.tensor(1.0), 3)
    mean.update(5.0, 1)
    assert mean.compute() == 2.0


def test_k_must_be_positive():
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        TopKAccuracy(0)
