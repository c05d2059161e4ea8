import json

import pytest
import torch

from pinets.data import ArraySet, Batches, Compose, ImageSet, Normalize, RandomCrop, RandomFlip

AUGMENT = Compose(RandomCrop(2), RandomFlip(), Normalize((0.5,), (0.25,)))


def images(count=50):
    pixels = torch.randint(0, 256, (count, 1, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(9))
    return ImageSet(pixels, torch.arange(count) % 5, tuple("abcde"))


def numbers(count):
    return ArraySet(torch.arange(count), torch.zeros(count).long(), ("number",))


def epochs(batches, count):
    return [batch for _ in range(count) for batch in batches]


def assert_same(left, right):
    assert len(left) == len(right)
    for (inputs, labels), (others, answers) in zip(left, right, strict=True):
        assert torch.equal(inputs, others)
        assert torch.equal(labels, answers)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count, size", [(50, 8), (48, 8), (7, 8 - 1), (5, 1)])
def test_an_epoch_has_every_sample_once(count, size, shuffle, drop_last):
    batches = Batches(numbers(count), size, shuffle=shuffle, drop_last=drop_last)
    seen = [inputs.tolist() for inputs, _ in batches]
    assert len(seen) == len(batches)
    flat = [number for batch in seen for number in batch]
    assert len(flat) == (count // size * size if drop_last else count)
    assert len(set(flat)) == len(flat)
    if not shuffle:
        assert flat == sorted(flat)


def test_every_epoch_has_its_own_order_and_its_own_augmentation():
    orders = [torch.cat([inputs for inputs, _ in batches]) for batches in 2 * [Batches(numbers(50), 8, shuffle=True)]]
    assert not torch.equal(*orders)
    plain = Batches(images(), 50, transform=AUGMENT)
    (first, _), (second, _) = epochs(plain, 2)
    assert not torch.equal(first, second)


def test_labels_follow_their_images():
    samples = images()
    by_pixels = {
        bytes(image.flatten().tolist()): int(label) for image, label in zip(samples.images, samples.labels, strict=True)
    }
    for inputs, labels in Batches(samples, 8, shuffle=True):
        assert [by_pixels[bytes(image.flatten().tolist())] for image in inputs] == labels.tolist()


def test_seeds_differ_and_the_global_generator_is_not_touched():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = epochs(Batches(images(), 8, shuffle=True, transform=AUGMENT, seed=1), 2)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(123)
    assert_same(first, epochs(Batches(images(), 8, shuffle=True, transform=AUGMENT, seed=1), 2))
    other = epochs(Batches(images(), 8, shuffle=True, transform=AUGMENT, seed=2), 2)
    assert not any(torch.equal(a, b) for (a, _), (b, _) in zip(first, other, strict=True))


@pytest.mark.parametrize("prefetch", [0, 3])
@pytest.mark.parametrize("stop", range(15))
def test_restored_position_continues_bit_for_bit(stop, prefetch):
    def make():
        return Batches(images(), 8, shuffle=True, transform=AUGMENT, prefetch=prefetch)

    whole = epochs(make(), 3)
    batches, taken, state = make(), 0, make().state_dict()
    while taken < stop:
        for _ in batches:
            taken += 1
            state = json.loads(json.dumps(batches.state_dict()))
            if taken == stop:
                break
    resumed = make()
    resumed.load_state_dict(state)
    left = [batch for _ in range(3 - resumed.epoch) for batch in resumed]
    assert_same(whole[stop:], left)
    assert (resumed.epoch, resumed.step) == (3, 0)


def test_a_loop_left_early_is_continued_by_the_next():
    batches, whole = Batches(numbers(50), 8, shuffle=True), epochs(Batches(numbers(50), 8, shuffle=True), 1)
    first = [next(iter(batches))]
    assert (batches.epoch, batches.step) == (0, 1)
    assert_same(whole, first + list(batches))


def test_position_while_the_last_batch_is_worked_on_still_is_in_its_epoch():
    batches = Batches(numbers(16), 8)
    positions = [(batches.epoch, batches.step) for _ in batches]
    assert positions == [(0, 1), (0, 2)]
    batches.load_state_dict({**batches.state_dict(), "epoch": 0, "step": 2})
    assert list(batches) == []
    assert batches.epoch == 1


@pytest.mark.parametrize("count", [48, 50, 49])
@pytest.mark.parametrize("world_size", [2, 4])
def test_processes_see_together_what_one_process_sees(world_size, count):
    def make(rank=0, world_size=1):
        return Batches(
            images(count), 8, shuffle=True, transform=AUGMENT, rank=rank, world_size=world_size, prefetch=rank
        )

    shares = [epochs(make(rank, world_size), 2) for rank in range(world_size)]
    together = [
        (torch.cat([inputs for inputs, _ in parts]), torch.cat([labels for _, labels in parts]))
        for parts in zip(*shares, strict=True)
    ]
    assert_same(epochs(make(), 2), together)
    full = [len(labels) for share in shares for _, labels in share[: count // 8]]
    assert set(full) == {8 // world_size}


def test_a_run_may_be_resumed_with_another_number_of_processes():
    state = {**Batches(images(), 8, shuffle=True).state_dict(), "step": 3}
    pair = [Batches(images(), 8, shuffle=True, rank=rank, world_size=2) for rank in range(2)]
    for batches in pair:
        batches.load_state_dict(state)
    (left, _), (right, _) = (next(iter(batches)) for batches in pair)
    wanted, _ = list(Batches(images(), 8, shuffle=True))[3]
    assert torch.equal(torch.cat([left, right]), wanted)


@pytest.mark.parametrize(
    "change, rule",
    [
        ({"seed": 7}, "seed was 7, and is 0 now"),
        ({"batch_size": 4}, "batch_size was 4, and is 8 now"),
        ({"samples": 51}, "samples was 51, and is 50 now"),
        ({"shuffle": True}, "shuffle was True, and is False now"),
        ({"step": 8}, "no step 8 in epoch 0: an epoch has 7 batches"),
        ({"epoch": -1}, "no step 0 in epoch -1"),
    ],
)
def test_position_of_other_batches_is_refused(change, rule):
    batches = Batches(images(), 8)
    with pytest.raises(ValueError, match=rule):
        batches.load_state_dict({**batches.state_dict(), **change})
    assert (batches.epoch, batches.step) == (0, 0)


def test_incomplete_position_is_refused():
    with pytest.raises(ValueError, match="lacks batch_size, drop_last, samples, seed, shuffle, step"):
        Batches(images(), 8).load_state_dict({"epoch": 1})


@pytest.mark.parametrize(
    "arguments, rule",
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"batch_size": 9, "world_size": 2}, "batch_size 9 cannot be shared equally by 2 processes"),
        ({"batch_size": 8, "world_size": 2, "rank": 2}, "got rank 2 of 2"),
        ({"batch_size": 8, "prefetch": -1}, "prefetch must be at least 0, got -1"),
        ({"batch_size": 51, "drop_last": True}, r"50 samples make no batch of 51: .*\(in a recipe batch .*at most 50"),
    ],
)
def test_what_cannot_work_is_refused(arguments, rule):
    with pytest.raises(ValueError, match=rule):
        Batches(images(), **arguments)


class Failing(ArraySet):
    def read(self, indices, uniforms):
        if 20 in indices:
            raise OSError("sample 20 cannot be read")
        return super().read(indices, uniforms)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_comes_up_where_its_batch_would(prefetch):
    samples = Failing(torch.arange(50), torch.zeros(50).long(), ("number",))
    batches = Batches(samples, 8, prefetch=prefetch)
    with pytest.raises(OSError, match="sample 20"):
        for _ in batches:
            pass
    assert (batches.epoch, batches.step) == (0, 2)
