"""Figures as SVG text, drawn by matplotlib without touching its global state."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pinets._extras import require

__all__ = ["COLORS", "Hint", "band", "drawing_png", "drawing_svg", "figure_svg", "new_figure", "tidy"]

COLORS = ("#3556c9", "#d9622b", "#2a9d6f", "#8d4bb8", "#c43d5e", "#7a7f8c")


class Hint(NamedTuple):
    """A text for a point of a figure."""

    axes: Any
    x: float
    y: float
    text: str


def new_figure(width: float, height: float, **subplots: Any) -> tuple[Any, Any]:
    """A figure and its axes, outside of pyplot, so that nothing global changes and no display is needed."""
    figure = require("matplotlib.figure", extra="train").Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**subplots)


def tidy(axes: Any, *, title: str = "", x: str = "", y: str = "", grid: bool = True) -> None:
    """Labels, and no more lines than needed."""
    axes.set_title(title, fontsize=11, loc="left", fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    if grid:
        axes.grid(axis="y", color="#dfe3ea", linewidth=0.8)
        axes.set_axisbelow(True)


def band(axes: Any, x: Sequence[float], runs: Sequence[Sequence[float]], **style: Any) -> None:
    """The mean of several runs as a line, with one standard deviation to each side; a single run has no band."""
    numpy = require("numpy", extra="train")
    values = numpy.asarray(runs, dtype=float)
    mean = values.mean(axis=0)
    (line,) = axes.plot(x, mean, **style)
    if len(values) == 1:
        return
    deviation = values.std(axis=0, ddof=1)
    axes.fill_between(x, mean - deviation, mean + deviation, color=line.get_color(), alpha=0.18, linewidth=0)


def drawing_svg(figure: Any) -> str:
    """The figure as the text of an SVG file; the same figure gives the same text."""
    _show_dollars(figure)
    buffer = io.StringIO()
    settings: Mapping[str, Any] = {"svg.hashsalt": "pinets"}
    with require("matplotlib", extra="train").rc_context(settings):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def drawing_png(figure: Any, *, dpi: int = 110) -> bytes:
    """The figure as the content of a PNG file; the same figure gives the same bytes."""
    _show_dollars(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def figure_svg(figure: Any, caption: str, *, alt: str, hints: Sequence[Hint] = ()) -> str:
    """The figure as an HTML fragment with its caption; points with a hint show it under the mouse."""
    drawing = drawing_svg(figure)
    drawing = drawing[drawing.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1)
    if hints:  # the browser shows a title by itself: no script is needed
        end = drawing.rindex("</svg>")
        drawing = drawing[:end] + "".join(_circle(figure, hint) for hint in hints) + drawing[end:]
    return f"<figure>{drawing}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _circle(figure: Any, hint: Hint) -> str:
    """An invisible circle with a title, in the units of the SVG, which are points from the top left."""
    place = hint.axes.transData.transform((hint.x, hint.y))
    x, y = figure.transFigure.inverted().transform(place)
    width, height = (72 * inches for inches in figure.get_size_inches())
    title = html.escape(hint.text)
    return f'<circle class=hint cx="{x * width:.1f}" cy="{(1 - y) * height:.1f}" r="4"><title>{title}</title></circle>'


def _show_dollars(figure: Any) -> None:
    """Draw dollar signs as they are: names of recipes, metrics and classes hold no formulas, and a broken one raises.

    The numbers at the axes keep their formulas, such as powers of ten.
    """
    text, axis = require("matplotlib.text", extra="train"), require("matplotlib.axis", extra="train")
    ticks = {label for tick in figure.findobj(axis.Tick) for label in (tick.label1, tick.label2)}
    numbers = ticks | {one.offsetText for one in figure.findobj(axis.Axis)}
    for part in set(figure.findobj(text.Text)) - numbers:
        part.set_parse_math(False)
