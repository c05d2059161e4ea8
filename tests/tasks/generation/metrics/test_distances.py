"""Every metric against its formula written out another way, on small random features."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.linalg
import torch

from pinets.tasks.generation.metrics import InceptionScore, Moments, frechet_distance, kernel_distance, precision_recall
from pinets.tasks.generation.metrics.distances import polynomial_discrepancy


def features(count, width=6, shift=0.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(width, width, generator=generator, dtype=torch.float64)
    return torch.randn(count, width, generator=generator, dtype=torch.float64) @ mix + shift


def moments_of(x):
    return torch.from_numpy(np.mean(x.numpy(), axis=0)), torch.from_numpy(np.cov(x.numpy(), rowvar=False))


def test_moments_from_sums_are_numpys():
    x = features(101) + 7
    moments = Moments(6)
    for part in x.split(13):
        moments.update(part)
    mean, covariance = moments_of(x)
    assert moments.count == 101
    torch.testing.assert_close(moments.mean, mean, rtol=1e-12, atol=0)
    torch.testing.assert_close(moments.covariance, covariance, rtol=1e-10, atol=1e-10)


def test_a_covariance_needs_two_samples():
    moments = Moments(2)
    moments.update(torch.zeros(1, 2))
    with pytest.raises(ValueError, match="at least 2 samples, got 1"):
        _ = moments.covariance


@pytest.mark.parametrize("seed", range(5))
def test_frechet_distance_is_scipys(seed):
    (m1, c1), (m2, c2) = moments_of(features(50, seed=seed)), moments_of(features(60, shift=0.5, seed=seed + 100))
    root = scipy.linalg.sqrtm(c1.numpy() @ c2.numpy()).real
    expected = float(((m1 - m2) ** 2).sum()) + np.trace(c1.numpy() + c2.numpy() - 2 * root)
    assert frechet_distance(m1, c1, m2, c2) == pytest.approx(expected, rel=1e-9)
    assert frechet_distance(m2, c2, m1, c1) == pytest.approx(expected, rel=1e-9)


def test_frechet_distance_without_full_rank():
    """Four samples of six features: the square root of the product is that of its non-zero eigenvalues."""
    (m1, c1), (m2, c2) = moments_of(features(4)), moments_of(features(4, seed=1))
    values = np.linalg.eigvals(c1.numpy() @ c2.numpy())
    overlap = np.sqrt(np.clip(values.real, 0, None)).sum()
    expected = float(((m1 - m2) ** 2).sum() + c1.trace() + c2.trace()) - 2 * overlap
    assert frechet_distance(m1, c1, m2, c2) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("count", [500, 9])  # with full rank, and far from it
def test_frechet_distance_to_itself_is_zero(count):
    mean, covariance = moments_of(features(count, width=40))
    assert abs(frechet_distance(mean, covariance, mean, covariance)) < 1e-9 * float(covariance.trace())


def brute_discrepancy(x, y):
    def kernel(a, b):
        return (float(a @ b) / len(a) + 1) ** 3

    xx = sum(kernel(a, b) for a, b in itertools.permutations(x, 2)) / (len(x) * (len(x) - 1))
    yy = sum(kernel(a, b) for a, b in itertools.permutations(y, 2)) / (len(y) * (len(y) - 1))
    xy = sum(kernel(a, b) for a in x for b in y) / (len(x) * len(y))
    return xx + yy - 2 * xy


def test_kernel_discrepancy_is_the_sum_over_pairs():
    x, y = features(12), features(9, shift=0.3, seed=1)
    assert float(polynomial_discrepancy(x, y)) == pytest.approx(brute_discrepancy(x, y), rel=1e-10)


def test_kernel_distance_over_whole_sets_has_one_value():
    x, y = features(12), features(12, shift=0.3, seed=1)
    mean, std = kernel_distance(x, y, subsets=5)  # fewer than a subset takes: all of them, each time
    assert mean == pytest.approx(brute_discrepancy(x, y), rel=1e-10)
    assert std == pytest.approx(0, abs=1e-9)


def test_kernel_distance_of_subsets_scatters_around_that_of_all():
    x, y = features(200), features(200, shift=0.3, seed=1)
    mean, std = kernel_distance(x, y, subsets=200, size=50)
    assert std > 0
    assert abs(mean - float(polynomial_discrepancy(x, y))) < 5 * std / math.sqrt(200)
    assert kernel_distance(x, y, subsets=3, size=50) == kernel_distance(x, y, subsets=3, size=50)


def brute_share(samples, others, k):
    def distance(a, b):
        return math.dist(a.tolist(), b.tolist())

    inside = 0
    radii = [sorted(distance(a, b) for j, b in enumerate(others) if j != i)[k - 1] for i, a in enumerate(others)]
    for sample in samples:
        inside += any(distance(sample, other) <= radius for other, radius in zip(others, radii, strict=True))
    return inside / len(samples)


@pytest.mark.parametrize("k", [1, 3])
def test_precision_and_recall_are_those_of_all_pairs(k, monkeypatch):
    monkeypatch.setattr("pinets.tasks.generation.metrics.distances._ROWS", 7)  # several blocks of the matrix
    both = features(110, width=2)
    real, fake = both[:60], both[60:] + 0.5
    precision, recall = precision_recall(real, fake, k=k)
    assert precision == pytest.approx(brute_share(fake, real, k))
    assert recall == pytest.approx(brute_share(real, fake, k))
    assert 0 < precision < 1
    assert 0 < recall < 1


def test_few_modes_have_high_precision_and_low_recall():
    real, fake = features(300), features(300) * 0.01
    precision, recall = precision_recall(real, fake)
    assert precision > 0.95
    assert recall < 0.2


def test_neighbours_need_samples():
    with pytest.raises(ValueError, match="neighbour 3 needs more than 3 samples of either kind, got 9 and 3"):
        precision_recall(features(9), features(3))


def brute_score(probabilities, splits):
    scores = []
    for part in np.split(probabilities, splits):
        mean = part.mean(axis=0)
        scores.append(math.exp(np.mean([(p * np.log(p / mean)).sum() for p in part])))
    return float(np.mean(scores)), float(np.std(scores))


def test_inception_score_is_that_of_the_formula():
    logits = 3 * torch.randn(60, 11, dtype=torch.float64)
    score = InceptionScore(samples=60, splits=4)
    for part in logits.log_softmax(dim=1).split(7):  # parts that cross the borders of splits
        score.update(part)
    assert score.compute() == pytest.approx(brute_score(logits.softmax(dim=1).numpy(), 4), rel=1e-10)


def test_inception_score_refuses_other_numbers():
    with pytest.raises(ValueError, match="7 samples cannot be divided into 2 parts"):
        InceptionScore(samples=7, splits=2)
    score = InceptionScore(samples=4, splits=2)
    score.update(torch.zeros(3, 5))
    with pytest.raises(ValueError, match="4 samples were announced, but there are 3"):
        score.compute()
    with pytest.raises(ValueError, match="got 5 samples, but 4 were announced"):
        score.update(torch.zeros(2, 5))
