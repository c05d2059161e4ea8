"""Problems that would stop a run, collected instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn

from pinets._modes import evaluating
from pinets.data import MissingDataError

__all__ = ["Findings", "output_shape"]


@dataclass
class Findings:
    """Mismatches between the values of a recipe and its data, and the data that are missing.

    Example:
        >>> found = Findings()
        >>> with found.of("batch"):
        ...     raise ValueError("8 samples make no batch of 16")
        >>> found.mismatches
        ['batch: 8 samples make no batch of 16']
    """

    mismatches: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Collect the error of a check, with the recipe's key it is about."""
        try:
            yield
        except MissingDataError as error:
            self.missing.append(str(error))
        except (ValueError, TypeError, RuntimeError, OSError) as error:
            self.mismatches.append(str(error) if str(error).startswith(key) else f"{key}: {error}")


@torch.no_grad()
def output_shape(network: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The output shape for one input of the given shape, without the batch; torch's random state is not changed."""
    with evaluating(network), torch.random.fork_rng(devices=[]):
        return tuple(network(torch.zeros(1, *shape)).shape[1:])
