"""What every generator of images is: a network of the noise, and a bound on its output."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pinets.layers.initialization import draw_weight
from pinets.models.tanh import Tanh

__all__ = ["ImageGenerator", "check_image", "require_noise", "to_map"]


class ImageGenerator(nn.Module):
    """Images with values in [-1, 1] from noise.

    Args:
        network: From noise of shape (N, latent) to images (N, C, H, W) of any size of values. Where it is a
            polynomial, ``pinets.algebra.certify`` accepts it: the bound is the only activation.
        latent: The size of the noise.
        bound: What brings the values into [-1, 1]; the hyperbolic tangent if left out.

    Example:
        >>> network = nn.Sequential(nn.Linear(4, 3 * 8 * 8), nn.Unflatten(1, (3, 8, 8)))
        >>> ImageGenerator(network, latent=4)(torch.randn(2, 4)).shape
        torch.Size([2, 3, 8, 8])
    """

    def __init__(self, network: nn.Module, *, latent: int, bound: nn.Module | None = None) -> None:
        super().__init__()
        self.latent = latent
        self.network = network
        self.bound = Tanh() if bound is None else bound

    def forward(self, z: Tensor) -> Tensor:
        require_noise(z, self.latent)
        return self.bound(self.network(z))

    def truncated(self, z: Tensor, amount: float) -> Tensor:
        """Images nearer to the average: the noise is drawn towards its mean, 0, all the way with an amount of 0."""
        return self(amount * z)


def require_noise(z: Tensor, latent: int) -> None:
    """Refuse noise of another size than the generator takes."""
    if z.ndim != 2 or z.shape[1] != latent:
        raise ValueError(f"the generator takes noise of shape (N, {latent}), got {tuple(z.shape)}")


def check_image(size: int, channels: int, smallest: int = 8) -> int:
    """Refuse sizes that cannot be reached from 4x4 by doubling; returns how often it is doubled."""
    doublings = size.bit_length() - 3
    if size < smallest or size != 4 << doublings:
        raise ValueError(f"size must be a power of two from {smallest} on, got {size}")
    if channels < 1:
        raise ValueError(f"channels must be at least 1, got {channels}")
    return doublings


def to_map(
    latent: int,
    channels: int,
    size: int = 1,
    *,
    variance: float,
    constant: float | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Sequential:
    """A linear map from a vector to a map of channels.

    Args:
        latent: Size of the vector.
        channels: Of the map.
        size: Its height and width; 1 for a gate that is broadcast.
        variance: Of the map at the start, for a vector of variance one.
        constant: What the bias starts with; without a bias if left out.
        device: Where the parameters are made.
        dtype: Type of the parameters.
    """
    linear = nn.Linear(latent, channels * size * size, bias=constant is not None, device=device, dtype=dtype)
    draw_weight(linear, variance)
    if constant is not None:
        nn.init.constant_(linear.bias, constant)
    return nn.Sequential(linear, nn.Unflatten(1, (channels, size, size)))
