"""Pictures of shapes coloured by numbers on their vertices: to turn in a browser, still, and moving."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pinets._extras import require
from pinets.report import new_figure

__all__ = ["animate_shapes", "draw_shapes", "error_colors", "turnable"]

_MAP = "viridis"
_PLAIN = "#c3c8d1"
_GIF_DPI = 72
_FRAME_MILLISECONDS = 90


def error_colors(errors: Tensor, largest: float) -> Tensor:
    """Colours, uint8 (V, 3), of numbers from 0 to ``largest``.

    >>> error_colors(torch.tensor([0.0, 2.0]), 2.0)
    tensor([[ 68,   1,  84],
            [253, 231,  36]], dtype=torch.uint8)
    """
    colormap = require("matplotlib", extra="train").colormaps[_MAP]
    share = (errors / max(largest, 1e-12)).nan_to_num(nan=1.0, posinf=1.0).clamp(0, 1)
    return torch.from_numpy(colormap(share.numpy(), bytes=True)[:, :3].copy())


def turnable(shapes: Mapping[str, Tensor], faces: Tensor, errors: Mapping[str, Tensor]) -> str:
    """Shapes side by side to turn in a browser, as a self-contained HTML fragment; grey where there are no errors.

    Args:
        shapes: By name, (V, 3) each.
        faces: (F, 3), the same for all.
        errors: The errors of the vertices of some shapes, (V,) each, in millimetres.
    """
    objects = require("plotly.graph_objects", extra="mesh")
    subplots = require("plotly.subplots", extra="mesh")
    kinds = [[{"type": "scene"}] * len(shapes)]
    figure = subplots.make_subplots(
        rows=1, cols=len(shapes), specs=kinds, subplot_titles=list(shapes), horizontal_spacing=0.0
    )
    largest = _largest(errors)
    i, j, k = faces.T.numpy()
    for column, (name, shape) in enumerate(shapes.items(), start=1):
        x, y, z = shape.float().T.numpy()
        look: dict[str, Any] = {"color": _PLAIN}
        if name in errors:
            numbers = errors[name].nan_to_num(posinf=largest).float().numpy()
            bar = {"title": {"text": "mm"}, "thickness": 14}
            look = {"intensity": numbers, "cmin": 0.0, "cmax": largest, "colorscale": "Viridis", "colorbar": bar}
            look["showscale"] = column == len(shapes)
        figure.add_trace(objects.Mesh3d(x=x, y=y, z=z, i=i, j=j, k=k, flatshading=False, **look), row=1, col=column)
    box = dict(zip("xyz", _box(shapes), strict=True))
    sizes = {axis: high - low for axis, (low, high) in box.items()}
    # without perspective the aspect ratio is the zoom: fill the height or the width of a panel
    zoom = min(1.8 / max(sizes.values()), 4.2 / len(shapes) / sizes["x"])
    ratio = {axis: zoom * size for axis, size in sizes.items()}
    front = {
        "up": {"x": 0, "y": 1, "z": 0},
        "eye": {"x": 0.0, "y": 0.0, "z": 2.0},
        "projection": {"type": "orthographic"},
    }
    axes = {f"{axis}axis": {"visible": False, "autorange": False, "range": limits} for axis, limits in box.items()}
    figure.update_scenes(aspectmode="manual", aspectratio=ratio, camera=front, **axes)
    figure.update_layout(height=430, margin={"l": 0, "r": 0, "t": 40, "b": 0}, showlegend=False)
    return figure.to_html(full_html=False, include_plotlyjs=True, config={"displayModeBar": False})


def draw_shapes(shapes: Mapping[str, Tensor], faces: Tensor, errors: Mapping[str, Tensor]) -> Any:
    """The same as a still picture seen from the front, a figure of matplotlib."""
    figure, _ = _panels(shapes, faces, errors)
    return figure


def animate_shapes(sequences: Mapping[str, Tensor], faces: Tensor, errors: Mapping[str, Tensor]) -> bytes:
    """Sequences side by side as an animated GIF, seen from the front.

    Args:
        sequences: By name, (frames, V, 3) each.
        faces: (F, 3), the same for all.
        errors: The errors of the vertices of some sequences, (frames, V) each, in millimetres.
    """
    pillow = require("PIL.Image", extra="train")
    agg = require("matplotlib.backends.backend_agg", extra="train")
    figure, surfaces = _panels(sequences, faces, errors)
    canvas = agg.FigureCanvasAgg(figure)
    figure.set_dpi(_GIF_DPI)
    images = []
    largest = _largest(errors)
    for frame in range(len(next(iter(sequences.values())))):
        for name, surface in surfaces.items():
            shown = errors[name][frame] if name in errors else None
            corners, colors = _surface(sequences[name][frame], faces, shown, largest)
            surface.set_verts(corners)
            surface.set_facecolor(colors)
        canvas.draw()
        image = pillow.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")
        images.append(image.quantize(128, method=pillow.Quantize.MEDIANCUT, dither=pillow.Dither.NONE))
    buffer = io.BytesIO()
    images[0].save(buffer, "GIF", save_all=True, append_images=images[1:], duration=_FRAME_MILLISECONDS, loop=0)
    return buffer.getvalue()


def _panels(shapes: Mapping[str, Tensor], faces: Tensor, errors: Mapping[str, Tensor]) -> tuple[Any, dict[str, Any]]:
    """A figure with a panel for each shape or sequence (its first frame), and the surfaces drawn in it."""
    collections = require("matplotlib.collections", extra="train")
    cm, colors = require("matplotlib.cm", extra="train"), require("matplotlib.colors", extra="train")
    x, y, _ = _box(shapes)
    aspect = (y[1] - y[0]) / (x[1] - x[0])
    figure, axes = new_figure(2.1 * len(shapes) + 0.7, 2.1 * min(aspect, 2.2) + 0.65, ncols=len(shapes), squeeze=False)
    largest = _largest(errors)
    surfaces = {}
    for (name, shape), panel in zip(shapes.items(), axes[0], strict=True):
        first = shape.reshape(-1, *shape.shape[-2:])[0]
        error = errors[name].reshape(-1, first.shape[0])[0] if name in errors else None
        corners, tints = _surface(first, faces, error, largest)
        # an edge of the face's own colour hides the seams between faces
        surfaces[name] = collections.PolyCollection(corners, facecolors=tints, edgecolors="face", linewidths=0.3)
        panel.add_collection(surfaces[name])
        panel.set(xlim=x, ylim=y, aspect="equal")
        panel.set_axis_off()
        mean = f"\n{float(errors[name].mean()):.1f} mm" if name in errors else "\n"
        panel.set_title(name + mean, fontsize=10)
    if errors:
        bar = cm.ScalarMappable(colors.Normalize(0, largest), _MAP)
        figure.colorbar(bar, ax=list(axes[0]), label="error, mm", shrink=0.7, pad=0.01)
    return figure, surfaces


def _surface(shape: Tensor, faces: Tensor, errors: Tensor | None, largest: float) -> tuple[Any, Any]:
    """The faces of a shape seen from the front, the farthest first: corners (F, 3, 2) and shaded colours (F, 3)."""
    shape = shape.double()
    base = torch.full(shape.shape, 200.0) if errors is None else error_colors(errors, largest).double()
    corners = shape[faces]
    normal = F.normalize(torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), dim=1)
    shade = 0.45 + 0.55 * (normal @ F.normalize(torch.tensor([0.3, 0.4, 1.0], dtype=torch.float64), dim=0)).clamp_min(0)
    tint = base[faces].mean(1).double() / 255 * shade[:, None]
    order = corners[:, :, 2].mean(1).argsort()
    return corners[order][:, :, :2].numpy(), tint[order].clamp(0, 1).numpy()


def _box(shapes: Mapping[str, Tensor]) -> list[list[float]]:
    """The limits of all shapes along each axis, so that all are drawn at one scale."""
    points = torch.cat([shape[shape.isfinite().all(dim=-1)] for shape in shapes.values()]).double()
    low, high = points.min(dim=0).values, points.max(dim=0).values
    return torch.stack([low, torch.maximum(high, low + 1e-9)], dim=1).tolist()


def _largest(errors: Mapping[str, Tensor]) -> float:
    """The end of the colour scale: the error that one vertex in a hundred exceeds."""
    values = torch.cat([error[torch.isfinite(error)] for error in errors.values()]) if errors else torch.ones(1)
    if not len(values):
        return 1.0
    return float(np.quantile(values.double().numpy(), 0.99))  # torch's takes at most 16 million values
