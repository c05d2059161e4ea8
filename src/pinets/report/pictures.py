"""Images in files, in figures and in reports."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor

from pinets._files import write_bytes
from pinets.data.formats.decode import encode_png
from pinets.data.formats.grid import image_grid
from pinets.report.figures import drawing_png, new_figure

__all__ = ["picture_html", "side_by_side", "write_folder", "write_grid"]


def write_grid(images: Tensor, path: str | Path) -> None:
    """Write images, uint8 (N, C, H, W), as one PNG."""
    write_bytes(path, encode_png(image_grid(images)))


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


def side_by_side(panels: Mapping[str, Tensor], path: str | Path) -> None:
    """Write a figure with a grid of images for each name."""
    figure, axes = new_figure(4 * len(panels), 4.3, ncols=len(panels), squeeze=False)
    for axis, (name, images) in zip(axes[0], panels.items(), strict=True):
        grid = image_grid(images).permute(1, 2, 0).squeeze(2)
        axis.imshow(grid.numpy(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axis.set_title(name, fontsize=12)
        axis.axis("off")
    write_bytes(path, drawing_png(figure))


def picture_html(path: Path, caption: str) -> str:
    """A picture as an HTML fragment that needs no other file."""
    data = base64.b64encode(path.read_bytes()).decode()
    image = (
        f'<img src="data:image/png;base64,{data}" alt="{html.escape(caption)}" style="max-width:100%;min-width:20rem">'
    )
    return f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>"
