"""Write images as files: one by one, as a grid, or as a figure with a grid for each generator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor

from pinets._files import write_bytes
from pinets.data.formats.images import encode_png, image_grid
from pinets.report import drawing_png, new_figure

__all__ = ["side_by_side", "write_degrees", "write_folder", "write_grid"]

_LEGIBLE = 64  # pixels


def write_grid(images: Tensor, path: str | Path, columns: int | None = None) -> None:
    """Write images, uint8 (N, C, H, W), as one PNG, in which small images are enlarged so that they can be seen.

    Args:
        images: What to write.
        path: The file.
        columns: Images in a row; by default as many as rows, about.
    """
    times = max(1, _LEGIBLE // images.shape[-1])
    enlarged = images.repeat_interleave(times, dim=-2).repeat_interleave(times, dim=-1)
    write_bytes(path, encode_png(image_grid(enlarged, columns, margin=2 * times)))


def write_folder(batches: Iterable[Tensor], folder: str | Path) -> int:
    """Write images, a few at a time, each as a PNG of its own into a folder that holds none yet; returns how many."""
    folder = Path(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty: name a new folder, so that old and new images are not mixed")
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for images in batches:
        for image in images:
            write_bytes(folder / f"{number:06d}.png", encode_png(image))
            number += 1
    return number


def side_by_side(panels: Mapping[str, Tensor], path: str | Path, images_in_row: int | None = None) -> None:
    """Write a figure with a grid of images for each name, at most three grids in a row."""
    columns = 2 if len(panels) == 4 else min(len(panels), 3)  # grids: more in a row would be too small to look at
    rows = -(-len(panels) // columns)
    figure, axes = new_figure(3.2 * columns, 3.5 * rows, nrows=rows, ncols=columns, squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, (name, images) in zip(axes.flat, panels.items(), strict=False):
        grid = image_grid(images, images_in_row).permute(1, 2, 0).squeeze(2)
        axis.imshow(grid.numpy(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axis.set_title(name, fontsize=12)
    write_bytes(path, drawing_png(figure, dpi=200))


def write_degrees(images: Tensor, path: str | Path) -> None:
    """Write the images of :func:`~pinets.tasks.generation.sample_degrees` as a figure, a row for each sample."""
    count, degrees = images.shape[:2]
    figure, axes = new_figure(1.1 * degrees, 1.1 * count + 0.3, nrows=count, ncols=degrees, squeeze=False)
    for row, sample in zip(axes, images, strict=True):
        for axis, image in zip(row, sample, strict=True):
            axis.imshow(image.permute(1, 2, 0).squeeze(2).numpy(), cmap="gray", vmin=0, vmax=255)
            axis.axis("off")
    for degree, axis in enumerate(axes[0]):
        axis.set_title(f"degree {degree}" if degree == 0 else f"… + {degree}", fontsize=10)
    write_bytes(path, drawing_png(figure, dpi=200))
