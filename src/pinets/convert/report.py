"""The report of a conversion: every residual block, and why it was kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import nn

__all__ = ["Conversion", "Report", "count_parameters"]


@dataclass
class Report:
    """The changes to a network.

    Attributes:
        converted: The product of each converted block, by the block's path.
        kept: The reason why a block was not converted, by path.
        dropped: The paths of dropped blocks.
        parameters: Number of parameters of the network before and after.
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
    """A converted network and the report."""

    model: nn.Module
    report: Report


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
