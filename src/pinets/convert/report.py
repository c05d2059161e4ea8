"""What became of every residual block of a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import nn

__all__ = ["Conversion", "Report", "count_parameters"]


@dataclass
class Report:
    """What was changed in a network, what was not, and why.

    Attributes:
        converted: The product that each converted block got, by the path of the block.
        kept: Why a block was left as it was, by its path.
        dropped: The paths of blocks that were removed.
        parameters: Of the network before and after.
    """

    converted: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    parameters: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        before, after = self.parameters
        counts = [f"{len(self.converted)} converted", f"{len(self.kept)} kept"]
        if self.dropped:
            counts.append(f"{len(self.dropped)} dropped")
        lines = [f"{', '.join(counts)}; {before:,} parameters before, {after:,} after"]
        lines += [f"  converted {path or 'the network'}: {product}" for path, product in self.converted.items()]
        lines += [f"  kept      {path or 'the network'}: {reason}" for path, reason in self.kept.items()]
        lines += [f"  dropped   {path}" for path in self.dropped]
        return "\n".join(lines)


class Conversion(NamedTuple):
    """A converted network and what was done to it."""

    model: nn.Module
    report: Report


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
