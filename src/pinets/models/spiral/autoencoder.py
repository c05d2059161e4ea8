"""An autoencoder of shapes on a hierarchy of meshes; what its layers are is for others to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pinets.layers.build import check_at_least_one
from pinets.mesh.hierarchy import Hierarchy
from pinets.models.spiral.gain import start_with_gain
from pinets.operators import Resample

__all__ = ["MeshAutoencoder", "OnLevel"]

OnLevel = Callable[..., nn.Module]  # called as (in, out, level, device=..., dtype=...), level counted from the finest


class MeshAutoencoder(nn.Module):
    """Layers and down-sampling to a vector, and back by up-sampling and layers.

    The encoder has a layer and a down-sampling for each step between two levels; the decoder an up-sampling and a
    layer for each, and further layers at the finest level where it has more widths. As published, the two linear maps
    between the coarsest level and the vector also have weights for the vertex that stands for none.

    Args:
        hierarchy: Of the template.
        layer: Makes a layer between two widths at a level.
        encoder: Widths from the input on, as 3, 16, 16, 16, 32.
        decoder: Widths from the coarsest level on, as 32, 32, 16, 16, 3.
        latent: Size of the vector.
        activation: Makes what follows each layer but the last.
        device: Where the parameters are made.
        dtype: Type of the parameters.
    """

    hierarchy_digest: Tensor

    def __init__(
        self,
        hierarchy: Hierarchy,
        layer: OnLevel,
        *,
        encoder: Sequence[int],
        decoder: Sequence[int],
        latent: int,
        activation: Callable[[], nn.Module] = nn.Identity,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        steps, sizes = len(hierarchy.down), hierarchy.sizes
        _require_widths(steps, encoder, decoder)
        check_at_least_one("latent", latent)
        where: dict[str, Any] = {"device": device, "dtype": dtype}
        self.latent = latent
        encoding: list[nn.Module] = []
        for level in range(steps):
            encoding += [layer(encoder[level], encoder[level + 1], level, **where), activation()]
            encoding.append(Resample(sizes[level], hierarchy.down[level], **where))
        self.encoder = nn.Sequential(*encoding)
        self._coarse, self._width = sizes[-1], decoder[0]
        self.to_latent = nn.Linear((sizes[-1] + 1) * encoder[-1], latent, **where)
        self.from_latent = nn.Linear(latent, (sizes[-1] + 1) * decoder[0], **where)
        decoding: list[nn.Module] = []
        for number, (in_features, out_features) in enumerate(pairwise(decoder)):
            level = max(steps - 1 - number, 0)
            if number < steps:
                indices, weights = hierarchy.up[level]
                decoding.append(Resample(sizes[level + 1], indices, weights, **where))
            decoding += [layer(in_features, out_features, level, **where), activation()]
        self.decoder = nn.Sequential(*decoding[:-1])  # the last layer has no activation
        checksum = bytes.fromhex(hierarchy.digest())[:8]
        digest = torch.tensor(list(checksum), dtype=torch.uint8, device="cpu")
        self.register_buffer("hierarchy_digest", digest.to(device=device))
        self.register_load_state_dict_pre_hook(_require_same_hierarchy)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start the two linear maps with the variance of what comes in; the layers start in their own way."""
        start_with_gain(self.to_latent)
        start_with_gain(self.from_latent)

    def encode(self, x: Tensor) -> Tensor:
        """Shapes, (batch, V, 3), as vectors, (batch, latent)."""
        padded = F.pad(self.encoder(x), (0, 0, 0, 1))  # the vertex that stands for none
        return self.to_latent(padded.flatten(1))

    def decode(self, z: Tensor) -> Tensor:
        """Vectors as shapes."""
        return self.decoder(self.from_latent(z).unflatten(1, (self._coarse + 1, self._width))[:, :-1])

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


def _require_widths(steps: int, encoder: Sequence[int], decoder: Sequence[int]) -> None:
    if len(encoder) != steps + 1:
        raise ValueError(f"encoder must have {steps + 1} widths for {steps} down-samplings, got {list(encoder)}")
    if len(decoder) < steps + 1:
        raise ValueError(f"decoder must have at least {steps + 1} widths for {steps} up-samplings, got {list(decoder)}")
    for width in (*encoder, *decoder):
        check_at_least_one("width", width)


def _require_same_hierarchy(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Weights for other spirals would load, and give nonsense."""
    theirs, ours = state.get(f"{prefix}hierarchy_digest"), module.hierarchy_digest
    if theirs is not None and not ours.is_meta and not torch.equal(theirs.cpu(), ours.cpu()):  # type: ignore[operator, arg-type]
        raise ValueError(
            "these weights belong to another hierarchy of meshes (another template, other spirals or other "
            "down-sampling); prepare the hierarchy as it was for the run"
        )
