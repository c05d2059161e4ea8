"""Pairs against LFW's protocol written out, and on lists that are degenerate."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pinets.tasks.faces.metrics import (
    GRID,
    cross_validated_accuracy,
    fold_numbers,
    hardest_pairs,
    pair_scores,
    verify_pairs,
)


def written_out(embeddings, same, thresholds):
    """Squared distances of normalised embeddings, KFold without shuffling, first best threshold, all in loops."""
    rows = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    distance = np.square(rows[0::2] - rows[1::2]).sum(1)
    folds = np.array_split(np.arange(len(same)), 10)
    accuracies = []
    for held in folds:
        train = np.setdiff1d(np.arange(len(same)), held)
        right = [np.mean((distance[train] < threshold) == same[train]) for threshold in thresholds]
        accuracies.append(np.mean((distance[held] < thresholds[int(np.argmax(right))]) == same[held]))
    return accuracies


def people_pairs(pairs, noise, seed=0, folds=10):
    """Embeddings of pairs as in a pack: in each fold first those of one person, then those of two."""
    generator = np.random.default_rng(seed)
    same = np.tile(np.r_[np.ones(pairs // folds // 2, bool), np.zeros(pairs // folds // 2, bool)], folds)
    first = generator.normal(size=(pairs, 32))
    second = np.where(same[:, None], first, generator.normal(size=(pairs, 32))) + noise * generator.normal(
        size=(pairs, 32)
    )
    return np.stack([first, second], 1).reshape(2 * pairs, 32), same


@pytest.mark.parametrize("noise", [0.5, 1.5, 3.0])
def test_equals_the_published_protocol(noise):
    embeddings, same = people_pairs(600, noise)
    result = verify_pairs(torch.from_numpy(embeddings), torch.arange(1200).view(-1, 2), torch.from_numpy(same))
    expected = written_out(embeddings, same, np.arange(0, 4, 0.01))
    assert result.accuracy.folds == pytest.approx(expected, abs=1e-12)
    assert result.accuracy.mean == pytest.approx(np.mean(expected))
    assert result.accuracy.deviation == pytest.approx(np.std(expected))
    assert 0.55 < result.accuracy.mean <= 1.0


def test_exact_thresholds_are_as_good_as_any_on_the_other_folds():
    embeddings, same = people_pairs(400, 2.0)
    scores, labels = pair_scores(torch.from_numpy(embeddings), torch.arange(800).view(-1, 2)), torch.from_numpy(same)
    fold = fold_numbers(labels)
    result = cross_validated_accuracy(scores, labels, fold, thresholds=None)
    for number, threshold in enumerate(result.thresholds):
        some, answers = scores[fold != number].double(), labels[fold != number]
        right = ((some > threshold) == answers).sum()
        every = [((some > value) == answers).sum() for value in [*some.tolist(), -2.0]]
        assert right == max(every)


def test_folds_are_those_of_lfw():
    same = torch.tensor(([True] * 300 + [False] * 300) * 10)
    assert fold_numbers(same).tolist() == [number for number in range(10) for _ in range(600)]


def test_folds_of_a_list_with_one_kind_first_have_both_kinds():
    same = torch.tensor([True] * 500 + [False] * 500)
    fold = fold_numbers(same)
    for number in range(10):
        assert (same[fold == number].sum(), (~same[fold == number]).sum()) == (50, 50)


def test_one_kind_only_has_an_accuracy_but_no_rate():
    result = verify_pairs(
        torch.randn(20, 8).repeat_interleave(2, 0), torch.arange(40).view(-1, 2), torch.ones(20, dtype=torch.bool)
    )
    assert result.points == ()
    assert result.accuracy.mean == 1.0  # the threshold accepts all


def test_a_network_that_gives_one_value_is_right_by_chance():
    same = torch.tensor(([True] * 5 + [False] * 5) * 10)
    result = verify_pairs(torch.ones(200, 8), torch.arange(200).view(-1, 2), same)
    assert result.accuracy.mean == 0.5
    assert [point.tar for point in result.points] == [0.0, 0.0, 0.0]


def test_duplicates_and_zeros():
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert pair_scores(rows, torch.tensor([[0, 1], [0, 2], [2, 2]])).tolist() == [1.0, 0.0, 0.0]


def test_embeddings_that_are_not_finite_are_refused():
    rows = torch.ones(40, 4)
    rows[13, 0] = float("nan")
    with pytest.raises(ValueError, match="the first is row 13"):
        verify_pairs(rows, torch.arange(40).view(-1, 2), torch.ones(20, dtype=torch.bool))


def test_hardest_pairs_are_the_worst_of_either_kind():
    scores = torch.tensor([0.9, 0.2, 0.5, 0.8, 0.1, 0.7])
    same = torch.tensor([True, True, True, False, False, False])
    genuine, impostor = hardest_pairs(scores, same, 2)
    assert genuine.tolist() == [1, 2]
    assert impostor.tolist() == [3, 5]


def test_the_grid_is_in_squared_distances():
    assert len(GRID) == 400
    np.testing.assert_allclose(2 - 2 * GRID.numpy(), np.arange(0, 4, 0.01), atol=1e-12)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: pair_scores(torch.ones(3, 2), torch.tensor([[0, 3]])), "rows 0 to 3, but there are 3"),
        (lambda: pair_scores(torch.ones(3, 2), torch.tensor([0, 1])), r"shape \(P, 2\)"),
        (lambda: fold_numbers(torch.ones(5, dtype=torch.bool)), "5 pairs cannot be divided into 10 folds"),
        (
            lambda: cross_validated_accuracy(torch.ones(4), torch.ones(4, dtype=torch.bool), torch.zeros(4)),
            "two folds or more",
        ),
        (
            lambda: cross_validated_accuracy(torch.ones(4), torch.ones(3, dtype=torch.bool), torch.zeros(4)),
            "equally long",
        ),
    ],
)
def test_wrong_lists_are_told(call, message):
    with pytest.raises(ValueError, match=message):
        call()
