"""Pictures of shapes coloured by numbers on their vertices: to be turned in a browser, and still ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from pinets._extras import require
from pinets.report.figures import new_figure

__all__ = ["draw_shapes", "error_colors", "turnable"]

_MAP = "viridis"
_PLAIN = "#c3c8d1"


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
    """Shapes side by side as an HTML fragment with all it needs, which can be turned; those without errors are grey.

    Args:
        shapes: By name, (V, 3) each.
        faces: (F, 3), the same for all.
        errors: Of the vertices, (V,) each, in millimetres; of some shapes.
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
    # seen without perspective, this alone is the zoom: as much as height and width of a panel allow
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
    collections = require("mpl_toolkits.mplot3d.art3d", extra="train")
    cm, colors = require("matplotlib.cm", extra="train"), require("matplotlib.colors", extra="train")
    figure, axes = new_figure(2.6 * len(shapes) + 0.6, 3.6, ncols=len(shapes), subplot_kw={"projection": "3d"})
    largest = _largest(errors)
    x, y, z = _box(shapes)
    for (name, shape), panel in zip(shapes.items(), axes, strict=True):
        shape = shape.double()
        corners = shape[faces][:, :, [0, 2, 1]] * torch.tensor([1.0, -1.0, 1.0])  # upright, seen from the front
        base = error_colors(errors[name], largest) if name in errors else torch.full(shape.shape, 200)
        tint = base[faces].double().mean(1) / 255
        normal = torch.nn.functional.normalize(
            torch.linalg.cross(shape[faces[:, 1]] - shape[faces[:, 0]], shape[faces[:, 2]] - shape[faces[:, 0]]), dim=1
        )
        light = torch.nn.functional.normalize(torch.tensor([0.3, 0.4, 1.0], dtype=torch.float64), dim=0)
        shade = 0.45 + 0.55 * (normal @ light).clamp_min(0)
        surface = collections.Poly3DCollection(
            corners.numpy(), facecolors=(tint * shade[:, None]).clamp(0, 1).numpy(), linewidth=0, antialiased=False
        )
        panel.add_collection3d(surface)
        panel.set(xlim=x, ylim=(-z[1], -z[0]), zlim=y)
        panel.set_box_aspect([high - low for low, high in (x, z, y)], zoom=1.12)
        panel.view_init(elev=0, azim=-90)
        panel.set_proj_type("ortho")
        panel.set_axis_off()
        mean = f"\n{float(errors[name].mean()):.2f} mm" if name in errors else "\n"
        panel.set_title(name + mean, fontsize=10)
    bar = cm.ScalarMappable(colors.Normalize(0, largest), _MAP)
    figure.colorbar(bar, ax=list(axes), label="error, mm", shrink=0.7, pad=0.01)
    return figure


def _box(shapes: Mapping[str, Tensor]) -> list[list[float]]:
    """The lowest and the highest place of all shapes along each axis: one scale for all, so that they compare."""
    points = torch.cat([shape[shape.isfinite().all(dim=1)] for shape in shapes.values()]).double()
    low, high = points.min(dim=0).values, points.max(dim=0).values
    return torch.stack([low, torch.maximum(high, low + 1e-9)], dim=1).tolist()


def _largest(errors: Mapping[str, Tensor]) -> float:
    """Where the colours end: beyond it lies one vertex in a hundred."""
    values = torch.cat([error[torch.isfinite(error)] for error in errors.values()]) if errors else torch.ones(1)
    return float(values.double().quantile(0.99)) if len(values) else 1.0
