"""Searching a gallery of any size: the best rows for every probe, and the largest similarities of all.

The similarities of a block of gallery rows are one matrix product. A blocked ``topk`` would sort every block, could
not say which of equal scores comes first, and does not know the largest of all probes together. Instead, one comparison
drops the scores that are not above the lowest still wanted; few are left after the first block.

Each thread takes some of the probes through the whole gallery, and no thread waits for another within a block.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event

import numpy as np
import torch
from torch import Tensor

from pinets.tasks.faces.embeddings import Matrix, read_blocks, read_rows

__all__ = ["BLOCK", "Found", "search"]

BLOCK = 4096  # gallery rows in a product; fewer were slower, and the scores of some thousand probes take 60 MB
_PROBES_PER_THREAD = 256  # fewer are not worth a thread
_TILE = 64  # scores in a tile, of which a first bound uses the largest
_WAITING = 1 << 14  # surplus scores of the tail that are kept before the smallest are dropped
_NOTHING = torch.iinfo(torch.int64).min  # the key of no gallery row


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
        scores: The largest similarities of every probe, falling, shape (probes, k).
        indices: The gallery rows they belong to; of equal scores, the lower row comes first.
        tail: The largest similarities of all probes together, falling.
        count: How many similarities there are in all.
    """

    scores: Tensor
    indices: Tensor
    tail: Tensor
    count: int


@torch.inference_mode()
def search(probes: Matrix, gallery: Matrix, *, k: int = 0, tail: int = 0, block: int = BLOCK) -> Found:
    """Compare every probe with every row of a gallery by cosine similarity.

    Memory grows with the probes, ``k`` and ``tail``, not with the gallery, which may be a mapped file. The result is
    exact: the same as computing all similarities in float32 and sorting them.

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
    stop = Event()
    work = partial(_search, gallery=gallery, k=min(k, size), tail=tail, block=min(block, max(size, 1)), stop=stop)
    workers = min(torch.get_num_threads(), len(rows) // _PROBES_PER_THREAD)
    if workers < 2:
        parts = [work(rows)]
    else:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            try:
                parts = list(pool.map(work, rows.chunk(workers)))
            finally:
                stop.set()  # after an error or Ctrl-C, the other threads stop too
    scores, indices, tails = (torch.cat(values) for values in zip(*parts, strict=True))
    return Found(scores, indices, tails.topk(min(tail, count)).values, count)


@torch.inference_mode()  # again: the mode belongs to a thread
def _search(
    rows: Tensor, *, gallery: Matrix, k: int, tail: int, block: int, stop: Event
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores and indices of some probes, and candidates for the tail."""
    best = torch.full((len(rows), k), _NOTHING)
    largest, limit = torch.empty(0), min(tail, gallery.shape[0] * len(rows))
    memory = torch.empty(len(rows) * block)
    for start, part in read_blocks(gallery, block):
        if stop.is_set():
            break
        scores = memory[: len(rows) * len(part)].view(len(rows), len(part))
        torch.mm(rows, part.t(), out=scores)
        if start == 0:  # a score matters only above the lowest wanted: of its probe, or of the tail
            lowest, floor = _below_largest(scores, k), _below_largest(scores.view(1, -1), limit)
        wanted = torch.minimum(lowest, floor)
        # NumPy's comparison and search on one thread take a tenth of the time of torch's
        places = torch.from_numpy(np.flatnonzero(scores.numpy() > wanted.numpy()[:, None]))
        found = scores.view(-1)[places]
        largest = torch.cat([largest, found[found > floor]])
        if len(largest) > 2 * limit + _WAITING:
            largest = largest.topk(limit).values
            floor = largest[-1:]
        probe, index = places // len(part), start + places % len(part)
        above = found > lowest[probe]
        if above.any():
            best = _merge(best, probe[above], _pack(found[above], index[above]))
            lowest = _unpack_scores(best[:, -1])
    return _unpack_scores(best), 0xFFFFFFFF - (best & 0xFFFFFFFF), largest


def _below_largest(scores: Tensor, k: int) -> Tensor:
    """Per row, a value below the k-th largest score: minus infinity if there are fewer, infinity if k is 0.

    The k-th largest of the maxima of tiles is at most the k-th largest of all, and cheaper to find.
    """
    columns = scores.shape[1]
    if not 0 < k <= columns:
        return torch.full((len(scores),), -torch.inf if k else torch.inf)
    if k <= columns // _TILE:
        scores = scores[:, : columns // _TILE * _TILE].unflatten(1, (-1, _TILE)).amax(dim=2)
    return scores.topk(k, dim=1).values[:, -1].nextafter(torch.tensor(-torch.inf))


def _merge(best: Tensor, probe: Tensor, keys: Tensor) -> Tensor:
    """The k largest keys of every probe, falling, of those so far and new ones; ``probe`` rises."""
    counts = probe.bincount(minlength=len(best))
    first = counts.cumsum(0) - counts
    new = torch.full((len(best), int(counts.max())), _NOTHING)
    new[probe, torch.arange(len(probe)) - first[probe]] = keys
    return torch.cat([best, new], dim=1).topk(best.shape[1], dim=1).values


def _pack(score: Tensor, index: Tensor) -> Tensor:
    """One whole number that rises with the score, and among equal scores falls with the index.

    All keys differ, so that the largest of them depend neither on the algorithm nor on the blocks.
    """
    bits = (score + 0.0).view(torch.int32).long()  # adding zero gives -0.0 and 0.0 the same bits
    ordered = torch.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))
    return ordered * (1 << 32) + (0xFFFFFFFF - index)


def _unpack_scores(keys: Tensor) -> Tensor:
    ordered = keys >> 32
    bits = torch.where(ordered >= 0, ordered, (-ordered) - (1 << 31))  # the sign bit is the lowest int32
    scores = bits.int().view(torch.float32)
    return torch.where(keys == _NOTHING, -torch.inf, scores)
