"""Rates against scikit-learn's ROC curve and against counting."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_curve

from pinets.tasks.faces.metrics import log_rates, operating_points, operating_points_from_tail
from pinets.tasks.faces.metrics.rates import allowed_false


def best_of_scikit_learn(genuine, impostor, far):
    """The highest true positive rate at which the false positive rate is not exceeded."""
    labels = np.r_[np.ones(len(genuine)), np.zeros(len(impostor))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fpr, tpr, _ = roc_curve(labels, np.r_[genuine, impostor], drop_intermediate=False)
    return tpr[fpr * len(impostor) <= far * len(impostor) + 1e-9].max()


@settings(max_examples=100, deadline=None)
@given(
    genuine=st.lists(st.integers(-5, 5), min_size=1, max_size=30),
    impostor=st.lists(st.integers(-5, 5), min_size=1, max_size=30),
    far=st.sampled_from([0.0, 0.001, 0.03, 0.1, 0.29, 0.5, 1.0]),
)
def test_equals_scikit_learn_with_ties(genuine, impostor, far):
    (point,) = operating_points(torch.tensor(genuine).float(), torch.tensor(impostor).float(), [far])
    assert point.tar == pytest.approx(best_of_scikit_learn(genuine, impostor, far), abs=1e-12)
    assert point.false_accepts <= far * len(impostor) + 1e-9
    # what the threshold says, counted
    assert point.tar == np.mean(np.array(genuine) > point.threshold)
    assert point.false_accepts == np.sum(np.array(impostor) > point.threshold)


def test_equals_scikit_learn_at_random():
    generator = np.random.default_rng(0)
    genuine, impostor = generator.normal(1, 1, 2000).astype("f4"), generator.normal(0, 1, 50_000).astype("f4")
    fars = [2e-5, 1e-4, 1e-3, 1e-2, 0.1]
    points = operating_points(torch.from_numpy(genuine), torch.from_numpy(impostor), fars)
    for point, far in zip(points, fars, strict=True):
        assert point.tar == pytest.approx(best_of_scikit_learn(genuine, impostor, far), abs=1e-12)
        assert point.false_accepts == point.allowed == round(far * 50_000)


def test_the_largest_scores_are_enough():
    genuine, impostor = torch.randn(100) + 1, torch.randn(10_000)
    whole = operating_points(genuine, impostor, [1e-3, 1e-2])
    tail = impostor.topk(101).values
    assert operating_points_from_tail(genuine, tail, 10_000, [1e-3, 1e-2]) == whole
    with pytest.raises(ValueError, match="allows 101 of 10000 impostors, but only the 101 largest"):
        operating_points_from_tail(genuine, tail, 10_000, [0.0101])


def test_scores_that_tell_nothing_accept_nothing():
    (point,) = operating_points(torch.ones(10), torch.ones(1000), [0.01])
    assert (point.tar, point.false_accepts) == (0.0, 0)


def test_a_rate_finer_than_the_list_allows_no_false_accept():
    (point,) = operating_points(torch.tensor([3.0, 1.0]), torch.tensor([2.0, 0.0]), [1e-6])
    assert (point.tar, point.allowed, point.false_accepts) == (0.5, 0, 0)


@pytest.mark.parametrize("rate, count, expected", [(1e-6, 10**6, 1), (1e-6, 3_530_000_000, 3530), (0.29, 100, 29)])
def test_rates_are_counted_exactly(rate, count, expected):
    assert allowed_false(rate, count) == expected
    assert allowed_false(rate, count - 1) == expected - 1


@pytest.mark.parametrize("genuine, impostor", [([], [1.0]), ([1.0], []), ([], [])])
def test_one_kind_only_has_no_rate(genuine, impostor):
    with pytest.raises(ValueError, match="rates need pairs of one person and pairs of two"):
        operating_points(torch.tensor(genuine), torch.tensor(impostor), [0.1])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_must_be_finite(value):
    with pytest.raises(ValueError, match="impostor scores must be finite: 1 of 2"):
        operating_points(torch.ones(2), torch.tensor([0.0, value]), [0.1])
    with pytest.raises(ValueError, match="genuine scores must be finite"):
        operating_points(torch.tensor([value]), torch.ones(2), [0.1])


def test_rates_lie_between_0_and_1():
    with pytest.raises(ValueError, match=r"a rate lies between 0 and 1, got 1\.5"):
        operating_points(torch.ones(2), torch.ones(2), [1.5])


def test_the_rates_of_a_curve_begin_at_one_false_accept():
    for impostors in (3, 17, 8_000_123):
        rates = log_rates(impostors, points=50)
        assert rates == sorted(rates)
        assert (rates[-1], len(rates)) == (1.0, 50)
        assert [allowed_false(rate, impostors) for rate in (rates[0], rates[-1])] == [1, impostors]
