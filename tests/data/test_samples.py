import numpy as np
import pytest
import torch

from pinets.data import ArraySet, ClipSet, DataError, ImageSet, hold_out, stratified_indices, stratified_sample


def test_label_out_of_range_is_named_with_its_record():
    with pytest.raises(DataError, match=r"record 2 has label 5, but labels go from 0 to 1"):
        ArraySet(torch.zeros(3, 1), torch.tensor([0, 1, 5]), ("a", "b"))
    with pytest.raises(DataError, match=r"record 0 has label -1"):
        ArraySet(torch.zeros(1, 1), torch.tensor([-1]), ("a", "b"))


def test_inputs_and_labels_must_match():
    with pytest.raises(DataError, match="3 inputs and 2 labels"):
        ArraySet(torch.zeros(3, 1), torch.tensor([0, 1]), ("a", "b"))
    with pytest.raises(DataError, match="int64"):
        ArraySet(torch.zeros(2, 1), torch.tensor([0.0, 1.0]), ("a", "b"))


@pytest.mark.parametrize(
    "kind, inputs, rule",
    [
        (ImageSet, torch.zeros(1, 3, 4, 4), r"images must be uint8 \(N, C, H, W\)"),
        (ImageSet, torch.zeros(1, 4, 4, dtype=torch.uint8), r"images must be uint8 \(N, C, H, W\)"),
        (ClipSet, torch.zeros(1, 16000), r"clips must be int16 \(N, T\)"),
    ],
)
def test_sets_hold_what_they_say(kind, inputs, rule):
    with pytest.raises(DataError, match=rule):
        kind(inputs, torch.tensor([0]), ("a",))


@pytest.mark.parametrize("kind", [ArraySet, ImageSet, ClipSet])
def test_arrays_that_are_no_tensors_are_told(kind):
    with pytest.raises(DataError, match=r"inputs must be a torch\.Tensor, got ndarray"):
        kind(np.zeros((4, 1)), torch.zeros(4, dtype=torch.int64), ("a",))
    with pytest.raises(DataError, match=r"labels must be a torch\.Tensor, got ndarray"):
        kind(torch.zeros(4, 1), np.zeros(4, dtype=np.int64), ("a",))


def test_subset_keeps_its_kind_and_noise():
    noise = (torch.zeros(5, dtype=torch.int16),)
    clips = ClipSet(torch.arange(6, dtype=torch.int16).view(3, 2), torch.tensor([0, 1, 0]), ("a", "b"), noise=noise)
    part = clips.subset(torch.tensor([2, 1]))
    assert isinstance(part, ClipSet)
    assert part.noise is noise
    assert part.clips.tolist() == [[4, 5], [2, 3]]
    assert part.labels.tolist() == [0, 1]


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5, 0.99])
def test_hold_out_divides_every_class_alike(fraction):
    generator = torch.Generator().manual_seed(1)
    labels = torch.cat([torch.full((count,), label) for label, count in enumerate([2, 30, 100, 1000])])
    labels = labels[torch.randperm(len(labels), generator=generator)]
    whole = ArraySet(torch.arange(len(labels)), labels, tuple("abcd"))
    rest, held = hold_out(whole, fraction, seed=3)
    assert sorted(rest.inputs.tolist() + held.inputs.tolist()) == list(range(len(labels)))
    for label, count in enumerate([2, 30, 100, 1000]):
        number = int((held.labels == label).sum())
        assert 1 <= number <= count - 1
        assert abs(number - fraction * count) <= 1
    for part in (rest, held):  # every sample kept its own label
        assert torch.equal(part.labels, labels[part.inputs])


def test_hold_out_depends_on_the_seed_alone():
    labels = torch.arange(200) % 4
    torch.manual_seed(0)
    first = stratified_indices(labels, 0.2, seed=5)
    torch.manual_seed(1)
    assert torch.equal(first, stratified_indices(labels, 0.2, seed=5))
    assert not torch.equal(first, stratified_indices(labels, 0.2, seed=6))


@pytest.mark.parametrize("count", [3, 4, 17, 100, 110, 111])
def test_a_sample_has_exactly_as_many_as_asked_for_and_some_of_every_class(count):
    labels = torch.tensor([0] * 10 + [2] * 100 + [5])
    chosen = stratified_sample(labels, count)
    assert len(chosen.unique()) == count
    assert set(labels[chosen].tolist()) == {0, 2, 5}
    assert abs(int((labels[chosen] == 2).sum()) - count * 100 / 111) < 3


@pytest.mark.parametrize("count", [2, 112])
def test_a_sample_of_fewer_than_the_classes_or_more_than_all_is_refused(count):
    with pytest.raises(ValueError, match=rf"each of the 3 classes and at most all 111 samples, got {count}"):
        stratified_sample(torch.tensor([0] * 10 + [2] * 100 + [5]), count)


def test_hold_out_refuses_what_cannot_be_divided():
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        stratified_indices(torch.tensor([0, 0]), 1.5)
    with pytest.raises(DataError, match="held out of 2, for which a class must have at least 2; the largest has 1"):
        hold_out(ArraySet(torch.zeros(2), torch.tensor([0, 1]), ("a", "b")))
