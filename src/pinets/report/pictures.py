"""Images in files, in figures and in reports."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from pinets._files import write_bytes
from pinets.data.decode import encode_png
from pinets.data.grid import image_grid
from pinets.report.figures import new_figure

__all__ = ["picture_html", "side_by_side", "write_folder", "write_grid"]


def write_grid(images: Tensor, path: str | Path) -> None:
    """Write images, uint8 (N, C, H, W), as one PNG."""
    write_bytes(path, encode_png(image_grid(images)))


def write_folder(images: Tensor, folder: str | Path) -> None:
    """Write each image as a PNG of its own into a folder that holds none yet."""
    folder = Path(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty: name a new folder, so that old and new images are not mixed")
    folder.mkdir(parents=True, exist_ok=True)
    digits = max(5, len(str(len(images) - 1)))
    for number, image in enumerate(images):
        (folder / f"{number:0{digits}d}.png").write_bytes(encode_png(image))


def side_by_side(panels: Mapping[str, Tensor], path: str | Path) -> None:
    """Write a figure with a grid of images for each name."""
    figure, axes = new_figure(4 * len(panels), 4.3, ncols=len(panels), squeeze=False)
    for axis, (name, images) in zip(axes[0], panels.items(), strict=True):
        grid = image_grid(images).permute(1, 2, 0).squeeze(2)
        axis.imshow(grid.numpy(), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axis.set_title(name, fontsize=12)
        axis.axis("off")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    write_bytes(path, buffer.getvalue())


def picture_html(path: Path, caption: str) -> str:
    """A picture as an HTML fragment that needs no other file."""
    data = base64.b64encode(path.read_bytes()).decode()
    image = (
        f'<img src="data:image/png;base64,{data}" alt="{html.escape(caption)}" style="max-width:100%;min-width:20rem">'
    )
    return f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>"
