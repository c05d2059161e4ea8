"""Whether ordinary autograd alone is watching, so that a backward pass written by hand may be used."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

__all__ = ["only_autograd_watches"]


def only_autograd_watches(*values: Tensor) -> bool:
    """False while compiling or tracing, under ``torch.func`` and in forward mode, which all want the plain form."""
    return (
        not torch.compiler.is_compiling()
        and all(type(value) is Tensor for value in values)
        and not torch._C._are_functorch_transforms_active()
        and all(forward_ad.unpack_dual(value).tangent is None for value in values)
    )
