r"""The step of a residual block, which is handed values: :math:`\mathrm{norm}(z * x) + z + x`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pinets._eager import is_bare
from pinets.models.tanh import Tanh
from pinets.polynomial import Step, multiply

__all__ = ["JoinStep"]


class JoinStep(Step):
    r"""A step whose gate, body and carries are identities: :math:`\mathrm{norm}(z * x) + z + x`.

    Beside the forward pass of every step it has one that saves memory, and a backward pass to go with it.

    Args:
        norm: What is done to the product.

    Example:
        >>> JoinStep(nn.Identity())(torch.tensor([2.0]), torch.tensor([3.0]))  # 2 * 3 + 2 + 3
        tensor([11.])
    """

    def __init__(self, norm: nn.Module) -> None:
        super().__init__(nn.Identity(), norm=norm, carry={"gate": nn.Identity(), "body": nn.Identity()})

    @property
    def is_plain(self) -> bool:
        """Whether nobody has put anything else into the slots that are identities."""
        return set(self.carry) == {"gate", "body"} and all(
            is_bare(module, nn.Identity) for module in (self.gate, self.body, *self.carry.values())
        )

    def join(self, z: Tensor, x: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The forward pass of a plain step where no graph is made, in as little memory as the norm allows.

        The sums go into the memory of the norm's result, which the norm must have made anew or from the product.

        Args:
            z: The value that comes in as input.
            x: The value that comes in as state.
            out: Where to make the product; in new memory if left out. The result is there if the norm works in place.
        """
        joined = self.norm(multiply(z, x, spare=False, out=out))
        fits = all(value.dtype == joined.dtype and value.shape == joined.shape for value in (z, x))
        return joined.add_(z).add_(x) if fits else joined + z + x

    def pull_back_(self, z: Tensor, x: Tensor, gradient: Tensor, *, to_x: Tensor, of: Sequence[Tensor]) -> list[Tensor]:
        """The backward pass of a plain step: turn the gradient of its output into that of ``z``, in place.

        The norm alone is left to autograd, which would keep and pass over three times as much for all of it.

        Args:
            z: The value that comes in as input.
            x: The value that comes in as state.
            gradient: Of the output; of ``z`` afterwards.
            to_x: Where to write the gradient of ``x``.
            of: What the norm has learnt; its gradients are returned.
        """
        product = multiply(z, x, spare=False)
        if is_bare(self.norm, Tanh):
            to_product, to_learnt = self.norm.pull_back_(product, gradient), []
        else:
            with torch.enable_grad():
                second_order = self.norm(product.requires_grad_())
            to_product, *to_learnt = torch.autograd.grad(second_order, (product, *of), gradient)
        # d(norm(z x) + z + x) = norm'(z x) (x dz + z dx) + dz + dx
        torch.addcmul(gradient, to_product, z, out=to_x)
        gradient.addcmul_(to_product, x)
        return to_learnt
