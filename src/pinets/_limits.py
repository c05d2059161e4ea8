"""Limits for networks that a file from a stranger describes: they are counted while they are built."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook
from torch.overrides import TorchFunctionMode

__all__ = ["MODULES", "NUMBERS", "LimitError", "build_on_meta", "limited", "require_numbers"]

MODULES = 20_000  # the largest registered network has 1,400
CALLS = 40_000  # of torch's functions while building; the largest registered network makes 9,000
EVENTS = 20_000_000  # calls and returns of any function while building; the largest registered network makes 3,000,000
SECONDS = 30.0  # of CPU time: a busy machine must not refuse what an idle one accepts
NUMBERS = 10**8  # parameters and buffers to allocate before it is known whether the file holds as many


class LimitError(ValueError):
    """A description of a network that is larger than anything it could honestly mean."""


class _Counting(TorchFunctionMode):
    """Counts the calls of torch's functions: every parameter takes one, however it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.modules = self.events = 0
        self.thread, self.end = threading.get_ident(), time.thread_time() + SECONDS

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        self.check()
        return function(*args, **(kwargs or {}))

    def count_module(self, *_: Any) -> None:
        if threading.get_ident() == self.thread:  # the hook is called for every thread's modules
            self.modules += 1
            self.check()

    def count_event(self, *_: Any) -> None:
        """For loops that make neither modules nor tensors, such as ``TransformerEncoder(Identity(), 10**9)``'s."""
        self.events += 1
        if self.events > EVENTS:
            raise LimitError(f"building it takes more than {EVENTS:,} calls of functions")

    def check(self) -> None:
        if self.modules > MODULES:
            raise LimitError(f"it has more than {MODULES:,} modules")
        if self.calls > CALLS:
            raise LimitError(f"building it takes more than {CALLS:,} operations")
        if time.thread_time() > self.end:
            raise LimitError(f"building it takes more than {SECONDS:g} seconds")


@contextmanager
def limited() -> Iterator[None]:
    """Stop with a :class:`LimitError` when what is built inside has too many modules, or takes too long.

    >>> with limited():
    ...     nn.Sequential(*(nn.Identity() for _ in range(MODULES + 1)))
    Traceback (most recent call last):
    pinets._limits.LimitError: it has more than 20,000 modules
    """
    counting, profile = _Counting(), sys.getprofile()
    hook = register_module_module_registration_hook(counting.count_module)
    sys.setprofile(counting.count_event)  # Python removes it when it raises
    try:
        # `no_grad` ends with a call that is counted too: the limit may stop it before it restores the mode
        with torch.set_grad_enabled(torch.is_grad_enabled()), counting:
            yield
    finally:
        sys.setprofile(profile)
        hook.remove()


def build_on_meta(build: Callable[[], nn.Module]) -> nn.Module:
    """The network on the meta device, where nothing is allocated; a :class:`LimitError` if it is too large.

    >>> build_on_meta(lambda: nn.Linear(10**5, 10**5))
    Traceback (most recent call last):
    pinets._limits.LimitError: it has 10,000,100,000 parameters, more than the 100,000,000 that its file may ask for
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        nn.Linear(1, 1)  # the first draws import much of torch, whose time must not count against the network
        torch.empty(1).normal_()
        with limited():
            network = build()
    require_numbers(network)
    return network


def require_numbers(network: nn.Module, at_most: int = NUMBERS) -> None:
    """Refuse a network, built on the meta device, that would take too much memory."""
    found = sum(value.numel() for value in (*network.parameters(), *network.buffers()))
    if found > at_most:
        raise LimitError(f"it has {found:,} parameters, more than the {at_most:,} that its file may ask for")
