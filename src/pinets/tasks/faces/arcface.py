r"""ArcFace: the softmax over identities with an angle added to that of the true one.

.. math:: -\log \frac{e^{s \cos(\theta_y + m)}}{e^{s \cos(\theta_y + m)} + \sum_{j \ne y} e^{s \cos\theta_j}}

:math:`\theta_j` is the angle between an embedding and the centre of identity :math:`j`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["ArcFace", "cosines"]

_SMALLEST_SINE = 1e-4  # bounds the slope sin(theta + m) / sin(theta); float32 cannot hold a smaller sine
_SMALLEST_LENGTH = 1e-12  # shorter vectors count as zero


def cosines(embeddings: Tensor, centres: Tensor) -> Tensor:
    """The cosine between every embedding and every centre, in float32 also under autocast, in [-1, 1]."""
    with torch.autocast(embeddings.device.type, enabled=False):
        return F.linear(_directions(embeddings), _directions(centres)).clamp(-1, 1)


@dataclass(frozen=True)
class ArcFace:
    r"""The scale and the margin of ArcFace.

    Where :math:`\theta + m` exceeds :math:`\pi`, and its cosine would rise again, :math:`\cos\theta - m \sin m` stands
    in its place, as published. Values and gradients are finite also at cosines of -1 and 1, and where rounding
    exceeds them.

    Args:
        scale: :math:`s`.
        margin: :math:`m`, in radians.

    Example:
        >>> cosine = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
        >>> ArcFace(scale=10.0, margin=0.5).logits(cosine, torch.tensor([0, -1]))
        tensor([[8.7753, 0.0000],
                [6.0000, 8.0000]])
    """

    scale: float = 64.0
    margin: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale must be positive, got {self.scale}")
        if not 0 <= self.margin < math.pi / 2:
            raise ValueError(f"margin must lie between 0 and pi / 2, got {self.margin}")

    def with_margin(self, cosine: Tensor) -> Tensor:
        r""":math:`\cos(\theta + m)` from :math:`\cos\theta`."""
        cosine = _wide(cosine).clamp(-1, 1)
        sine = (1 - cosine.square()).clamp(min=_SMALLEST_SINE**2).sqrt()
        added = cosine * math.cos(self.margin) - sine * math.sin(self.margin)
        beyond = cosine - self.margin * math.sin(self.margin)
        return torch.where(cosine > -math.cos(self.margin), added, beyond)

    def logits(self, cosine: Tensor, target: Tensor) -> Tensor:
        """The scaled cosines, with the margin where a row's identity is among the columns.

        Args:
            cosine: The cosines of embeddings (rows) with identities (columns).
            target: The column of each row's own identity, -1 if it is not among them.
        """
        rows = (target >= 0).nonzero().flatten()
        columns = target[rows]
        cosine = _wide(cosine)
        changed = self.with_margin(cosine[rows, columns])
        return cosine.index_put((rows, columns), changed) * self.scale

    def loss(self, embeddings: Tensor, centres: Tensor, labels: Tensor) -> Tensor:
        """The mean over a batch, with all centres in one process."""
        with torch.autocast(embeddings.device.type, enabled=False):
            return F.cross_entropy(self.logits(cosines(embeddings, centres), labels), labels)


def _directions(values: Tensor) -> Tensor:
    """Rows divided by their length; a row of zeros is divided by 1, so that half precision can hold its gradient."""
    values = _wide(values)
    length = values.norm(dim=1, keepdim=True)
    return values / torch.where(length > _SMALLEST_LENGTH, length, 1.0)


def _wide(values: Tensor) -> Tensor:
    """At least float32: half precision cannot tell small angles apart."""
    return values if values.dtype == torch.float64 else values.float()
