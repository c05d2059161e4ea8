"""Templates against loops over every probe."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pinets.tasks.faces.data import Subjects
from pinets.tasks.faces.metrics import (
    Pooling,
    identify_combined,
    identify_separate,
    pool_templates,
    template_scores,
    verify_templates,
)
from tests.tasks.faces.metrics.by_hand import by_hand


def pooled_by_hand(rows, templates, media, weights, pooling):
    found = {}
    for template in sorted(set(templates)):
        sums = []
        for medium in sorted({m for t, m in zip(templates, media, strict=True) if t == template}):
            frames = [
                row / (np.linalg.norm(row) if pooling.normalize else 1) * (weight if pooling.detection else 1)
                for row, t, m, weight in zip(rows, templates, media, weights, strict=True)
                if (t, m) == (template, medium)
            ]
            sums.append(np.mean(frames, 0) if pooling.media else np.sum(frames, 0))
        total = np.sum(sums, 0)
        found[template] = total / np.linalg.norm(total)
    return found


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("detection", [True, False])
@pytest.mark.parametrize("media", [True, False])
def test_pooling_equals_its_words(normalize, detection, media, monkeypatch):
    monkeypatch.setattr("pinets.tasks.faces.metrics.templates._BLOCK", 7)
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(60, 5)).astype("f4") * generator.uniform(0.1, 9, (60, 1)).astype("f4")
    templates, medium = generator.integers(3, 12, 60), generator.integers(0, 4, 60)  # media are numbered anew in each
    weights = generator.uniform(0.2, 1, 60).astype("f4")
    pooling = Pooling(normalize=normalize, detection=detection, media=media)
    numbers, found = pool_templates(
        torch.from_numpy(rows),
        torch.from_numpy(templates),
        torch.from_numpy(medium),
        detection=torch.from_numpy(weights),
        pooling=pooling,
    )
    expected = pooled_by_hand(rows, templates.tolist(), medium.tolist(), weights, pooling)
    assert numbers.tolist() == list(expected)
    np.testing.assert_allclose(found.numpy(), list(expected.values()), atol=2e-6)


def test_pooling_says_what_it_lacks():
    zeros = torch.zeros(3, dtype=torch.int64)
    with pytest.raises(ValueError, match="weighs images by detection"):
        pool_templates(torch.eye(3), zeros, zeros)
    broken = torch.eye(3)
    broken[2, 0] = math.nan
    with pytest.raises(ValueError, match="the first is row 2"):
        pool_templates(broken, zeros, zeros, pooling=Pooling(detection=False))
    assert str(Pooling(media=False)).endswith("frames averaged first no")


def test_template_pairs_are_named_by_number():
    numbers, rows = torch.tensor([3, 8, 20]), torch.eye(3)
    first, second = torch.tensor([20, 3]), torch.tensor([20, 8])
    scores = template_scores(numbers, rows, first, second)
    assert scores.tolist() == [1.0, 0.0]
    assert verify_templates(scores, torch.tensor([True, False]), [1e-3])[0].tar == 1.0
    with pytest.raises(ValueError, match="1 templates have no embedding, the first is 9"):
        template_scores(numbers, rows, torch.tensor([9]), torch.tensor([3]))


@pytest.fixture
def ijb_like():
    """40 subjects in two galleries, 160 probes, noise such that some are missed."""
    generator = torch.Generator().manual_seed(3)
    centres = torch.randn(40, 12, generator=generator)
    subjects = torch.cat([torch.arange(40), torch.arange(160) % 40])
    rows = centres[subjects] + 0.6 * torch.randn(200, 12, generator=generator)
    numbers = torch.arange(200) * 3 + 5
    galleries = [Subjects(numbers[:40][part], subjects[:40][part]) for part in (slice(0, 20), slice(20, 40))]
    return numbers, rows, Subjects(numbers[40:], subjects[40:]), galleries


def test_separate_galleries(ijb_like):
    numbers, rows, probes, galleries = ijb_like
    result = identify_separate(numbers, rows, probes, galleries, fpirs=[0.05, 0.2], ranks=[1, 3])
    tpir = {0.05: [], 0.2: []}
    ranks = {1: [], 3: []}
    for part in (slice(0, 20), slice(20, 40)):
        mates, others, rank = by_hand(rows[40:], probes.subjects, rows[:40][part], torch.arange(40)[part])
        mated = np.array(rank) > 0
        alone = np.array([max(scores) for scores in others])[~mated]  # the best of searches that should find nobody
        for rate, values in tpir.items():
            allowed = [t for t in np.r_[alone, -2] if np.mean(alone > t) <= rate]
            values.append(np.mean(mates[mated] > min(allowed)))
        for k, values in ranks.items():
            values.append(np.mean(np.array(rank)[mated] <= k))
    assert result.convention == "separate"
    assert result.tpir == pytest.approx({rate: np.mean(values) for rate, values in tpir.items()})
    assert result.ranks == pytest.approx({k: np.mean(values) for k, values in ranks.items()})
    assert 0.2 < result.tpir[0.05] < result.tpir[0.2] <= 1
    assert result.too_fine == {}


def test_a_rate_finer_than_the_searches_is_told(ijb_like):
    """Of 80 searches without a mate, one in a hundred is none."""
    assert identify_separate(*ijb_like, fpirs=[0.01, 0.1]).too_fine == {0.01: 80}


def test_combined_gallery(ijb_like):
    numbers, rows, probes, galleries = ijb_like
    result = identify_combined(numbers, rows, probes, galleries, fpirs=[0.05, 0.2], ranks=[1, 3])
    mates, others, rank = by_hand(rows[40:], probes.subjects, rows[:40], torch.arange(40))
    pooled = sorted((score for scores in others for score in scores), reverse=True)
    for rate in (0.05, 0.2):
        threshold = pooled[math.ceil(rate * 160) - 1]
        assert result.tpir[rate] == pytest.approx(np.mean(mates > threshold))
    assert result.ranks == pytest.approx({k: np.mean(np.array(rank) <= k) for k in (1, 3)})


def test_a_combined_gallery_needs_a_mate_for_every_probe(ijb_like):
    numbers, rows, probes, galleries = ijb_like
    with pytest.raises(ValueError, match="every probe has a mate, but 80 have none"):
        identify_combined(numbers, rows, probes, galleries[:1])
