"""The streamed search against all similarities at once."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.measuring import peak_bytes
from pinets.tasks.faces.metrics import gallery as gallery_search
from pinets.tasks.faces.metrics import search


def one_hot_rows(labels, width):
    """Rows whose similarities are exactly 0 or 1, so that ties are ties whatever the order of sums."""
    return torch.nn.functional.one_hot(torch.as_tensor(labels), width).float()


def all_at_once(probes, gallery):
    rows = [m / np.linalg.norm(m, axis=1, keepdims=True).clip(1e-30) for m in (probes.numpy(), gallery.numpy())]
    return rows[0] @ rows[1].T


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 30), st.integers(1, 400), st.integers(1, 5)),
    k=st.integers(0, 60),
    tail=st.integers(0, 500),
    block=st.integers(1, 200),
    seed=st.integers(0, 10**6),
)
def test_equals_sorting_everything(sizes, k, tail, block, seed):
    probes_count, size, width = sizes
    generator = torch.Generator().manual_seed(seed)
    probes = torch.randint(-2, 3, (probes_count, width), generator=generator).float()  # many equal rows, and zeros
    gallery = torch.randint(-2, 3, (size, width), generator=generator).float()
    found = search(probes, gallery, k=k, tail=tail, block=block)
    scores = all_at_once(probes, gallery)
    falling = -np.sort(-scores, axis=1)[:, :k]
    np.testing.assert_allclose(found.scores.numpy(), falling, atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(scores, found.indices.numpy(), 1), falling, atol=1e-6)
    assert all(len(set(row)) == len(row) for row in found.indices.tolist())
    np.testing.assert_allclose(found.tail.numpy(), -np.sort(-scores.ravel())[:tail], atol=1e-6)
    assert found.count == scores.size


@pytest.mark.parametrize("block", [1, 7, 64, 100, 1000])
@pytest.mark.parametrize("k", [1, 3, 40, 300])
def test_of_equal_scores_the_first_rows_come_first_whatever_the_block(block, k):
    labels = torch.randint(3, (300,), generator=torch.Generator().manual_seed(1))
    found = search(torch.eye(3), one_hot_rows(labels, 3), k=k, block=block)
    for probe in range(3):
        own, others = (labels == probe).nonzero().flatten(), (labels != probe).nonzero().flatten()
        assert found.indices[probe].tolist() == torch.cat([own, others])[:k].tolist()


@pytest.mark.parametrize("order", ["rising", "falling"])
def test_a_gallery_in_order_of_similarity(order):
    """Rising, every row replaces the best so far: nothing may be lost when there is no room left."""
    angles = torch.linspace(3.0, 0.0, 2000)
    gallery = torch.stack([angles.cos(), angles.sin()], dim=1)
    gallery = gallery if order == "rising" else gallery.flip(0)
    found = search(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), gallery, k=5, tail=7, block=128)
    expected = all_at_once(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), gallery)
    np.testing.assert_allclose(found.scores.numpy(), -np.sort(-expected, axis=1)[:, :5], atol=1e-6)
    np.testing.assert_allclose(found.tail.numpy(), -np.sort(-expected.ravel())[:7], atol=1e-6)


def test_scores_of_either_sign_keep_their_bits():
    scores = torch.tensor([-1.0, -1e-38, -0.0, 0.0, 1e-38, 0.5, 1.0])
    keys = gallery_search._pack(scores, torch.arange(7))
    assert gallery_search._unpack_scores(keys).tolist() == [*scores[:2].tolist(), 0.0, 0.0, *scores[4:].tolist()]
    assert keys.argsort().tolist() == [0, 1, 3, 2, 4, 5, 6]  # zeros are equal: the lower index is the larger key


def test_a_mapped_file_of_halves_is_read_in_blocks(tmp_path):
    gallery = np.random.default_rng(0).normal(size=(500, 8)).astype(np.float16)
    np.save(tmp_path / "gallery.npy", gallery)
    mapped = np.lib.format.open_memmap(tmp_path / "gallery.npy", mode="r")
    probes = torch.randn(5, 8)
    found = search(probes, mapped, k=3, block=64)
    expected = all_at_once(probes, torch.from_numpy(gallery.astype(np.float32)))
    np.testing.assert_array_equal(found.indices.numpy(), np.argsort(-expected, axis=1)[:, :3])


def test_memory_does_not_grow_with_the_gallery():
    probes, few = torch.randn(50, 16), torch.randn(2_000, 16)
    many = few.repeat(10, 1)
    find = partial(search, probes, k=5, tail=50, block=1000)
    beyond = [
        peak_bytes(lambda gallery=gallery: find(gallery), alive=[gallery]) - gallery.nbytes for gallery in (few, many)
    ]
    assert beyond[1] <= 1.1 * beyond[0]


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_threads_find_what_one_finds(three_threads):
    generator = torch.Generator().manual_seed(0)
    probes, gallery = torch.randn(800, 5, generator=generator), torch.randn(700, 5, generator=generator)
    together = search(probes, gallery, k=9, tail=400, block=100)
    one_by_one = [search(few, gallery, k=9, tail=400, block=100) for few in probes.split(100)]
    assert torch.equal(together.indices, torch.cat([found.indices for found in one_by_one]))
    torch.testing.assert_close(together.scores, torch.cat([found.scores for found in one_by_one]))
    torch.testing.assert_close(
        together.tail, torch.cat([found.tail for found in one_by_one]).sort().values.flip(0)[:400]
    )
    assert together.count == 800 * 700
    assert torch.get_num_threads() == 3


def test_an_error_in_a_thread_is_told(three_threads):
    gallery = torch.ones(300, 4)
    gallery[217, 2] = torch.nan
    with pytest.raises(ValueError, match="the first is row 217"):
        search(torch.ones(800, 4), gallery, k=1, block=100)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_refused_by_its_row(value):
    gallery = torch.ones(300, 4)
    gallery[217, 2] = value
    with pytest.raises(ValueError, match="1 of 100 rows are not, the first is row 217"):
        search(torch.ones(2, 4), gallery, k=1, block=100)
    with pytest.raises(ValueError, match="the first is row 217"):
        search(gallery, torch.ones(2, 4), k=1)


def test_huge_and_tiny_rows_are_directions_too():
    gallery = torch.tensor([[1e30, 0.0], [0.0, 1e-30], [1.0, 1.0]])
    found = search(torch.eye(2), gallery, k=1)
    assert found.indices.flatten().tolist() == [0, 1]
    assert found.scores.flatten().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"k": -1}, "must not be negative"),
        ({"tail": -1}, "must not be negative"),
        ({"k": 1, "block": 0}, "block positive"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        search(torch.eye(2), torch.eye(2), **arguments)


def test_embeddings_of_another_width_are_refused():
    with pytest.raises(ValueError, match="probes have 2 values and the gallery 3"):
        search(torch.eye(2), torch.eye(3), k=1)
