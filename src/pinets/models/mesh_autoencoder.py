"""An autoencoder of shapes on a hierarchy of meshes; the caller supplies the layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pinets.layers.build import check_at_least_one
from pinets.layers.initialization import draw_weight
from pinets.models.parts import reset_layers
from pinets.operators import Resample
from pinets.operators.hierarchy import Hierarchy

__all__ = ["MakeLevelLayer", "MeshAutoencoder"]

MakeLevelLayer = Callable[[int, int, int], nn.Module]  # (in_features, out_features, level), level 0 the finest


class MeshAutoencoder(nn.Module):
    """Encode shapes as vectors by layers and down-sampling; decode them by up-sampling and layers.

    The encoder has one layer and one down-sampling between two levels. The decoder has one up-sampling and one layer
    between two levels, and further layers at the finest level if it has more widths. As published, the two linear maps
    between the coarsest level and the vector also have weights for the padding vertex.

    Args:
        hierarchy: Levels of the template and the maps between them.
        layer: Makes a layer from its widths and its level.
        encoder: Widths from the input on, such as 3, 16, 16, 16, 32.
        decoder: Widths from the coarsest level on, such as 32, 32, 16, 16, 3.
        latent: Size of the vector.
        activation: Makes the activation after each layer but the last.
    """

    hierarchy_digest: Tensor

    def __init__(
        self,
        hierarchy: Hierarchy,
        layer: MakeLevelLayer,
        *,
        encoder: Sequence[int],
        decoder: Sequence[int],
        latent: int,
        activation: Callable[[], nn.Module] = nn.Identity,
    ) -> None:
        super().__init__()
        steps, sizes = len(hierarchy.down), hierarchy.sizes
        if len(encoder) != steps + 1:
            raise ValueError(f"encoder must have {steps + 1} widths for {steps} down-samplings, got {list(encoder)}")
        if len(decoder) < steps + 1:
            raise ValueError(
                f"decoder must have at least {steps + 1} widths for {steps} up-samplings, got {list(decoder)}"
            )
        for width in (*encoder, *decoder):
            check_at_least_one("width", width)
        check_at_least_one("latent", latent)
        self.latent = latent
        encoding: list[nn.Module] = []
        for level in range(steps):
            encoding += [layer(encoder[level], encoder[level + 1], level), activation()]
            encoding.append(Resample(sizes[level], hierarchy.down[level]))
        self.encoder = nn.Sequential(*encoding)
        self._coarse, self._width = sizes[-1], decoder[0]
        self.to_latent = nn.Linear((sizes[-1] + 1) * encoder[-1], latent)
        self.from_latent = nn.Linear(latent, (sizes[-1] + 1) * decoder[0])
        decoding: list[nn.Module] = []
        for number, (in_features, out_features) in enumerate(pairwise(decoder)):
            level = max(steps - 1 - number, 0)
            if number < steps:
                indices, weights = hierarchy.up[level]
                decoding.append(Resample(sizes[level + 1], indices, weights))
            decoding += [layer(in_features, out_features, level), activation()]
        self.decoder = nn.Sequential(*decoding[:-1])  # no activation after the last layer
        checksum = bytes.fromhex(hierarchy.digest())[:8]
        self.register_buffer("hierarchy_digest", torch.tensor(list(checksum), dtype=torch.uint8, device="cpu"))
        self.register_load_state_dict_pre_hook(_require_same_hierarchy)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter anew; the two linear maps keep the variance of their input."""
        reset_layers(self)
        for linear in (self.to_latent, self.from_latent):
            draw_weight(linear, 1.0)
            nn.init.zeros_(linear.bias)

    def encode(self, x: Tensor) -> Tensor:
        """Shapes, (batch, V, 3), as vectors, (batch, latent)."""
        padded = F.pad(self.encoder(x), (0, 0, 0, 1))  # the padding vertex
        return self.to_latent(padded.flatten(1))

    def decode(self, z: Tensor) -> Tensor:
        """Vectors, (batch, latent), as shapes, (batch, V, 3)."""
        return self.decoder(self.from_latent(z).unflatten(1, (self._coarse + 1, self._width))[:, :-1])

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


def _require_same_hierarchy(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Refuse weights trained on other spirals: they would load without an error and compute nonsense."""
    theirs, ours = state.get(f"{prefix}hierarchy_digest"), module.hierarchy_digest
    if theirs is not None and not ours.is_meta and not torch.equal(theirs.cpu(), ours.cpu()):  # type: ignore[operator, arg-type]
        raise ValueError(
            "these weights belong to another hierarchy of meshes (another template, other spirals or other "
            "down-sampling); build the hierarchy with the settings of the run"
        )
