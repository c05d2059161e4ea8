r"""The second-order join in less memory: hardly more than the baseline's needs for training.

In the plain form, autograd keeps the normalised branch :math:`r` and what the norm of the product needs, and the
backward pass makes several maps more at once. Here all passes go through a few samples at a time, and the backward pass
computes those values again, from the shortcut and the branch before its batch norm, which are kept in any case. Memory
that is not asked for also saves time on CPU. ``torch.compile`` takes such decisions itself and gets the plain form.
"""

from __future__ import annotations

from typing import Any, TypeGuard, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pinets._eager import differentiate_again, has_hooks, is_bare, only_autograd_watches
from pinets.models.batch_norm import KnownBatchNorm
from pinets.models.join import Multiply

__all__ = ["RecomputingMultiply"]

_PIECE = 2**21  # bytes of one map in a piece, so that a few of them stay in the last cache


class RecomputingMultiply(Multiply):
    """As :class:`pinets.models.join.Multiply`, for a norm of the product that treats every sample by itself.

    The norm should be cheap, since in training it is computed twice.
    """

    def forward(self, shortcut: Tensor, branch: Tensor, last: nn.Module) -> Tensor:
        if any(map(has_hooks, self.modules())) or not self.is_ordinary(last, shortcut, branch):
            return super().forward(shortcut, branch, last)
        if not torch.is_grad_enabled():
            return self.overwrite(shortcut, last(branch)) if last.training else self.in_pieces(shortcut, branch, last)
        learnt = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return _Recompute.apply(self, last, shortcut, branch, last.weight, last.bias, *learnt)

    def is_ordinary(self, last: nn.Module, shortcut: Tensor, branch: Tensor) -> TypeGuard[nn.BatchNorm2d]:
        """Whether the pieces are those the backward pass below is written for."""
        return (
            is_bare(last, nn.BatchNorm2d)
            and last.affine
            and last.track_running_stats
            and last.momentum is not None
            and only_autograd_watches(shortcut, branch, last.weight, last.bias, *self.parameters())
            and self.step.is_plain
            and (is_bare(self.activation, nn.ReLU) or is_bare(self.activation, nn.Identity))
            and shortcut.dtype == branch.dtype == last.weight.dtype
            and branch.dtype in (torch.float32, torch.float64)  # in half precision a batch norm computes in single
            and shortcut.shape == branch.shape
            and branch.numel() > branch.shape[1]  # a batch norm refuses to train on one number
        )

    def overwrite(self, shortcut: Tensor, normed: Tensor) -> Tensor:
        """Put the result in place of the normalised branch, a few samples at a time, without a graph."""
        for piece in _pieces(normed):
            _activate(self.activation, self.step.join(shortcut[piece], normed[piece]), out=normed[piece])
        return normed

    def in_pieces(self, shortcut: Tensor, branch: Tensor, last: nn.BatchNorm2d) -> Tensor:
        """The result without a graph, where also the batch norm treats every sample by itself."""
        out, known = torch.empty_like(branch), KnownBatchNorm.of(last)
        for piece in _pieces(branch):
            joined = self.step.join(shortcut[piece], known(branch[piece]), out=out[piece])
            _activate(self.activation, joined, out=out[piece])
        return out


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        join: RecomputingMultiply,
        last: nn.BatchNorm2d,
        shortcut: Tensor,
        branch: Tensor,
        weight: Tensor,
        bias: Tensor,
        *learnt: Tensor,
    ) -> Tensor:
        ctx.join, ctx.training, ctx.eps = join, last.training, last.eps
        if last.training:
            cast("Tensor", last.num_batches_tracked).add_(1)
            running = cast("Tensor", last.running_mean), cast("Tensor", last.running_var)
            momentum = cast("float", last.momentum)
            normed, mean, inverse = torch.native_batch_norm(branch, weight, bias, *running, True, momentum, last.eps)
            out = join.overwrite(shortcut, normed)
        else:
            known = KnownBatchNorm.of(last)
            mean, inverse = known.mean, known.inverse
            out = join.in_pieces(shortcut, branch, last)
        kept = out if isinstance(join.activation, nn.ReLU) else None
        ctx.save_for_backward(shortcut, branch, kept, weight, bias, mean, inverse, *learnt)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        shortcut, branch, out, weight, bias, mean, inverse, *learnt = ctx.saved_tensors
        join: RecomputingMultiply = ctx.join
        if torch.is_grad_enabled():  # the gradient is to be differentiated again: autograd does it all
            known = (None, None) if ctx.training else (mean, inverse**-2 - ctx.eps)
            normed = F.batch_norm(branch, known[0], known[1], weight, bias, training=ctx.training, eps=ctx.eps)
            again = join.activation(join.step(shortcut, normed))
            of = (shortcut, branch, weight, bias, *learnt)
            return None, None, *differentiate_again(again, of, gradient, ctx.needs_input_grad[2:])
        last = KnownBatchNorm(weight, bias, mean, inverse)
        to_shortcut, to_branch = torch.empty_like(shortcut), torch.empty_like(branch)
        to_learnt = [torch.zeros_like(parameter) for parameter in learnt]
        for piece in _pieces(branch):
            to_sum, to_normed = to_shortcut[piece], to_branch[piece]
            _pull_back(gradient[piece], None if out is None else out[piece], to=to_sum)
            normed = last(branch[piece])
            parts = join.step.pull_back_(shortcut[piece], normed, to_sum, to_x=to_normed, of=learnt)
            for total, part in zip(to_learnt, parts, strict=True):
                total += part
            last.gather(to_normed, branch[piece])
        count = branch.numel() // branch.shape[1] if ctx.training else 0
        for piece in reversed(_pieces(branch)):  # what was written last is still in the cache
            last.pull_back_(to_branch[piece], branch[piece], count=count)
        return None, None, to_shortcut, to_branch, last.to_weight, last.to_bias, *to_learnt


def _pull_back(gradient: Tensor, out: Tensor | None, *, to: Tensor) -> None:
    """The gradient before a ReLU with the given output; as it is where there is none."""
    if out is None:
        to.copy_(gradient)
    else:
        torch.ops.aten.threshold_backward.grad_input(gradient, out, 0, grad_input=to)


def _activate(activation: nn.Module, x: Tensor, *, out: Tensor) -> None:
    """Write ``activation(x)`` to where it is to stay; for a ReLU in one pass."""
    if is_bare(activation, nn.ReLU):
        torch.clamp_min(x, 0, out=out)
    else:
        out.copy_(activation(x))


def _pieces(x: Tensor) -> list[slice]:
    """A few samples at a time, the last ones first: they were written last and are still in the cache.

    Elsewhere than on CPU all at once, since there every operation costs its launch.
    """
    samples = max(1, _PIECE * len(x) // max(1, x.numel() * x.element_size())) if x.is_cpu else max(1, len(x))
    return [slice(start, start + samples) for start in reversed(range(0, len(x), samples))]
