r"""The second-order join in less memory: hardly more than the baseline's needs for training.

In the plain form, autograd keeps the normalised branch :math:`r` and what the norm of the product needs, and the
backward pass makes several maps more at once. Here all passes go through a few samples at a time, and the backward pass
computes those values again, from the shortcut and the branch before its batch norm, which are kept in any case. Memory
that is not asked for also saves time on CPU. ``torch.compile`` takes such decisions itself and gets the plain form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pinets._eager import differentiate_again, has_hooks, is_bare, only_autograd_watches
from pinets.models.join import Multiply

__all__ = ["RecomputingMultiply"]

_PIECE = 2**21  # bytes of one map in a piece, so that a few of them stay in the last cache


class RecomputingMultiply(Multiply):
    """As :class:`pinets.models.join.Multiply`, for a norm of the product that treats every sample by itself.

    The norm should be cheap, since in training it is computed twice.
    """

    def forward(self, shortcut: Tensor, branch: Tensor, last: nn.Module) -> Tensor:
        if any(map(has_hooks, self.modules())) or not self.is_ordinary(shortcut, branch, last):
            return super().forward(shortcut, branch, last)
        if not torch.is_grad_enabled():
            return self.overwrite(shortcut, last(branch)) if last.training else self.in_pieces(shortcut, branch, last)
        learnt = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return _Recompute.apply(self, last, shortcut, branch, last.weight, last.bias, *learnt)

    def is_ordinary(self, shortcut: Tensor, branch: Tensor, last: nn.Module) -> bool:
        """Whether the pieces are those the backward pass below is written for."""
        return (
            is_bare(last, nn.BatchNorm2d)
            and last.affine
            and last.track_running_stats
            and last.momentum is not None
            and only_autograd_watches(shortcut, branch, last.weight, last.bias, *self.parameters())
            and self.step.joins_values
            and (is_bare(self.activation, nn.ReLU) or is_bare(self.activation, nn.Identity))
            and shortcut.dtype == branch.dtype == last.weight.dtype
            and shortcut.shape == branch.shape
        )

    def overwrite(self, shortcut: Tensor, normed: Tensor) -> Tensor:
        """Put the result in place of the normalised branch, a few samples at a time, without a graph."""
        for piece in _pieces(normed):
            _activate(self.activation, self.step.join(shortcut[piece], normed[piece]), out=normed[piece])
        return normed

    def in_pieces(self, shortcut: Tensor, branch: Tensor, last: nn.Module) -> Tensor:
        """The result without a graph, where also the batch norm treats every sample by itself."""
        out = torch.empty_like(branch)
        mean, inverse = _known(last)
        normalise = _batch_norm(last.weight, last.bias, mean, inverse)
        for piece in _pieces(branch):
            joined = self.step.join(shortcut[piece], normalise(branch[piece]), out=out[piece])
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
            normed, mean, inverse = torch.native_batch_norm(
                branch, weight, bias, *running, True, cast("float", last.momentum), last.eps
            )
        else:
            mean, inverse = _known(last)
            normed = _batch_norm(weight, bias, mean, inverse)(branch)
        out = join.overwrite(shortcut, normed)
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
        to_shortcut = gradient.clone() if out is None else torch.ops.aten.threshold_backward(gradient, out, 0)
        to_normed = torch.empty_like(branch)
        to_learnt = [torch.zeros_like(parameter) for parameter in learnt]
        normalise = _batch_norm(weight, bias, mean, inverse)
        for piece in _pieces(branch):
            normed = normalise(branch[piece])
            parts = join.step.pull_back_(shortcut[piece], normed, to_shortcut[piece], to_x=to_normed[piece], of=learnt)
            for total, part in zip(to_learnt, parts, strict=True):
                total += part
        to_weight, to_bias = _batch_norm_backward_(to_normed, branch, weight, mean, inverse, ctx.training)
        return None, None, to_shortcut, to_normed, to_weight, to_bias, *to_learnt


def _known(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """The mean and the inverse deviation that a batch norm uses after training."""
    return cast("Tensor", norm.running_mean), torch.rsqrt(cast("Tensor", norm.running_var) + norm.eps)


def _batch_norm(weight: Tensor, bias: Tensor, mean: Tensor, inverse: Tensor) -> Callable[[Tensor], Tensor]:
    """A batch norm with a known mean and deviation: one product and one sum, known for all pieces."""
    scale = weight * inverse
    scales, shifts = _over_maps(scale), _over_maps(bias - mean * scale)
    return lambda x: torch.addcmul(shifts, x, scales)


def _batch_norm_backward_(
    gradient: Tensor, x: Tensor, weight: Tensor, mean: Tensor, inverse: Tensor, training: bool
) -> tuple[Tensor, Tensor]:
    """Turn the gradient of a batch norm's output into that of its input, in place; return those of weight and bias."""
    to_bias, moment = torch.zeros_like(mean), torch.zeros_like(mean)
    for piece in _pieces(x):
        to_bias += gradient[piece].sum((0, 2, 3))
        moment += (gradient[piece] * x[piece]).sum((0, 2, 3))
    to_weight = (moment - mean * to_bias) * inverse
    scale = weight * inverse
    if training:  # mean and variance depend on the input too
        count = x.numel() // x.shape[1]
        slope = scale * inverse * to_weight / count
        shift = mean * slope - scale * to_bias / count
        for piece in _pieces(x):
            gradient[piece].mul_(_over_maps(scale)).addcmul_(x[piece], _over_maps(-slope)).add_(_over_maps(shift))
    else:
        gradient.mul_(_over_maps(scale))
    return to_weight, to_bias


def _activate(activation: nn.Module, x: Tensor, *, out: Tensor) -> None:
    """Write ``activation(x)`` to where it is to stay; for a ReLU in one pass."""
    if is_bare(activation, nn.ReLU):
        torch.clamp_min(x, 0, out=out)
    else:
        out.copy_(activation(x))


def _over_maps(values: Tensor) -> Tensor:
    return values[:, None, None]


def _pieces(x: Tensor) -> Iterator[slice]:
    """A few samples at a time; elsewhere than on CPU all at once, since there every operation costs its launch."""
    samples = max(1, _PIECE * len(x) // max(1, x.numel() * x.element_size())) if x.is_cpu else max(1, len(x))
    return (slice(start, start + samples) for start in range(0, len(x), samples))
