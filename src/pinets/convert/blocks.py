"""The parts of a residual block, and a block made of the same layers with another join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from pinets.models.residual import Join

__all__ = ["Layer", "NotConvertibleError", "Parts", "PartsOf", "SplitBlock", "register_block", "registered_parts"]

Layer = str | nn.Module


class NotConvertibleError(ValueError):
    """A block cannot be converted; the message says why."""


@dataclass(frozen=True)
class Parts:
    r"""The parts of a residual block: :math:`\mathrm{activation}(\mathrm{branch}(x) + \mathrm{shortcut}(x))`.

    A layer is the name of a child of the block, so that its key in the ``state_dict`` stays. A function that the block
    applies is a module, such as ``nn.ReLU()``.

    Attributes:
        branch: The layers of the branch, in order.
        shortcut: The layers of the shortcut; empty for the identity.
        activation: The layers after the sum.
    """

    branch: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()
    activation: tuple[Layer, ...] = ()

    @property
    def names(self) -> set[str]:
        """The names of the block's children among the parts."""
        return {layer for layer in (*self.branch, *self.shortcut, *self.activation) if isinstance(layer, str)}


PartsOf = Callable[[nn.Module], Parts]
_REGISTERED: dict[type[nn.Module], PartsOf] = {}


def register_block(block: type[nn.Module], parts_of: PartsOf) -> None:
    """Register the parts of a class of blocks, so that they can be converted.

    Args:
        block: The class.
        parts_of: Returns the parts of an instance. Conversion checks them with numbers.

    Example:
        >>> class Block(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.body = nn.Conv2d(8, 8, 3, padding=1)
        ...     def forward(self, x):
        ...         return x + self.body(x).relu()
        >>> register_block(Block, lambda block: Parts(branch=("body", nn.ReLU())))
        >>> from pinets.convert import to_pinet
        >>> print(to_pinet(nn.Sequential(Block())).report)
        1 converted, 0 kept; 584 parameters before, 585 after
          converted 0: alpha * (s * r)
    """
    _REGISTERED[block] = parts_of


def registered_parts(block: nn.Module) -> Parts | None:
    """The parts of a block whose class or base class is registered; else None."""
    parts_of = next((_REGISTERED[kind] for kind in type(block).__mro__ if kind in _REGISTERED), None)
    return None if parts_of is None else parts_of(block)


class SplitBlock(nn.Module):
    """A residual block made of another block's layers and attributes, which keep their names, with its own join.

    Args:
        block: The block whose layers are used.
        parts: The parts of that block.
        join: Puts shortcut and branch together; :class:`pinets.models.residual.Add` keeps the block's function.
    """

    def __init__(self, block: nn.Module, parts: Parts, join: Join) -> None:
        super().__init__()
        for name, value in vars(block).items():
            if name not in (*vars(self), "forward"):  # what the network may ask of its blocks, such as their stride
                setattr(self, name, value)
        for name, layer in block.named_children():
            self.add_module(name, layer)
        self._branch, self._shortcut, self._activation = (
            [self._name_of(layer) for layer in layers] for layers in (parts.branch, parts.shortcut, parts.activation)
        )
        self.join = join
        self.training = block.training

    def _name_of(self, layer: Layer) -> str:
        """The name of a layer; a function gets a new name."""
        if isinstance(layer, str):
            return layer
        name = f"function{len(self._modules)}"
        self.add_module(name, layer)
        return name

    def _run(self, names: list[str], x: Tensor) -> Tensor:
        for name in names:
            x = getattr(self, name)(x)
        return x

    def forward(self, x: Tensor) -> Tensor:
        joined = self.join(self._run(self._shortcut, x), self._run(self._branch, x))
        return self._run(self._activation, joined)
