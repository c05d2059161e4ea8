"""The base of image generators: a network of the noise, and a bound on its output."""

from __future__ import annotations

from torch import Tensor, nn

from pinets.layers.initialization import draw_weight

__all__ = ["ImageGenerator", "check_image", "require_noise", "to_map"]


class ImageGenerator(nn.Module):
    """Images with values in [-1, 1] from noise.

    Args:
        network: Maps noise, (N, latent), to images, (N, C, H, W), with values of any size. If it is a polynomial,
            ``pinets.algebra.certify`` accepts it: the bound, a tanh, is the only activation.
        latent: The size of the noise.

    Example:
        >>> import torch
        >>> network = nn.Sequential(nn.Linear(4, 3 * 8 * 8), nn.Unflatten(1, (3, 8, 8)))
        >>> ImageGenerator(network, latent=4)(torch.randn(2, 4)).shape
        torch.Size([2, 3, 8, 8])
    """

    def __init__(self, network: nn.Module, *, latent: int) -> None:
        super().__init__()
        self.latent = latent
        self.network = network
        self.bound = nn.Tanh()

    def forward(self, z: Tensor) -> Tensor:
        require_noise(z, self.latent)
        return self.bound(self.network(z))

    def truncated(self, z: Tensor, amount: float) -> Tensor:
        """Images nearer to the average: the noise is multiplied by the amount, 0 for the average itself."""
        return self(amount * z)


def require_noise(z: Tensor, latent: int) -> None:
    """Refuse noise of another size than the generator's."""
    if z.ndim != 2 or z.shape[1] != latent:
        raise ValueError(f"the generator takes noise of shape (N, {latent}), got {tuple(z.shape)}")


def check_image(size: int, channels: int, smallest: int = 8) -> int:
    """Refuse sizes that are not reached from 4x4 by doubling; returns the number of doublings."""
    doublings = size.bit_length() - 3
    if size < smallest or size != 4 << doublings:
        raise ValueError(f"size must be a power of two from {smallest} on, got {size}")
    if channels < 1:
        raise ValueError(f"channels must be at least 1, got {channels}")
    return doublings


def to_map(
    latent: int, channels: int, size: int = 1, *, variance: float, constant: float | None = None
) -> nn.Sequential:
    """A linear map from a vector to a map of channels.

    Args:
        latent: Size of the vector.
        channels: Channels of the map.
        size: Height and width of the map; 1 for a gate that is broadcast.
        variance: Initial variance of the map, for a vector of variance one.
        constant: Initial bias; no bias by default.
    """
    linear = nn.Linear(latent, channels * size * size, bias=constant is not None)
    draw_weight(linear, variance)
    if constant is not None:
        nn.init.constant_(linear.bias, constant)
    return nn.Sequential(linear, nn.Unflatten(1, (channels, size, size)))
