"""Changes of place, size and light, against Pillow and arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from pinets.data.transforms.jitter import RandomLight, RandomSimilarity


def blurred(size=33):
    """A smooth image, in which interpolation makes no difference."""
    across, down = np.meshgrid(np.linspace(0, 3, size), np.linspace(0, 2, size))
    return (128 + 60 * np.sin(across + 1) * np.cos(down * 1.5)).astype(np.float32)


def inner(image, border=9):
    return image[border:-border, border:-border]


@pytest.mark.parametrize("uniform, degrees", [(1.0, 20), (0.0, -20), (0.75, 10)])
def test_turning_is_pillows(uniform, degrees):
    image = blurred()
    uniforms = torch.tensor([[uniform, 0.5, 0.5, 0.5]], dtype=torch.float64)
    turned = RandomSimilarity(20, 0.1, 3).apply(torch.from_numpy(image)[None, None], uniforms)[0, 0].numpy()
    expected = np.asarray(Image.fromarray(image).rotate(degrees, resample=Image.Resampling.BILINEAR))
    assert np.abs(inner(turned) - inner(expected)).max() < 1


def test_shifting_moves_by_pixels():
    image = torch.from_numpy(blurred())[None, None]
    uniforms = torch.tensor([[0.5, 0.5, 1.0, 0.0]], dtype=torch.float64)  # what lay 3 pixels to the right and 3 above
    moved = RandomSimilarity(0, 0, 3).apply(image, uniforms)
    torch.testing.assert_close(moved[..., 9:-9, 9:-9], image[..., 6:-12, 12:-6], rtol=0, atol=1e-2)


def test_growing_enlarges_about_the_centre():
    image = blurred()
    grown = RandomSimilarity(0, 0.5, 0).apply(
        torch.from_numpy(image)[None, None], torch.tensor([[0.5, 1.0, 0.5, 0.5]], dtype=torch.float64)
    )
    size = image.shape[0]
    edge = size / 2 * (1 - 1 / 1.5)
    picture = Image.fromarray(image).resize(
        (size, size), Image.Resampling.BILINEAR, box=(edge, edge, size - edge, size - edge)
    )
    assert np.abs(inner(grown[0, 0].numpy(), 2) - inner(np.asarray(picture), 2)).max() < 1


def test_every_image_has_its_own_numbers():
    images = torch.from_numpy(blurred())[None, None].expand(3, 3, -1, -1)
    uniforms = torch.rand(3, 4, dtype=torch.float64)
    jitter = RandomSimilarity(10, 0.1, 3)
    together = jitter.apply(images, uniforms)
    for row in range(3):
        torch.testing.assert_close(jitter.apply(images[row : row + 1], uniforms[row : row + 1])[0], together[row])
    assert not torch.allclose(together[0], together[1])


def test_light_changes_contrast_about_the_mean_and_adds():
    images = torch.tensor([[[[100.0, 120.0]]]]).expand(2, 3, 1, 2)
    uniforms = torch.tensor([[1.0, 0.5], [0.5, 0.0]], dtype=torch.float64)
    changed = RandomLight(0.5, 0.1).apply(images, uniforms)
    torch.testing.assert_close(changed[0, 0, 0], torch.tensor([95.0, 125.0]))
    torch.testing.assert_close(changed[1, 0, 0], torch.tensor([74.5, 94.5]))
    assert RandomLight(0.5, 1.0).apply(images, torch.ones(2, 2).double()).max() == 255


@pytest.mark.parametrize("arguments", [(-1, 0, 0), (0, 1, 0), (0, 0, -1)])
def test_values_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="must not be negative"):
        RandomSimilarity(*arguments)
