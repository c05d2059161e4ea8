"""What a residual block consists of, and the block made of the same layers whose join can be chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from pinets.models.join import Join

__all__ = ["Layer", "NotConvertibleError", "Parts", "PartsOf", "SplitBlock", "register_block", "registered_parts"]

Layer = str | nn.Module


class NotConvertibleError(ValueError):
    """A block that is not converted, with the reason."""


@dataclass(frozen=True)
class Parts:
    r"""What a residual block consists of: :math:`\mathrm{activation}(\mathrm{branch}(x) + \mathrm{shortcut}(x))`.

    Layers are given by the names of the block's children, so that they keep their place in the ``state_dict``; those
    that the block applies as functions are given as modules, such as ``nn.ReLU()``.

    Attributes:
        branch: The layers of the branch, in their order.
        shortcut: Those of the shortcut; none where it is the identity.
        activation: Those after the sum.
    """

    branch: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()
    activation: tuple[Layer, ...] = ()

    @property
    def names(self) -> set[str]:
        """The children of the block that the parts account for."""
        return {layer for layer in (*self.branch, *self.shortcut, *self.activation) if isinstance(layer, str)}


PartsOf = Callable[[nn.Module], Parts]
_REGISTERED: dict[type[nn.Module], PartsOf] = {}


def register_block(block: type[nn.Module], parts_of: PartsOf) -> None:
    """Say what the blocks of a class consist of, so that they can be converted.

    Args:
        block: The class.
        parts_of: Gives the parts of an instance. They are checked with numbers when a network is converted.

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
    """The parts of a block whose class, or a class it derives from, was registered."""
    parts_of = next((_REGISTERED[kind] for kind in type(block).__mro__ if kind in _REGISTERED), None)
    return None if parts_of is None else parts_of(block)


class SplitBlock(nn.Module):
    """A residual block made of another's layers, which keep their names, with a join of its own.

    Args:
        block: The block the layers are taken from.
        parts: Which of them are what.
        join: Puts shortcut and branch together; with :class:`pinets.models.join.Add` the function is the block's.
    """

    def __init__(self, block: nn.Module, parts: Parts, join: Join) -> None:
        super().__init__()
        for name, layer in block.named_children():
            self.add_module(name, layer)
        self._branch, self._shortcut, self._activation = (
            [self._name_of(layer) for layer in layers] for layers in (parts.branch, parts.shortcut, parts.activation)
        )
        self.join = join
        self.training = block.training

    def _name_of(self, layer: Layer) -> str:
        """The name of a layer; one that the block applied as a function gets one."""
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
        *first, last = self._branch
        branch = self._run(first, x)
        joined = self.join(self._run(self._shortcut, x), branch, getattr(self, last))
        return self._run(self._activation, joined)
