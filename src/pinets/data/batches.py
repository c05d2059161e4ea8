"""Batches for training: each is a pure function of the seed, the epoch and the step."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from pinets.data.samples import SampleSet
from pinets.data.transforms import Compose, Transform, draw_uniforms

__all__ = ["Batches", "keyed_generator"]

Batch = tuple[Tensor, Tensor]


class Batches:
    """Iterate over a dataset in batches of inputs and labels, one epoch per ``for`` loop.

    The order of an epoch and the random numbers of a batch depend only on the seed, the epoch and the step. So
    restoring :meth:`state_dict` continues with exactly the batches that would have followed, and ``world_size``
    processes together see exactly the batches that one process sees, each some of their rows.

    ``epoch`` and ``step`` say which batch comes next. A loop that was left early is continued by the next one. While
    the last batch of an epoch is processed, ``step`` equals ``len(batches)``; a run resumed there finishes that epoch
    with an empty loop.

    Args:
        samples: The dataset.
        batch_size: Size of the whole batch, over all processes.
        transform: Applied to every batch.
        shuffle: Whether to shuffle anew in every epoch.
        drop_last: Whether to leave out a last batch that is not full.
        seed: Seed of the order and of the transform.
        rank: The number of this process.
        world_size: The number of processes that share each batch.
        prefetch: Batches that a thread prepares ahead; useful if images are decoded while training.

    Example:
        >>> from pinets.data import ArraySet
        >>> ten = ArraySet(torch.arange(10.0), torch.zeros(10).long(), ("number",))
        >>> batches = Batches(ten, 4, shuffle=True)
        >>> [len(labels) for inputs, labels in batches]
        [4, 4, 2]
        >>> batches.epoch, batches.step
        (1, 0)
    """

    def __init__(
        self,
        samples: SampleSet,
        batch_size: int,
        *,
        transform: Transform | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        prefetch: int = 0,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must lie between 0 and world_size - 1, got rank {rank} of {world_size}")
        if batch_size % world_size:
            raise ValueError(f"batch_size {batch_size} cannot be shared equally by {world_size} processes")
        if prefetch < 0:
            raise ValueError(f"prefetch must be at least 0, got {prefetch}")
        self.samples = samples
        self.batch_size = batch_size
        self.transform = Compose() if transform is None else transform
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.prefetch = prefetch
        self.epoch = 0
        self.step = 0
        if len(self) == 0:
            raise ValueError(
                f"{len(samples)} samples make no batch of {batch_size}: batch_size (in a recipe batch / accumulate) "
                f"must be at most {len(samples)}"
            )

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        full, rest = divmod(len(self.samples), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Batch]:
        """Yield the rest of the current epoch, then move on to the next."""
        epoch = self.epoch
        for batch in self._prepare(epoch, self.step):
            self.step += 1
            yield batch
        self.epoch, self.step = epoch + 1, 0

    def state_dict(self) -> dict[str, int | bool]:
        """The position and the settings it belongs to, as JSON."""
        return {"epoch": self.epoch, "step": self.step, **self._meaning()}

    def load_state_dict(self, state: Mapping[str, int | bool]) -> None:
        """Continue at a saved position; the number of processes may differ."""
        meaning = self._meaning()
        if missing := sorted({"epoch", "step", *meaning} - set(state)):
            raise ValueError(f"the saved position lacks {', '.join(missing)}")
        for name, value in meaning.items():
            if state[name] != value:
                raise ValueError(
                    f"the saved position belongs to other batches: {name} was {state[name]}, and is {value} now"
                )
        epoch, step = state["epoch"], state["step"]
        if epoch < 0 or not 0 <= step <= len(self):
            raise ValueError(f"there is no step {step} in epoch {epoch}: an epoch has {len(self)} batches")
        self.epoch, self.step = epoch, step

    def _meaning(self) -> dict[str, int | bool]:
        return {
            "seed": self.seed,
            "samples": len(self.samples),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
        }

    def _prepare(self, epoch: int, first: int) -> Iterator[Batch]:
        order = torch.arange(len(self.samples))
        if self.shuffle:
            order = self.samples.shuffled(keyed_generator(self.seed, epoch))
        steps = range(first, len(self))
        if self.prefetch == 0:
            for step in steps:
                yield self._batch(order, epoch, step)
            return
        waiting: deque[Future[Batch]] = deque()
        with ThreadPoolExecutor(1, thread_name_prefix="pinets-batches") as worker:
            try:
                for step in steps:
                    waiting.append(worker.submit(self._batch, order, epoch, step))
                    if len(waiting) > self.prefetch:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:  # the loop was left early
                    future.cancel()

    def _batch(self, order: Tensor, epoch: int, step: int) -> Batch:
        rows = order[step * self.batch_size : (step + 1) * self.batch_size]
        draws = self.samples.draws
        uniforms = draw_uniforms(len(rows), draws + self.transform.draws, keyed_generator(self.seed, epoch, step))
        mine = slice(self.rank * len(rows) // self.world_size, (self.rank + 1) * len(rows) // self.world_size)
        rows, uniforms = rows[mine], uniforms[mine]
        inputs = self.samples.read(rows, uniforms[:, :draws])
        return self.transform.apply(inputs, uniforms[:, draws:]), self.samples.labels[rows]


def keyed_generator(*key: object) -> torch.Generator:
    """A random generator seeded by a hash of the key, so that similar keys give unrelated numbers."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
