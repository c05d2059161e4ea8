"""A batch norm in pieces: its mean and deviation come from the whole batch, all else from a few samples at a time."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

__all__ = ["KnownBatchNorm"]


class KnownBatchNorm:
    r"""A batch norm whose mean and deviation are known: :math:`w (x - \mathrm{mean}) \cdot \mathrm{inverse} + b`.

    Args:
        weight: The learnt scale of every channel.
        bias: The learnt shift of every channel.
        mean: Of every channel.
        inverse: One over the deviation of every channel.
    """

    def __init__(self, weight: Tensor, bias: Tensor, mean: Tensor, inverse: Tensor) -> None:
        self.mean, self.inverse = mean, inverse
        self.weight, self.scale = weight, weight * inverse
        shift = torch.addcmul(bias, mean, self.scale, value=-1)  # rounded as torch's own batch norm rounds it
        self._scales, self._shifts = _over_maps(self.scale), _over_maps(shift)
        self.to_weight, self.to_bias = torch.zeros_like(mean), torch.zeros_like(mean)  # gradients, once gathered

    @classmethod
    def of(cls, norm: nn.BatchNorm2d) -> KnownBatchNorm:
        """What a layer does that has been trained, to the last bit."""
        mean, var = cast("Tensor", norm.running_mean), cast("Tensor", norm.running_var)
        return cls(norm.weight, norm.bias, mean, torch.rsqrt(var + norm.eps))

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addcmul(self._shifts, x, self._scales)

    def gather(self, gradient: Tensor, x: Tensor) -> None:
        """Add what one piece contributes to the gradients of the weight and the bias, in one pass over it.

        Args:
            gradient: Of the output, for some samples.
            x: The input, for the same samples.
        """
        _, to_weight, to_bias = torch.ops.aten.native_batch_norm_backward(
            gradient, x, self.weight, None, None, self.mean, self.inverse, True, 0.0, [False, True, True]
        )
        self.to_weight += to_weight
        self.to_bias += to_bias

    def pull_back_(self, gradient: Tensor, x: Tensor, *, count: int) -> None:
        """Turn a piece of the output's gradient into that of the input, in place, once all pieces are gathered.

        Args:
            gradient: Of the output; of the input afterwards.
            x: The input.
            count: Numbers in a channel of the whole batch, where mean and deviation are theirs; 0 where they are fixed.
        """
        if not count:
            gradient.mul_(self._scales)
            return
        slope = -self.scale * self.inverse * self.to_weight / count
        shift = -self.mean * slope - self.scale * self.to_bias / count
        by_statistics = torch.addcmul(_over_maps(shift), x, _over_maps(slope))
        torch.addcmul(by_statistics, gradient, self._scales, out=gradient)


def _over_maps(values: Tensor) -> Tensor:
    return values[:, None, None]
