"""Searching a gallery of any size: matrix products in blocks, the best of every probe, the largest scores of all.

The products cannot be avoided; all else is kept off the single score. The scores of a block are looked at once, as the
maxima of tiles; only tiles that hold something above the lowest score still wanted are looked at again. Every thread
takes some of the probes through the whole gallery, so that none waits for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event

import numpy as np
import torch
from torch import Tensor

from pinets.metrics.faces.embeddings import Matrix, read_blocks, read_rows

__all__ = ["Found", "search"]

BLOCK = 4096  # gallery rows in a product; fewer were slower, and the scores of some thousand probes take 60 MB
_SHARE = 256  # probes that are worth a thread, which reads the gallery by itself
TILE = 64  # scores of a probe that share one maximum
_PENDING = 1 << 14  # scores of the tail that may wait before it is decided which of them stay
_NOTHING = torch.iinfo(torch.int64).min  # the key of no gallery row at all

_Parts = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Found:
    """What a search finds.

    Attributes:
        scores: The largest similarities of every probe, falling, shape (probes, k).
        indices: The gallery rows they belong to; of equal scores, the lower row comes first.
        tail: The largest similarities of all probes, falling.
        count: How many similarities there are in all.
    """

    scores: Tensor
    indices: Tensor
    tail: Tensor
    count: int


@torch.inference_mode()
def search(probes: Matrix, gallery: Matrix, *, k: int = 0, tail: int = 0, block: int = BLOCK) -> Found:
    """Compare every probe with every row of a gallery by cosine similarity.

    The memory needed grows with the probes, ``k`` and ``tail``, not with the gallery, which may be a mapped file. The
    result is exact: that of computing all similarities in float32 and sorting them.

    Args:
        probes: Embeddings, one per row.
        gallery: Embeddings to search, one per row.
        k: How many of the most similar rows to return for every probe.
        tail: How many of the largest similarities of all to return.
        block: Gallery rows to compare at a time.

    Example:
        >>> found = search(torch.eye(2), torch.tensor([[1.0, 1.0], [0.0, 2.0], [-1.0, 0.0]]), k=2, tail=3)
        >>> found.indices
        tensor([[0, 1], [1, 0]])
        >>> found.tail
        tensor([1.0000, 0.7071, 0.7071])
    """
    if k < 0 or tail < 0 or block < 1:
        raise ValueError(f"k and tail must not be negative and block positive, got {k}, {tail} and {block}")
    rows = read_rows(probes)
    if gallery.shape[1] != rows.shape[1]:
        raise ValueError(f"probes have {rows.shape[1]} values and the gallery {gallery.shape[1]}: another embedding")
    size, count = gallery.shape[0], gallery.shape[0] * len(rows)
    work = partial(_search, gallery=gallery, k=min(k, size), tail=tail, block=min(block, max(size, 1)))
    found = _share_out(work, rows, workers=min(torch.get_num_threads(), len(rows) // _SHARE))
    scores, indices, tails = (torch.cat(values) for values in zip(*found, strict=True))
    return Found(scores, indices, tails.topk(min(tail, count)).values, count)


def _share_out(work: Callable[..., _Parts], rows: Tensor, workers: int) -> list[_Parts]:
    """Do the work for all probes, some of them in each thread."""
    stop = Event()
    if workers < 2:
        return [work(rows, product=torch.mm, stop=stop)]
    with (
        _one_thread_a_product() as product,
        ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):
        try:
            return list(pool.map(partial(work, product=product, stop=stop), rows.chunk(workers)))
        finally:
            stop.set()  # after an error or Ctrl-C nobody goes on


@torch.inference_mode()  # here once more: the mode is of a thread
def _search(
    rows: Tensor, *, gallery: Matrix, k: int, tail: int, block: int, product: Callable[..., object], stop: Event
) -> _Parts:
    """Scores, indices and tail of some probes."""
    best = _Best(len(rows), k)
    largest = _Largest(min(tail, gallery.shape[0] * len(rows)))
    scores = torch.empty(len(rows), block)
    for start, part in read_blocks(gallery, block):
        if stop.is_set():
            break
        # the last block is smaller: a view of the same memory, contiguous like the others
        some = scores.view(-1)[: len(rows) * len(part)].view(len(rows), len(part))
        product(rows, part.t(), out=some)
        _offer(some, start, best, largest)
    return *best.result(), largest.result()


@contextmanager
def _one_thread_a_product() -> Iterator[Callable[..., object]]:
    """The fastest matrix product for several threads that make one each.

    That is numpy's: its OpenBLAS is ahead of the MKL in torch on AMD processors. How many threads it takes by itself
    can only be told by threadpoolctl, which scikit-learn brings; torch's follows torch.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield torch.mm
        return
    with threadpool_limits(1, user_api="blas"):
        yield _numpy_product


def _numpy_product(left: Tensor, right: Tensor, *, out: Tensor) -> None:
    np.matmul(left.numpy(), right.numpy(), out=out.numpy())


def _offer(scores: Tensor, start: int, best: _Best, largest: _Largest) -> None:
    """Hand on the scores of a block that are among those wanted so far."""
    wanted = torch.clamp(best.lowest, max=largest.lowest)  # per probe: what is not above it changes nothing
    columns = scores.shape[1]
    whole = columns - columns % TILE
    if whole:
        tiles = scores[:, :whole].unflatten(1, (whole // TILE, TILE))
        maxima = tiles.amax(dim=2)
        if start == 0:
            # the k-th largest of some scores is at most the k-th largest of all: nothing below it is among the best
            best.expect(maxima if best.k <= maxima.shape[1] else scores)
            largest.expect(maxima if largest.limit <= maxima.numel() else scores)
            wanted = torch.clamp(best.lowest, max=largest.lowest)
        probe, tile = (maxima > wanted[:, None]).nonzero(as_tuple=True)
        found = tiles[probe, tile]
        hit, place = (found > wanted[probe, None]).nonzero(as_tuple=True)
        _hand_on(probe[hit], start + tile[hit] * TILE + place, found[hit, place], best, largest)
    if whole < columns:
        rest = scores[:, whole:]
        probe, place = (rest > wanted[:, None]).nonzero(as_tuple=True)
        _hand_on(probe, start + whole + place, rest[probe, place], best, largest)


def _hand_on(probe: Tensor, index: Tensor, score: Tensor, best: _Best, largest: _Largest) -> None:
    if len(score):
        best.add(probe, index, score)
        largest.add(score)


class _Best:
    """The k best of every probe, each packed into one whole number: score above, row below.

    The numbers are all different, so that which of them are largest depends neither on the algorithm nor on the blocks.
    New ones wait beside the k best until a probe has no room for more.
    """

    def __init__(self, probes: int, k: int) -> None:
        self.k, self.room = k, max(k, 16)
        self.keys = torch.full((probes, self.k + self.room), _NOTHING)
        self.waiting = torch.zeros(probes, dtype=torch.int64)
        # per probe, the score above which one matters; with k = 0 none does
        self.lowest = torch.full((probes,), torch.inf if k == 0 else -torch.inf)

    def expect(self, scores: Tensor) -> None:
        """Learn from some of the first scores how large one must be, before any is added."""
        if 0 < self.k <= scores.shape[1]:
            self.lowest = _just_below(scores.topk(self.k, dim=1).values[:, -1])

    def add(self, probe: Tensor, index: Tensor, score: Tensor) -> None:
        """Take in scores of gallery rows, with their probes in rising order."""
        above = score > self.lowest[probe]
        probe, keys = probe[above], _pack(score[above], index[above])
        while len(probe):
            who, counts = probe.unique_consecutive(return_counts=True)
            first = (counts.cumsum(0) - counts).repeat_interleave(counts)
            place = self.waiting[probe] + torch.arange(len(probe)) - first
            fits = place < self.room
            self.keys[probe[fits], self.k + place[fits]] = keys[fits]
            self.waiting[who] = (self.waiting[who] + counts).clamp(max=self.room)
            probe, keys = probe[~fits], keys[~fits]
            if len(probe):
                self.cut((self.waiting > self.room // 2).nonzero().squeeze(1))

    def cut(self, who: Tensor) -> None:
        """Keep the k best of some probes."""
        kept = self.keys[who].topk(self.k, dim=1, sorted=False).values
        self.keys[who] = torch.nn.functional.pad(kept, (0, self.room), value=_NOTHING)
        self.waiting[who] = 0
        self.lowest[who] = _unpack_scores(kept.amin(dim=1))

    def result(self) -> tuple[Tensor, Tensor]:
        keys = self.keys.topk(self.k, dim=1).values
        return _unpack_scores(keys), 0xFFFFFFFF - (keys & 0xFFFFFFFF)


class _Largest:
    """The largest scores of all, no more than a given number of them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.lowest = torch.inf if limit == 0 else -torch.inf
        self.kept = [torch.empty(0)]
        self.pending = 0

    def expect(self, scores: Tensor) -> None:
        """Learn from some of the first scores how large one must be, before any is added."""
        if 0 < self.limit <= scores.numel():
            self.lowest = float(_just_below(scores.flatten().topk(self.limit).values[-1]))

    def add(self, score: Tensor) -> None:
        score = score[score > self.lowest]
        self.kept.append(score)
        self.pending += len(score)
        if self.pending > max(_PENDING, self.limit // 2):  # cutting costs as much as all that is kept
            self.cut()

    def cut(self) -> None:
        scores = torch.cat(self.kept)
        if len(scores) >= self.limit > 0:
            scores = scores.topk(self.limit).values
            self.lowest = float(scores[-1])
        self.kept, self.pending = [scores], 0

    def result(self) -> Tensor:
        self.cut()
        return self.kept[0].sort(descending=True).values


def _just_below(score: Tensor) -> Tensor:
    return score.nextafter(torch.tensor(-torch.inf))


def _pack(score: Tensor, index: Tensor) -> Tensor:
    """One whole number that rises with the score, and among equal scores falls with the index."""
    bits = (score + 0.0).view(torch.int32).long()  # adding zero makes -0.0 and 0.0 the same bits
    ordered = torch.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))
    return ordered * (1 << 32) + (0xFFFFFFFF - index)


def _unpack_scores(keys: Tensor) -> Tensor:
    ordered = keys >> 32
    bits = torch.where(ordered >= 0, ordered, (-ordered) - (1 << 31))  # the sign bit is the lowest int32
    scores = bits.int().view(torch.float32)
    return torch.where(keys == _NOTHING, -torch.inf, scores)
