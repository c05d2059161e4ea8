"""Plots of a fitted polynomial, as scikit-learn's ``Display`` objects: what was computed, and a ``plot`` of it.

Partial dependence needs no grid of predictions: for one column fixed, the mean of every term over the data is its own
power of the column times the mean of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pinets._extras import require

if TYPE_CHECKING:
    from pinets.estimators._formula import Formula
    from pinets.estimators.base import PolynomialNet

__all__ = ["EffectsDisplay", "PairDisplay", "PathDisplay", "WaterfallDisplay"]

_POINTS = 101


def _axes(count: int, axes: Any, width: float = 3.4, height: float = 2.8) -> tuple[Any, list[Any]]:
    pyplot = require("matplotlib.pyplot", extra="train")
    if axes is None:
        columns = min(3, count)
        rows = -(-count // columns)
        _, grid = pyplot.subplots(
            rows, columns, figsize=(width * columns, height * rows), squeeze=False, layout="constrained"
        )
        axes = list(grid.ravel())
        for unused in axes[count:]:
            unused.set_visible(False)
    axes = list(np.ravel(axes))
    return axes[0].figure, axes


def partial_dependence(formula: Formula, rows: np.ndarray, columns: list[int], values: np.ndarray) -> np.ndarray:
    """The mean over the rows of a formula with some columns fixed at values of shape (points, columns), exact."""
    shifted, fixed = rows - formula.centers, values - formula.centers[columns]
    out = np.full(len(values), formula.constant)
    for term in formula.terms:
        own = [columns.index(column) for column in term.columns if column in columns]
        rest = [column for column in term.columns if column not in columns]
        out += term.coefficient * shifted[:, rest].prod(axis=1).mean() * fixed[:, own].prod(axis=1)
    return out


@dataclass
class EffectsDisplay:
    """The effect of single columns: the prediction averaged over all others, above the density of the data.

    Attributes:
        effects: For every column its name, its values, the mean prediction there, and the data; columns of categories
            have names for values.
        target: What is predicted.
    """

    effects: list[tuple[str, Any, np.ndarray, np.ndarray]]
    target: str

    @classmethod
    def from_estimator(
        cls, estimator: PolynomialNet, X: Any = None, *, top: int = 6, output: Any = None, target: str | None = None
    ) -> Self:
        """The effects of the ``top`` columns that move the prediction most."""
        formula, rows = estimator.formula(X, output=output, target=target), estimator._rows(X)
        raw, sources = estimator.raw_names(), estimator.columns_.sources
        found: list[tuple[float, tuple[str, Any, np.ndarray, np.ndarray]]] = []
        for number, name in enumerate(raw):
            own = np.flatnonzero(sources == number).tolist()
            if not own:
                continue
            if number in estimator.columns_.levels:
                points = np.vstack([np.zeros(len(own)), np.eye(len(own))])
                values = partial_dependence(formula, rows, own, points)
                share = rows[:, own].mean(axis=0)
                weights = np.concatenate([[1 - share.sum()], share])
                spread = float(
                    np.sqrt(np.average((values - np.average(values, weights=weights)) ** 2, weights=weights))
                )
                found.append((spread, (name, estimator.columns_.labels(number), values, weights)))
            else:
                column = rows[:, own[0]]
                points = np.linspace(column.min(), column.max(), _POINTS)
                values = partial_dependence(formula, rows, own[:1], points[:, None])
                spread = float(partial_dependence(formula, rows, own[:1], column[:, None]).std())
                found.append((spread, (name, points, values, column)))
        found.sort(key=lambda item: -item[0])
        return cls([effect for _, effect in found[:top]], formula.target)

    def plot(self, ax: Any = None) -> Self:
        """Draw one axes for each effect, all to one scale of the prediction."""
        self.figure_, self.axes_ = _axes(len(self.effects), ax)
        low = min(values.min() for _, _, values, _ in self.effects)
        high = max(values.max() for _, _, values, _ in self.effects)
        room = 0.08 * (high - low) or 1.0
        for axes, (name, points, values, data) in zip(self.axes_, self.effects, strict=False):
            if isinstance(points, list):
                order = np.argsort(values)
                axes.barh(range(len(points)), values[order] - low + room, left=low - room, color="#7a9cc6")
                axes.set_yticks(range(len(points)), [points[position] for position in order], fontsize=8)
                axes.set_xlim(low - room, high + room)
                axes.set_xlabel(f"{self.target} by {name}")
                continue
            axes.plot(points, values, color="#1f4e8c")
            counts, edges = np.histogram(data, bins=40)
            axes.bar(
                edges[:-1],
                0.25 * (high - low + 2 * room) * counts / max(1, counts.max()),
                np.diff(edges),
                bottom=low - room,
                align="edge",
                color="#c9c9c9",
            )
            axes.set_ylim(low - room, high + room)
            axes.set_xlabel(name)
            axes.set_ylabel(self.target)
        return self


@dataclass
class PairDisplay:
    """The joint effect of two columns of numbers: the prediction averaged over all others, and where the data are.

    Attributes:
        names: The two columns.
        grid: Their values, two vectors.
        values: The mean prediction, of shape (points of the second, points of the first).
        data: The data, of shape (rows, 2).
        target: What is predicted.
    """

    names: tuple[str, str]
    grid: tuple[np.ndarray, np.ndarray]
    values: np.ndarray
    data: np.ndarray
    target: str

    @classmethod
    def from_estimator(
        cls,
        estimator: PolynomialNet,
        first: str,
        second: str,
        X: Any = None,
        *,
        output: Any = None,
        target: str | None = None,
    ) -> Self:
        """The joint effect of two columns, by name."""
        formula, rows = estimator.formula(X, output=output, target=target), estimator._rows(X)
        names = estimator.encoded_names()
        missing = [name for name in (first, second) if name not in names]
        if missing:
            raise ValueError(f"there is no column {missing[0]!r}; the columns are {', '.join(names)}")
        columns = [names.index(first), names.index(second)]
        grid = tuple(np.linspace(rows[:, column].min(), rows[:, column].max(), 61) for column in columns)
        points = np.stack(np.meshgrid(*grid), axis=-1)
        values = partial_dependence(formula, rows, columns, points.reshape(-1, 2)).reshape(points.shape[:2])
        return cls((first, second), (grid[0], grid[1]), values, rows[:, columns], formula.target)

    def plot(self, ax: Any = None) -> Self:
        """Draw a heat map with the data on it."""
        self.figure_, (axes, *_) = _axes(1, ax, 5.0, 4.0)
        self.ax_ = axes
        image = axes.pcolormesh(*self.grid, self.values, shading="gouraud", cmap="viridis")
        axes.scatter(*self.data.T, s=2, color="white", alpha=0.4, linewidths=0)
        axes.set_xlabel(self.names[0])
        axes.set_ylabel(self.names[1])
        self.figure_.colorbar(image, ax=axes, label=self.target)
        return self


@dataclass
class WaterfallDisplay:
    """How one prediction comes about: from the mean over the background, each column's Shapley value in turn.

    Attributes:
        names: The columns with their values, those that matter most first.
        values: Their Shapley values.
        base: The mean prediction.
        target: What is predicted.
    """

    names: list[str]
    values: np.ndarray
    base: float
    target: str

    @classmethod
    def from_estimator(
        cls,
        estimator: PolynomialNet,
        row: Any,
        background: Any = None,
        *,
        top: int = 8,
        output: Any = None,
        target: str | None = None,
    ) -> Self:
        """Explain one row, given as a table of one."""
        if len(row) != 1:
            raise ValueError(f"a waterfall explains one row, got {len(row)}")
        position, name = estimator._output(output)
        found = estimator.shap_values(row, background)
        values = found.values[0] if found.values.ndim == 2 else found.values[0, position]
        raw = row.iloc[0].tolist() if hasattr(row, "iloc") else np.asarray(row)[0].tolist()
        cells = dict(zip(estimator.raw_names(), raw, strict=True))
        shown = [
            f"{name} = {cells[name]:.4g}" if isinstance(cells[name], (int, float)) else f"{name} = {cells[name]}"
            for name in found.names
        ]
        order = np.argsort(-np.abs(values), kind="stable")
        kept, others = order[:top], order[top:]
        names, bars = [shown[position] for position in kept], values[kept]
        if len(others):
            names.append(f"{len(others)} other columns")
            bars = np.append(bars, values[others].sum())
        return cls(names, bars, float(found.base[position]), target or name)

    def plot(self, ax: Any = None) -> Self:
        """Draw a bar for each column, each starting where the one before ended."""
        self.figure_, (axes, *_) = _axes(1, ax, 6.0, 0.4 * len(self.names) + 1.2)
        self.ax_ = axes
        starts = self.base + np.concatenate([[0.0], np.cumsum(self.values)[:-1]])
        colors = np.where(self.values > 0, "#c05640", "#3b6fb6")
        axes.use_sticky_edges = False  # leaves a margin beside the bars
        axes.barh(range(len(self.values)), self.values, left=starts, color=colors)
        axes.set_yticks(range(len(self.values)), self.names)
        axes.invert_yaxis()
        axes.axvline(self.base, color="#888888", linewidth=0.8)
        end = self.base + self.values.sum()
        axes.axvline(end, color="#222222", linewidth=0.8)
        axes.set_xlabel(f"{self.target}: from {self.base:.4g} on average to {end:.4g}")
        return self


@dataclass
class PathDisplay:
    """Terms against score: what each further term is worth, and how many were kept.

    Attributes:
        terms: 1, 2, ...
        scores: The cross-validated score for each number of terms.
        deviations: The deviations of these scores.
        chosen: How many were kept.
    """

    terms: np.ndarray
    scores: np.ndarray
    deviations: np.ndarray
    chosen: int

    @classmethod
    def from_estimator(cls, estimator: PolynomialNet) -> Self:
        """The path of an estimator that ``simplify`` returned."""
        path = getattr(estimator, "path_", None)
        if path is None:
            raise ValueError("only an estimator that simplify returned has a path")
        output = estimator.classes_[0] if hasattr(estimator, "classes_") else 0
        return cls(
            np.array([point.terms for point in path]),
            np.array([point.score for point in path]),
            np.array([point.deviation for point in path]),
            len(estimator.formula(output=output)),
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw the path."""
        self.figure_, (axes, *_) = _axes(1, ax, 5.0, 3.4)
        self.ax_ = axes
        axes.fill_between(self.terms, self.scores - self.deviations, self.scores + self.deviations, color="#c9d8ee")
        axes.plot(self.terms, self.scores, color="#1f4e8c", marker="o", markersize=3)
        axes.axvline(self.chosen, color="#c05640", linewidth=0.8, label=f"{self.chosen} terms")
        axes.set_xlabel("terms")
        axes.set_ylabel("cross-validated score")
        axes.legend()
        return self
