"""The methods of a fitted estimator that explain its polynomial."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import stats
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from pinets._nearest import did_you_mean
from pinets.algebra import integrated_gradients, shapley
from pinets.algebra.monomials import Table
from pinets.estimators._formula import Formula, Term, Variables, all_monomials, formula_centers, read_formula
from pinets.estimators._simplify import candidate_terms, choose_size, score_path, selection_path, simplified
from pinets.estimators.columns import only_zero_or_one, unique
from pinets.estimators.factored import network_of_terms
from pinets.estimators.monotone import Box, Monotonic, prove
from pinets.estimators.parameters import check_at_least_one, check_between
from pinets.estimators.scaling import Scaling
from pinets.estimators.terms import allowed_products

if TYPE_CHECKING:
    from pinets.estimators.columns import Columns
    from pinets.polynomial import Polynomial

__all__ = ["Explanation", "Interval", "Reading"]

_NO_RANGE = 1e12  # width in deviations that stands for an unknown range
_COLLINEAR = 1e-10  # relative to the largest singular value; a smaller one is rounding
SAMPLE, SAMPLE_CELLS = 1000, 200_000  # rows, and numbers, kept to rank terms by


@dataclass(frozen=True)
class Explanation:
    """Exact interventional Shapley values of predictions.

    Attributes:
        values: Of shape (rows, columns), or (rows, outputs, columns) for several outputs: raw columns, in the units of
            the predictions (log-odds for a classifier).
        base: The mean prediction over the background.
        pairs: For two columns their interaction index, in the order of ``pair_names``; the same shape but for the last
            axis.
        names: The raw columns.
        pair_names: Pairs of them.
    """

    values: np.ndarray
    base: np.ndarray
    pairs: np.ndarray
    names: list[str]
    pair_names: list[tuple[str, str]]


@dataclass(frozen=True)
class Interval:
    """A coefficient and the interval that covers it, for one term."""

    term: Term
    coefficient: float
    low: float
    high: float


class Reading:
    """The methods of both estimators that explain what was learnt."""

    module_: Polynomial
    columns_: Columns
    feature_scaling_: Scaling
    sample_: np.ndarray
    zero_or_one_: np.ndarray  # which encoded columns held nothing but 0 and 1 in all rows of ``fit``
    order_: int

    def raw_names(self) -> list[str]:
        """The names of the features: those of the data frame, else ``x0``, ``x1`` and so on."""
        check_is_fitted(self, "columns_")
        given = getattr(self, "feature_names_in_", None)
        if given is None:
            return [f"x{number}" for number in range(self.columns_.width)]
        return unique(list(map(str, given)))

    def encoded_names(self) -> list[str]:
        """The names of the polynomial's columns: ``city=Paris`` and ``age is missing`` beside the features' own."""
        raw = self.raw_names()
        return self.columns_.names(raw)

    def variables(self) -> Variables:
        """The names and kinds of the polynomial's columns."""
        raw, columns = self.raw_names(), self.columns_
        zero_or_one = columns.indicators | self.zero_or_one_
        return Variables(columns.names(raw), columns.sources, columns.indicators, zero_or_one, columns.references(raw))

    def formula(self, X: Any = None, *, output: Any = None, center: bool = True, target: str | None = None) -> Formula:
        """The polynomial with the columns' own names and units, its terms ranked by what they explain on the data.

        Products within a column of categories, which are zero, are left out, and powers of columns merged that were 0
        or 1 in all rows of ``fit``: within the range of the data, the formula is the prediction. Of more than
        50,000 terms of one degree, or two million possible ones, the smallest are left out: a warning says so, and
        ``omitted`` of the formula tells how many.

        Args:
            X: The data to rank by; up to 1,000 rows of those given to ``fit`` if left out.
            output: For several targets the number of one, for several classes one of ``classes_``.
            center: Take numbers from their rounded means. Otherwise the terms are products of the columns themselves,
                large numbers of either sign whose sum is small where columns are far from zero.
            target: What to call the left-hand side.
        """
        position, name = self._output(output)
        return read_formula(
            self.module_,
            self.feature_scaling_,
            getattr(self, "target_scaling_", None),
            self.variables(),
            self._rows(X),
            self.sample_,
            target=name if target is None else target,
            output=position,
            center=center,
        )

    def simplify(
        self,
        X: Any,
        y: Any,
        *,
        tolerance: float = 0.01,
        max_terms: int = 40,
        order: int | None = None,
        center: bool = True,
    ) -> Any:
        """The smallest polynomial whose score is at most ``tolerance`` below that of this one, as a fitted estimator.

        Terms are chosen forward and backward, and scored by three-fold cross-validation (R², or for classes the share
        of the log loss that is explained): no fold sees the rows it is scored on. The terms chosen are then fitted to
        all rows without a penalty.

        Args:
            X: Features.
            y: Targets.
            tolerance: How much of the score may be lost.
            max_terms: How many terms to try at most.
            order: The highest degree of a term; this polynomial's if left out.
            center: Choose among products of columns minus their rounded means, or of the columns themselves.

        Returns:
            A copy of the estimator with the polynomial found, and ``path_``, the scores of 1, 2, ... terms.
        """
        check_is_fitted(self, "module_")
        order = self.order_ if order is None else order
        check_between("tolerance", tolerance, 0, low_included=True)
        check_at_least_one("max_terms", max_terms)
        check_at_least_one("order", order)
        X, y, _ = self._check_samples(X, y, None, reset=False)  # type: ignore[attr-defined]
        dense = X.toarray() if hasattr(X, "toarray") else X
        scaling = self._shifted_scaling(center)
        columns = scaling.apply(torch.from_numpy(np.array(dense, dtype=np.float64))).numpy()
        targets, classify = self._columns_of(y), is_classifier(self)  # type: ignore[attr-defined]
        allowed = allowed_products(columns, self.columns_.sources)
        path = score_path(columns, targets, allowed, order=order, most=max_terms, classify=classify)
        reference = max(point.score for point in path)
        if not classify and math.isfinite(getattr(self, "error_", math.nan)):
            reference = max(reference, 1 - self.error_ / targets.shape[1])  # type: ignore[attr-defined]
        size = choose_size(path, reference, tolerance)
        terms = candidate_terms(columns, targets - targets.mean(axis=0), allowed, order)
        basis = terms.values(columns)
        chosen = selection_path(basis, targets - targets.mean(axis=0), max_terms)
        fit = simplified(terms, basis, targets, chosen[min(size, len(chosen)) - 1], classify=classify)
        simple = copy.copy(self)
        for name in ("_optimizer", "_generator", "_made_with"):  # of the network that is replaced
            vars(simple).pop(name, None)
        device = self.feature_scaling_.mean.device
        dtype = next(self.module_.parameters()).dtype
        simple.module_ = network_of_terms(fit, columns.shape[1], dtype).to(device)
        simple.feature_scaling_ = scaling.to(device, dtype)
        simple.zero_or_one_ = self.zero_or_one_ & only_zero_or_one(dense)
        simple.order_, simple.path_ = fit.order, path  # type: ignore[attr-defined]
        simple.solver_, simple.weight_decay_, simple.error_ = "terms", fit.strength, math.nan  # type: ignore[attr-defined]
        return simple

    def intervals(self, X: Any, y: Any, *, level: float = 0.95, center: bool = True) -> Table[Interval]:
        """Intervals for the coefficients of the formula's terms: least squares with the sandwich variance HC3.

        They hold for the terms as they are, not for having been chosen from the same data: give rows that ``simplify``
        has not seen, or take them for a little too narrow. The coefficients of terms that add up to each other in these
        rows, such as a column and its double, cannot be told apart: a warning names them, and their intervals are
        infinite.

        Args:
            X: Features.
            y: One target.
            level: How often an interval should cover the coefficient.
            center: As in ``formula``.
        """
        if is_classifier(self) or self._outputs_count() != 1:
            raise ValueError("intervals are for regressors with one target")
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1, as 0.95 does, got {level!r}")
        formula = self.formula(X, center=center)
        X, y, _ = self._check_samples(X, y, None, reset=False)  # type: ignore[attr-defined]
        self._check_targets(y)  # type: ignore[attr-defined]
        rows = self._clipped(X) - formula.centers
        design = np.column_stack([np.ones(len(rows)), *(rows[:, term.columns].prod(axis=1) for term in formula.terms)])
        scale = np.abs(design).max(axis=0)
        scale[scale == 0] = 1.0
        design = design / scale
        if design.shape[1] >= len(design):
            raise ValueError(f"{design.shape[1]} coefficients need more rows than that, got {len(design)}")
        _, sizes, directions = np.linalg.svd(design, full_matrices=False)
        known = sizes > _COLLINEAR * sizes[0]
        inverse = (directions[known].T / sizes[known] ** 2) @ directions[known]
        coefficients = inverse @ (design.T @ np.ravel(y))
        residual = np.ravel(y) - design @ coefficients
        leverage = np.einsum("ij,jk,ik->i", design, inverse, design)
        weighted = design * (residual / np.maximum(1 - leverage, 1e-12))[:, None]
        error = np.sqrt(np.diag(inverse @ (weighted.T @ weighted) @ inverse)) / scale
        width = stats.t.ppf((1 + level) / 2, len(design) - known.sum()) * error
        open_terms = np.abs(directions[~known]).max(axis=0, initial=0.0) > math.sqrt(_COLLINEAR)
        if open_terms.any():
            width[open_terms] = math.inf
            names = [
                formula.product(term) for term, is_open in zip(formula.terms, open_terms[1:], strict=True) if is_open
            ]
            warnings.warn(
                f"the coefficients of {', '.join(names)} cannot be told apart in these rows, and their intervals are "
                f"infinite: leave columns out that others add up to, or simplify first",
                stacklevel=2,
            )
        found = [
            Interval(term, value, value - half, value + half)
            for term, value, half in zip(formula.terms, (coefficients / scale)[1:].tolist(), width[1:], strict=True)
        ]
        return Table(
            found,
            {
                "term": lambda each: formula.product(each.term),
                "coefficient": lambda each: f"{each.coefficient:+.4g}",
                f"{100 * level:g} % interval": lambda each: f"{each.low:.4g} to {each.high:.4g}",
            },
        )

    def shap_values(self, X: Any, background: Any = None) -> Explanation:
        """Exact interventional Shapley values of predictions, one for each raw column, and of every pair.

        The indicators of one column of categories are one player. No sampling: see :func:`pinets.algebra.shapley`.

        Args:
            X: Rows to explain.
            background: Rows that stand for an absent column; those kept from ``fit`` if left out.
        """
        rows, others = (self._standard_rows(self._rows(each)) for each in (X, background))
        sources = self.columns_.sources
        present, players = np.unique(sources, return_inverse=True)
        found = shapley(self._double(), rows, others, groups=players.tolist())
        scale, shift = self._units()
        names = [self.raw_names()[number] for number in present]
        values, base = found.values.numpy() * scale[:, None], found.base.numpy() * scale + shift
        pairs = found.interactions(2).numpy() * scale[:, None] if found.players > 1 else values[..., :0]
        pair_names = [(names[i], names[j]) for i, j in found.supports(2).tolist()]
        if len(base) == 1:
            values, pairs = values[:, 0], pairs[:, 0]
        return Explanation(values, base, pairs, names, pair_names)

    def integrated_gradients(self, X: Any, baseline: Any = None) -> np.ndarray:
        """Integrated gradients of predictions, exact, summed over the indicators of each raw column.

        Args:
            X: Rows to explain.
            baseline: Rows to start from, over which the result is averaged; those kept from ``fit`` if left out.
        """
        rows, others = (self._standard_rows(self._rows(each)) for each in (X, baseline))
        scale, _ = self._units()
        found = integrated_gradients(self._double(), rows, others).numpy() * scale[:, None]
        sources = self.columns_.sources
        values = np.stack([found[..., sources == number].sum(axis=-1) for number in np.unique(sources)], axis=-1)
        return values[:, 0] if len(scale) == 1 else values

    def monotonic(self, feature: str | int, sign: int = 1, *, output: Any = None, seconds: float = 10.0) -> Monotonic:
        """Decide whether predictions rise with a feature, all over the range of the data: a proof or a counterexample.

        Features beyond that range count as its end, so what holds in it holds for every input.

        Args:
            feature: A column of numbers, by its name or number.
            sign: 1 to ask whether predictions rise, -1 whether they fall.
            output: As in ``formula``.
            seconds: Computing time, at most.
        """
        position, _ = self._output(output)
        names = self.raw_names()
        if isinstance(feature, str) and feature not in names:
            raise ValueError(f"there is no column {feature!r}{did_you_mean(feature, names)}")
        number = names.index(feature) if isinstance(feature, str) else feature
        if not isinstance(number, Integral) or not 0 <= number < len(names):
            raise ValueError(f"feature must be from 0 to {len(names) - 1}, the number of a column, got {number!r}")
        if sign not in (-1, 1):
            raise ValueError(f"sign must be 1 (rises) or -1 (falls), got {sign!r}")
        if number in self.columns_.levels:
            raise ValueError(f"feature must be a column of numbers, got {feature!r}, which holds categories")
        column = int(np.flatnonzero(self.columns_.sources == number)[0])
        scaling = self.feature_scaling_.to("cpu", torch.float64)
        box = self._box(scaling)
        products, coefficients = all_monomials(self._double(), box.low.size, position)
        found = prove(products, coefficients, column, sign, box, seconds)
        scale, mean = scaling.scale.numpy(), scaling.mean.numpy()
        slope = found.slope * float(self._units()[0][position]) / float(scale[column])
        return replace(found, slope=slope, point=None if found.point is None else mean + scale * found.point)

    def _box(self, scaling: Scaling) -> Box:
        low, high = (end.double().numpy() for end in (scaling.low, scaling.high))
        if not (high - low < _NO_RANGE).all():
            raise ValueError("the range of the data is not known: fit with clip='auto' or a number, by fit")
        return Box(low, high, self.columns_.indicators, self.columns_.sources)

    def output_names(self) -> list[str]:
        """The names of the outputs: ``y``, or ``y0``, ``y1`` and so on; for classes, what each output says of which."""
        count = self._outputs_count()
        if is_classifier(self):
            classes = self.classes_.tolist()  # type: ignore[attr-defined]
            return [f"log-odds of {classes[1]}"] if count == 1 else [f"score of {name}" for name in classes]
        return ["y"] if count == 1 else [f"y{number}" for number in range(count)]

    def _output(self, output: Any) -> tuple[int, str]:
        """The position of an output, and its name."""
        names, position = self.output_names(), 0
        if len(names) > 1 and is_classifier(self):
            classes = self.classes_.tolist()  # type: ignore[attr-defined]
            if output not in classes:
                raise ValueError(f"each class has its own formula: output must be one of {classes}, got {output!r}")
            position = classes.index(output)
        elif len(names) > 1:
            if not isinstance(output, Integral) or not 0 <= int(output) < len(names):
                raise ValueError(f"output must be from 0 to {len(names) - 1}, the number of a target; got {output!r}")
            position = int(output)
        return position, names[position]

    def _rows(self, X: Any) -> np.ndarray:
        """Encoded rows within the range of the data: those given, or those kept from ``fit``."""
        check_is_fitted(self, "module_")
        if X is None:
            return self.sample_
        return self._clipped(self._check_columns(X))  # type: ignore[attr-defined]

    def _clipped(self, encoded: Any) -> np.ndarray:
        dense = np.array(encoded.toarray() if hasattr(encoded, "toarray") else encoded, dtype=np.float64)
        scaling = self.feature_scaling_.to("cpu", torch.float64)
        ends = scaling.mean + scaling.scale * torch.stack([scaling.low, scaling.high])
        return np.clip(dense, *ends.numpy())

    def _standard_rows(self, encoded: np.ndarray) -> torch.Tensor:
        return self.feature_scaling_.to("cpu", torch.float64).apply(torch.from_numpy(np.array(encoded)))

    def _double(self) -> Polynomial:
        return copy.deepcopy(self.module_).cpu().double()

    def _outputs_count(self) -> int:
        check_is_fitted(self, "module_")
        head: Any = self.module_.head
        return int(head.out_features)

    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        """The factor and the shift from outputs to the units of predictions."""
        scaling = getattr(self, "target_scaling_", None)
        count = self._outputs_count()
        return (np.ones(count), np.zeros(count)) if scaling is None else (scaling.scale.numpy(), scaling.mean.numpy())

    def _shifted_scaling(self, center: bool) -> Scaling:
        """The scaling with the centers of a formula for means, so that few products stay few when written out."""
        scaling = self.feature_scaling_.to("cpu", torch.float64)
        centers = torch.from_numpy(formula_centers(scaling, self.variables().zero_or_one, center))
        moved = (scaling.mean - centers) / scaling.scale
        return replace(scaling, mean=centers, low=scaling.low + moved, high=scaling.high + moved)
