r"""The recursion, once: every Π-net is a choice of the four slots of :class:`Step`.

.. math:: x_n = \mathrm{norm}_n(\mathrm{gate}_n(z) * \mathrm{body}_n(x_{n-1})) + \text{what is carried over}

Each step looks at the input once more and so raises the order by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pinets._eager import call, is_bare, is_transformed

__all__ = ["Polynomial", "Source", "Step"]

Source = Literal["state", "gate", "body"]
_SOURCES = ("state", "gate", "body")


class Step(nn.Module):
    r"""Raise the order by one: multiply the state by a fresh view of the input.

    .. math:: x_n = \mathrm{norm}(\mathrm{gate}(z) * \mathrm{body}(x_{n-1})) + \sum_s \mathrm{carry}_s(s)

    Args:
        gate: The view of the input, linear in :math:`z`.
        body: What is done to the state before it is multiplied; the identity if left out.
        norm: What is done to the product, for instance ``nn.Tanh()`` or a normalisation; nothing if left out.
        carry: What is added without being multiplied again: operators by their source, which is ``"state"``
            (:math:`x_{n-1}`), ``"gate"`` or ``"body"`` (the values already computed, so nothing runs twice).

    Example:
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
            raise TypeError(
                f"carry must be operators by their source, as {{'state': nn.Identity()}}, got {type(carry).__name__}"
            )
        for source, operator in (carry or {}).items():
            if source not in _SOURCES:
                raise ValueError(f"carry takes its values from one of {', '.join(_SOURCES)}, got {source!r}")
            self.carry[source] = operator

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        if self._keeps_the_state():
            return _multiply_and_keep(self.gate, z, x)
        gate, body = call(self.gate, z), call(self.body, x)
        product = multiply(gate, body, spare=is_bare(self.gate, nn.Linear) and "gate" not in self.carry)
        out, is_own = call(self.norm, product), is_bare(self.norm, nn.Identity)
        known = {"state": x, "gate": gate, "body": body}
        for source, operator in self.carry.items():
            out, is_own = _add(out, call(operator, known[source]), overwrite=is_own), True
        return out

    def _keeps_the_state(self) -> bool:
        """Whether the step is the product and the state, nothing else, as in CCP."""
        slots, carry = self._modules, self.carry._modules  # looked up in every step, so without detours
        return (
            len(carry) == 1
            and _is_bare_identity(carry.get("state"))
            and _is_bare_identity(slots["body"])
            and _is_bare_identity(slots["norm"])
        )


class Polynomial(nn.Module):
    r"""A polynomial of its input: ``start``, then ``steps``, then ``head``.

    .. math:: x_1 = \mathrm{start}(z), \qquad x_n = \mathrm{step}_n(z, x_{n-1}), \qquad G(z) = \mathrm{head}(x_N)

    The width and the type of the input are checked. Its values are not, which would make a GPU wait: NaN gives NaN. The
    algebra (:mod:`pinets.algebra`), the estimators and the training loop refuse what is not finite.

    A product of polynomials (ProdPoly) is ``nn.Sequential`` of them; its order is the product of their orders.

    Args:
        start: Makes the first state :math:`x_1` from the input.
        steps: One :class:`Step` for every order beyond the first.
        head: Makes the output from the last state, :math:`C x_N + \beta`; nothing is done if left out.

    Example:
        >>> square = Polynomial(nn.Identity(), [Step(gate=nn.Identity())])
        >>> square(torch.tensor([[3.0]]))
        tensor([[9.]])
    """

    steps: Sequence[Step]  # an nn.ModuleList, which does not tell the type of its modules

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
        """How often the input is looked at; the degree in the input where every slot is linear."""
        return 1 + len(self.steps)

    def forward(self, z: Tensor) -> Tensor:
        _require_input_fits(self, z)
        x = call(self.start, z)
        for step in self.steps:
            x = step(z, x)
        return call(self.head, x)


def multiply(gate: Tensor, body: Tensor, *, spare: bool, out: Tensor | None = None) -> Tensor:
    """The product, in ``out`` if given; in the memory of a gate that is spare (fresh, and needed no more) where no
    gradient asks for it.
    """
    if gate.shape != body.shape:
        _require_gate_fits(gate.shape, body.shape)
    elif spare and not torch.is_grad_enabled() and gate.dtype == body.dtype and not is_transformed():
        return gate.mul_(body)
    return torch.mul(gate, body, out=out)


def _add(total: Tensor, value: Tensor, *, overwrite: bool) -> Tensor:
    """The sum; in the memory of a total that is our own, since no backward pass needs a product or a sum again."""
    fits = value.dtype == total.dtype and value.shape == total.shape
    return total.add_(value) if overwrite and fits and not is_transformed() else total + value


def _multiply_and_keep(gate: nn.Module, z: Tensor, x: Tensor) -> Tensor:
    """``gate(z) * x + x`` in one pass over the state.

    For gradients it is (gate(z) + 1) * x, with the one as the bias of a bare ``nn.Linear``: the matrix product adds it
    on its way, and the state has one gradient instead of a sum of two.
    """
    if not is_bare(gate, nn.Linear) or gate.bias is not None:
        return multiply(gate(z) + 1, x, spare=True)
    if torch.is_grad_enabled() or is_transformed():
        return multiply(F.linear(z, gate.weight, gate.weight.new_ones(gate.out_features)), x, spare=False)
    view = F.linear(z, gate.weight)
    fits = view.shape == x.shape and view.dtype == x.dtype
    return torch.addcmul(x, view, x, out=view) if fits else multiply(view + 1, x, spare=False)


def _is_bare_identity(module: nn.Module | None) -> bool:
    return module is not None and is_bare(module, nn.Identity)


def _require_gate_fits(gate: torch.Size, body: torch.Size) -> None:
    """A gate may be broadcast over the state (a vector over a map), never the other way round."""
    fits = len(gate) == len(body) and all(g in (1, b) for g, b in zip(gate, body, strict=True))
    if not fits:
        raise ValueError(
            f"a step multiplies gate(z) with body(x): their shapes must be equal, or the gate's broadcast to the "
            f"body's; got gate {tuple(gate)} and body {tuple(body)}"
        )


def _require_input_fits(polynomial: Polynomial, z: Tensor) -> None:
    """Refuse what torch would refuse later and less clearly, from shapes and types alone (nothing is read)."""
    name, start = type(polynomial).__name__, polynomial.start
    if not (z.is_floating_point() or z.is_complex()):
        raise TypeError(f"{name} takes floating-point input, got {z.dtype}; convert it with z.float()")
    if isinstance(start, nn.Linear):
        if z.ndim == 0 or z.shape[-1] != start.in_features:
            raise ValueError(
                f"{name} expects {start.in_features} features on the last axis of its input, got shape {tuple(z.shape)}"
            )
    elif isinstance(start, nn.modules.conv._ConvNd):
        axis = -1 - len(start.kernel_size)
        if z.ndim < -axis or z.shape[axis] != start.in_channels:
            raise ValueError(
                f"{name} expects {start.in_channels} channels on axis {axis} of its input, got shape {tuple(z.shape)}"
            )
