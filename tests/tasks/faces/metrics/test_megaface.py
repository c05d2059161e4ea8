"""MegaFace's protocol against all pairs at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_curve

from pinets.tasks.faces.metrics import mate_pairs, measure_megaface


def written_out(probes, people, distractors, ranks):
    rows = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (probes, distractors)]
    own, others = rows[0] @ rows[0].T, rows[0] @ rows[1].T
    genuine, found = [], []
    for first in range(len(people)):
        for second in range(len(people)):
            if first != second and people[first] == people[second]:
                genuine.append(own[first, second])
                found.append(1 + np.sum(others[first] >= own[first, second]))
    return np.array(genuine), others.ravel(), [np.mean(np.array(found) <= k) for k in range(1, ranks + 1)]


def faces(noise, seed=0):
    generator = np.random.default_rng(seed)
    people = np.repeat(np.arange(12), generator.integers(1, 7, 12))  # some have a single image: no pair
    generator.shuffle(people)
    probes = generator.normal(size=(12, 16))[people] + noise * generator.normal(size=(len(people), 16))
    return probes.astype("f4"), people, generator.normal(size=(700, 16)).astype("f4")


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("block", [50, 1024])
def test_equals_all_pairs_at_once(noise, block):
    probes, people, distractors = faces(noise)
    fars = [1e-4, 1e-3, 1e-2]
    result = measure_megaface(
        torch.from_numpy(probes), torch.from_numpy(people), distractors, ranks=20, fars=fars, block=block
    )
    genuine, impostor, cmc = written_out(probes, people, distractors, 20)
    assert result.cmc == pytest.approx(cmc, abs=1e-12)
    labels = np.r_[np.ones(len(genuine)), np.zeros(len(impostor))]
    fpr, tpr, _ = roc_curve(labels, np.r_[genuine, impostor], drop_intermediate=False)
    for point in (*result.points, *result.curve):
        assert point.tar == pytest.approx(tpr[fpr <= point.far + 1e-12].max(), abs=1e-12)
        assert point.false_accepts <= point.allowed
    assert (result.genuine, result.distractors) == (len(genuine), 700)


def test_a_collapsed_network_finds_nobody():
    """All scores are equal, up to rounding: being found by rounding would look like a perfect network."""
    same = torch.randn(1, 512)
    result = measure_megaface(
        same.repeat(61, 1), torch.arange(61) // 4, same.repeat(3001, 1), ranks=10, fars=[1e-4, 1e-3]
    )
    assert result.cmc == (0.0,) * 10
    assert [point.tar for point in result.points] == [0.0, 0.0]


def test_distractors_that_are_copies_of_a_mate_come_before_it():
    probes = torch.eye(4)[[0, 0, 1, 1]]
    distractors = torch.eye(4)[[0, 2, 3]]
    result = measure_megaface(probes, torch.tensor([0, 0, 1, 1]), distractors, ranks=2, fars=[0.5])
    assert result.cmc == (0.5, 1.0)


def test_mate_pairs_are_ordered_and_complete():
    people = torch.tensor([3, 1, 3, 2, 3, 1])
    expected = {(a, b) for a in range(6) for b in range(6) if a != b and people[a] == people[b]}
    assert sorted(map(tuple, mate_pairs(people).tolist())) == sorted(expected)


@pytest.mark.parametrize(
    "people, distractors, message",
    [
        ([0, 1, 2], torch.eye(3), "nobody has two images"),
        ([0, 0], torch.eye(3), "one person for each probe"),
        ([0, 0, 0], torch.full((2, 3), float("nan")), "the first is row 0"),
    ],
)
def test_what_cannot_be_scored_is_told(people, distractors, message):
    with pytest.raises(ValueError, match=message):
        measure_megaface(torch.eye(3), torch.tensor(people), distractors)


def test_without_probes_there_is_nothing_to_find():
    nobody = torch.empty(0, dtype=torch.int64)
    assert mate_pairs(nobody).shape == (0, 2)
    with pytest.raises(ValueError, match="nobody has two images"):
        measure_megaface(torch.empty(0, 3), nobody, torch.eye(3))
