r"""The recursion, once: every Π-net is a choice of the four slots of :class:`Step`.

.. math:: x_n = \mathrm{norm}_n(\mathrm{gate}_n(z) * \mathrm{body}_n(x_{n-1})) + \text{what is carried over}

Each step multiplies by a view of the input and so raises the order by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from torch import Tensor, fx, nn

__all__ = ["Polynomial", "Source", "Step"]

Source = Literal["state", "gate", "body"]
_SOURCES = ("state", "gate", "body")


class Step(nn.Module):
    r"""Raise the order by one: multiply the state by a fresh view of the input.

    .. math:: x_n = \mathrm{norm}(\mathrm{gate}(z) * \mathrm{body}(x_{n-1})) + \sum_s \mathrm{carry}_s(s)

    Args:
        gate: The view of the input, linear in :math:`z`.
        body: Applied to the state before the product; the identity by default.
        norm: Applied to the product, such as ``nn.Tanh()`` or a normalisation; the identity by default.
        carry: Operators by source, whose results are added to the normalised product. A source is ``"state"``
            (:math:`x_{n-1}`), ``"gate"`` or ``"body"`` (the two factors, which are evaluated once).

    Example:
        >>> import torch
        >>> step = Step(gate=nn.Linear(4, 8, bias=False), body=nn.Linear(8, 8))
        >>> step(torch.randn(2, 4), torch.randn(2, 8)).shape
        torch.Size([2, 8])
    """

    def __init__(
        self,
        gate: nn.Module,
        body: nn.Module | None = None,
        *,
        norm: nn.Module | None = None,
        carry: Mapping[Source, nn.Module] | None = None,
    ) -> None:
        super().__init__()
        self.gate = gate  # A_n^T, or U_n^T in CCP
        self.body = nn.Identity() if body is None else body  # S_n^T x + B_n^T b_n
        self.norm = nn.Identity() if norm is None else norm
        self.carry = nn.ModuleDict()  # "state": V_n
        if not isinstance(carry, (Mapping, nn.ModuleDict, type(None))):
            raise TypeError(f"carry must map sources to operators, got {type(carry).__name__}")
        for source, operator in (carry or {}).items():
            if source not in _SOURCES:
                raise ValueError(f"a source of carry must be one of {', '.join(_SOURCES)}, got {source!r}")
            self.carry[source] = operator

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        gate, body = self.gate(z), self.body(x)
        _require_gate_fits(gate, body)
        out = self.norm(gate * body)
        known = {"state": x, "gate": gate, "body": body}
        for source, operator in self.carry.items():
            out = out + operator(known[source])
        return out


class Polynomial(nn.Module):
    r"""A polynomial of its input: ``start``, then ``steps``, then ``head``.

    .. math:: x_1 = \mathrm{start}(z), \qquad x_n = \mathrm{step}_n(z, x_{n-1}), \qquad G(z) = \mathrm{head}(x_N)

    A product of polynomials (ProdPoly) is ``nn.Sequential`` of them; its order is the product of their orders.

    Args:
        start: Maps the input to the first state :math:`x_1`.
        steps: One :class:`Step` for every order beyond the first.
        head: Maps the last state to the output, :math:`C x_N + \beta`; the identity by default.

    Example:
        >>> import torch
        >>> square = Polynomial(nn.Identity(), [Step(gate=nn.Identity())])
        >>> square(torch.tensor([[3.0]]))
        tensor([[9.]])
    """

    steps: Sequence[Step]  # an nn.ModuleList, which is not generic in the type of its modules

    def __init__(self, start: nn.Module, steps: Iterable[Step], head: nn.Module | None = None) -> None:
        super().__init__()
        if not isinstance(steps, Iterable):
            raise TypeError(f"steps must be a list of Step modules, got {type(steps).__name__}")
        self.start = start  # A_1^T with b_1 folded in, or U_1^T
        self.steps = nn.ModuleList(steps)  # type: ignore[assignment]
        self.head = nn.Identity() if head is None else head  # C x + beta
        for position, step in enumerate(self.steps):
            if not isinstance(step, Step):
                raise TypeError(f"steps must hold Step modules, got {type(step).__name__} at position {position}")

    @property
    def order(self) -> int:
        """The number of views of the input; the degree in the input if every slot is linear."""
        return 1 + len(self.steps)

    def forward(self, z: Tensor) -> Tensor:
        _require_input_fits(z, type(self).__name__, *_channels(self.start))
        x = self.start(z)
        for step in self.steps:
            x = step(z, x)
        return self.head(x)


@fx.wrap
def _require_gate_fits(gate: Tensor, body: Tensor) -> None:
    """A gate may be broadcast over the state (a vector over a map), never the other way round."""
    if gate.ndim != body.ndim or any(g not in (b, 1) for g, b in zip(gate.shape, body.shape, strict=True)):
        raise ValueError(
            f"gate(z) and body(x) must have equal shapes, or the gate must broadcast to the body; "
            f"got gate {tuple(gate.shape)} and body {tuple(body.shape)}"
        )


def _channels(start: nn.Module) -> tuple[int, str, int]:
    """How many features or channels an operator takes, and on which axis; 0 where that is not known."""
    if isinstance(start, nn.Linear):
        return start.in_features, "features on the last axis", -1
    if isinstance(start, nn.modules.conv._ConvNd):
        axis = -1 - len(start.kernel_size)
        return start.in_channels, f"channels on axis {axis}", axis
    return 0, "", -1


@fx.wrap
def _require_input_fits(z: Tensor, name: str, channels: int, where: str, axis: int) -> None:
    """Check the width and the type of the input. Values are not read, which would make a GPU wait."""
    if not (z.is_floating_point() or z.is_complex()):
        raise TypeError(f"{name} takes floating-point input, got {z.dtype}; convert it with z.float()")
    if channels and (z.ndim < -axis or z.shape[axis] != channels):
        raise ValueError(f"{name} expects {channels} {where}, got shape {tuple(z.shape)}")
