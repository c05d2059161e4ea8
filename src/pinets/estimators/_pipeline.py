"""The formula of a pipeline: names and units from before its scalers and encoders."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from pinets.estimators._formula import Formula, Variables, read_formula
from pinets.estimators.base import PolynomialNet
from pinets.estimators.columns import MISSING, unique

__all__ = ["formula"]


@dataclass(frozen=True)
class _Column:
    """A column as the network sees it: ``scale * (what the name stands for) + shift``."""

    name: str
    scale: float = 1.0
    shift: float = 0.0
    source: str | None = None  # the raw column of an indicator
    encoder: int | None = None  # and what made it: two encoders may take one column
    reference: Any = None  # its category without an indicator
    origin: Any = field(default_factory=object)  # columns of one origin stand for the same

    @property
    def raw(self) -> bool:
        """Whether the column is not scaled."""
        return self.scale == 1 and self.shift == 0

    @property
    def own_name(self) -> str:
        """The name of the column, with "scaled" before it if it is."""
        return self.name if self.raw else f"scaled {self.name}"


def formula(
    estimator: Any, X: Any = None, *, output: Any = None, center: bool = True, target: str | None = None
) -> Formula:
    """The formula of a fitted estimator, or of a pipeline that ends with one, in the units of the raw columns.

    Scalers, one-hot encoders, imputers, selectors, column transformers and unions of scikit-learn are understood.
    Columns that come from anything else have the units they have after it, and names that say so, such as
    ``age after QuantileTransformer`` or ``scaled age^2``.

    Args:
        estimator: A fitted :class:`~pinets.estimators.PolynomialNetRegressor`,
            :class:`~pinets.estimators.PolynomialNetClassifier`, or a pipeline.
        X: Raw data to rank the terms by; rows kept from ``fit`` if left out.
        output: For several targets the number of one, for several classes one of ``classes_``.
        center: Take numbers from their rounded means.
        target: What to call the left-hand side.

    Example:
        >>> from pinets.estimators import PolynomialNetRegressor
        >>> from sklearn.pipeline import make_pipeline
        >>> X = np.random.RandomState(0).uniform(1, 2, size=(200, 2))
        >>> pipeline = make_pipeline(StandardScaler(), PolynomialNetRegressor()).fit(X, 3 * X[:, 0] * X[:, 1])
        >>> formula(pipeline, center=False).top(1).text()
        'y = ... 3 * x0 * x1'
    """
    if not isinstance(estimator, Pipeline):
        if not isinstance(estimator, PolynomialNet):
            raise TypeError(f"formula takes an estimator of pinets or a pipeline, got {type(estimator).__name__}")
        return estimator.formula(X, output=output, center=center, target=target)
    *before, (_, network) = estimator.steps
    if not isinstance(network, PolynomialNet):
        raise TypeError(f"the pipeline must end with an estimator of pinets, not with {type(network).__name__}")
    position, name = network._output(output)
    columns = _raw_columns(estimator)
    for _, transformer in before:
        columns = _through(transformer, columns)
    references = {str(column.source): column.reference for column in columns if column.reference is not None}
    references |= network.columns_.references(_names_before(network, columns))
    columns, sources, indicators = _encoded(network, columns)
    groups = {source: number for number, source in enumerate(dict.fromkeys(sources))}
    variables = Variables(
        [column.name for column in columns],
        np.array([groups[source] for source in sources]),
        indicators,
        indicators | network.zero_or_one_ & np.array([column.raw for column in columns]),
        references,
    )
    scale = torch.tensor([column.scale for column in columns], dtype=torch.float64)
    shift = torch.tensor([column.shift for column in columns], dtype=torch.float64)
    own = network.feature_scaling_.to("cpu", torch.float64)
    scaling = replace(own, mean=(own.mean - shift) / scale, scale=own.scale / scale)
    rows, sample = (
        (each - shift.numpy()) / scale.numpy()
        for each in (network._rows(None if X is None else estimator[:-1].transform(X)), network.sample_)
    )
    return read_formula(
        network.module_,
        scaling,
        getattr(network, "target_scaling_", None),
        variables,
        rows,
        sample,
        target=name if target is None else target,
        output=position,
        center=center,
    )


def _encoded(network: PolynomialNet, columns: list[_Column]) -> tuple[list[_Column], list[Any], np.ndarray]:
    """The columns after the network's own encoding, where each comes from, and which are indicators."""
    names = network.columns_.names(_names_before(network, columns))
    own = network.columns_.indicators  # of categories and of missing numbers: 0 or 1 whatever came before
    origin = network.columns_.sources.tolist()
    sources = [(columns[number].source, columns[number].encoder or number) for number in origin]
    known: dict[Any, str] = {}
    encoded = [
        _Column(name) if indicator else replace(columns[number], name=known.setdefault(columns[number].origin, name))
        for name, indicator, number in zip(names, own, origin, strict=True)
    ]
    return encoded, sources, own | np.array([column.source is not None for column in encoded])


def _names_before(network: PolynomialNet, columns: list[_Column]) -> list[str]:
    """The names of the columns that the network encodes; categories are those of the column itself."""
    levels = network.columns_.levels
    return [column.own_name if number in levels else column.name for number, column in enumerate(columns)]


def _raw_columns(pipeline: Pipeline) -> list[_Column]:
    first = next(step for _, step in pipeline.steps if step not in (None, "passthrough"))
    names = getattr(first, "feature_names_in_", None)
    if names is None:
        names = [f"x{number}" for number in range(first.n_features_in_)]
    return [_Column(name, origin=number) for number, name in enumerate(unique(list(map(str, names))))]


def _through(transformer: Any, columns: list[_Column]) -> list[_Column]:
    """The columns after a fitted transformer."""
    if transformer in (None, "passthrough"):
        return columns
    if isinstance(transformer, FunctionTransformer) and transformer.func is None:  # how sklearn passes columns through
        return columns
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            columns = _through(step, columns)
        return columns
    if isinstance(transformer, (ColumnTransformer, FeatureUnion)):
        return _through_parts(transformer, columns)
    if isinstance(transformer, SelectorMixin):
        return [columns[position] for position in transformer.get_support(indices=True)]
    if hasattr(transformer, "add_indicator"):  # an imputer: scikit-learn has no public class of them all
        return _imputed(transformer, columns)
    if isinstance(transformer, OneHotEncoder):
        return _indicators(transformer, columns)
    affine = _affine(transformer, len(columns))
    if affine is not None:
        return [
            replace(column, scale=column.scale * a, shift=column.shift * a + b)
            for column, a, b in zip(columns, *affine, strict=True)
        ]
    before = [column.own_name for column in columns]
    kind = type(transformer).__name__
    return [_Column(f"{name} after {kind}" if name in before else name) for name in _names_out(transformer, before)]


def _names_out(transformer: Any, names: Sequence[str]) -> list[str]:
    """The names after a transformer of columns that have these before it, whatever ``fit`` called them."""
    nameless = copy.copy(transformer)
    vars(nameless).pop("feature_names_in_", None)
    return list(map(str, nameless.get_feature_names_out(names)))


def _imputed(imputer: Any, columns: list[_Column]) -> list[_Column]:
    """The columns that an imputer keeps, and its indicators of missing values."""
    prefix = "missingindicator_"
    numbers = _names_out(imputer, [str(number) for number in range(len(columns))])
    return [
        _Column(f"{columns[int(number.removeprefix(prefix))].name} is {MISSING}")
        if number.startswith(prefix)
        else columns[int(number)]
        for number in numbers
    ]


def _affine(transformer: Any, count: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The factor and the shift of a scaler; None if it is not affine."""
    ones, zeros = np.ones(count), np.zeros(count)
    if isinstance(transformer, StandardScaler):
        scale = ones if transformer.scale_ is None else transformer.scale_
        mean = zeros if transformer.mean_ is None or not transformer.with_mean else transformer.mean_
        return 1 / scale, -mean / scale
    if isinstance(transformer, MinMaxScaler):  # one that clips does so outside the range of the data
        return transformer.scale_, transformer.min_
    if isinstance(transformer, MaxAbsScaler):
        return 1 / transformer.scale_, zeros
    if isinstance(transformer, RobustScaler):
        scale = transformer.scale_ if transformer.with_scaling else ones
        return 1 / scale, -(transformer.center_ if transformer.with_centering else zeros) / scale
    return None


def _indicators(encoder: OneHotEncoder, columns: list[_Column]) -> list[_Column]:
    if encoder.min_frequency is not None or encoder.max_categories is not None:  # some categories were merged
        names = _names_out(encoder, [f"{number}" for number in range(len(columns))])
        return [
            _Column(
                f"{columns[int(number)].own_name}={level}", source=columns[int(number)].own_name, encoder=id(encoder)
            )
            for number, _, level in (name.partition("_") for name in names)
        ]
    out = []
    dropped = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(columns)
    for column, categories, drop in zip(columns, encoder.categories_, dropped, strict=True):
        levels: Sequence[Any] = [level for position, level in enumerate(categories) if position != drop]
        reference = None if drop is None else categories[drop]
        name = column.own_name
        any_level = _Column(name, source=name, encoder=id(encoder), reference=reference)
        out += [replace(any_level, name=f"{name}={level}", origin=(column.origin, name, level)) for level in levels]
    return out


def _through_parts(transformer: ColumnTransformer | FeatureUnion, columns: list[_Column]) -> list[_Column]:
    """The columns after transformers side by side."""
    if isinstance(transformer, FeatureUnion):
        parts = [(name, step, columns) for name, step in transformer.transformer_list]
    else:
        chosen = transformer._transformer_to_input_indices
        parts = [(name, step, [columns[n] for n in chosen[name]]) for name, step, _ in transformer.transformers_]
    out: list[_Column] = []
    for name, step, given in parts:
        if step == "drop" or not given:
            continue
        weight = (transformer.transformer_weights or {}).get(name) or 1.0
        found = _through(step, given)
        out += [replace(column, scale=column.scale * weight, shift=column.shift * weight) for column in found]
    return out
