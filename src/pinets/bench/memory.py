"""How much memory a call needs at its highest, counted tensor by tensor, so that it is the same every time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["peak_bytes"]


def peak_bytes(call: Callable[[], object], alive: Iterable[Tensor] = ()) -> int:
    """The largest number of bytes in tensors at any moment of a call, with those that are alive before it.

    What a single operation needs inside is not seen.

    >>> import torch
    >>> x = torch.zeros(1000)
    >>> peak_bytes(lambda: (x + 1).sum(), alive=[x])  # x, x + 1 and the sum, 4 bytes a number
    8004
    """
    counter = _Counter(alive)
    with counter:
        call()
    return counter.peak


class _Counter(TorchDispatchMode):
    def __init__(self, alive: Iterable[Tensor]) -> None:
        super().__init__()
        self.sizes: dict[StorageWeakRef, int] = {}
        self.peak = 0
        self.count(alive)

    def count(self, tensors: Iterable[Any]) -> None:
        for value in tensors:
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                self.sizes[StorageWeakRef(storage)] = storage.nbytes()
        self.sizes = {storage: size for storage, size in self.sizes.items() if not storage.expired()}
        self.peak = max(self.peak, sum(self.sizes.values()))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.count(tree_leaves(out))
        return out
