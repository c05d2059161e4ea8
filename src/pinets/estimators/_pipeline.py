"""The formula of a pipeline: names and units from before its scalers and encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

from pinets.estimators._formula import Formula, Variables, read_formula
from pinets.estimators.base import PolynomialNet

__all__ = ["formula"]


@dataclass(frozen=True)
class _Column:
    """A column as the network sees it: ``scale * (what the name stands for) + shift``."""

    name: str
    scale: float = 1.0
    shift: float = 0.0
    source: str | None = None  # the raw column of an indicator
    reference: Any = None  # its category without an indicator


def formula(
    estimator: Any, X: Any = None, *, output: Any = None, center: bool = True, target: str | None = None
) -> Formula:
    """The formula of a fitted estimator, or of a pipeline that ends with one, in the units of the raw columns.

    Scalers, one-hot encoders, imputers and column transformers of scikit-learn are understood; columns that come from
    anything else keep the names and units they have after it.

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
    references |= {columns[number].name: level for number, level in network.columns_.reference.items()}
    columns, sources, indicators = _encoded(network, columns)
    groups = {source: number for number, source in enumerate(dict.fromkeys(sources))}
    variables = Variables(
        [column.name for column in columns], np.array([groups[source] for source in sources]), indicators, references
    )
    scale = torch.tensor([column.scale for column in columns], dtype=torch.float64)
    shift = torch.tensor([column.shift for column in columns], dtype=torch.float64)
    own = network.feature_scaling_.to("cpu", torch.float64)
    scaling = replace(own, mean=(own.mean - shift) / scale, scale=own.scale / scale)
    rows = network._rows(None if X is None else estimator[:-1].transform(X))
    return read_formula(
        network.module_,
        scaling,
        getattr(network, "target_scaling_", None),
        variables,
        (rows - shift.numpy()) / scale.numpy(),
        target=name if target is None else target,
        output=position,
        center=center,
    )


def _encoded(network: PolynomialNet, columns: list[_Column]) -> tuple[list[_Column], list[Any], np.ndarray]:
    """The columns after the network's own encoding, where each comes from, and which are indicators."""
    names = network.columns_.names([column.name for column in columns])
    own = network.variables().indicators  # of categories and of missing numbers: 0 or 1 whatever came before
    origin = network.columns_.sources.tolist()
    sources = [columns[number].source or number for number in origin]
    encoded = [
        _Column(name) if indicator else columns[number]
        for name, indicator, number in zip(names, own, origin, strict=True)
    ]
    return encoded, sources, own | np.array([column.source is not None for column in encoded])


def _raw_columns(pipeline: Pipeline) -> list[_Column]:
    first = next(step for _, step in pipeline.steps if step not in (None, "passthrough"))
    names = getattr(first, "feature_names_in_", None)
    if names is None:
        names = [f"x{number}" for number in range(first.n_features_in_)]
    return [_Column(str(name)) for name in names]


def _through(transformer: Any, columns: list[_Column]) -> list[_Column]:
    """The columns after a fitted transformer."""
    if transformer in (None, "passthrough"):
        return columns
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            columns = _through(step, columns)
        return columns
    if isinstance(transformer, ColumnTransformer):
        return _through_columns(transformer, columns)
    if isinstance(transformer, OneHotEncoder):
        return _indicators(transformer, columns)
    affine = _affine(transformer, len(columns))
    if affine is not None:
        return [
            replace(column, scale=column.scale * a, shift=column.shift * a + b)
            for column, a, b in zip(columns, *affine, strict=True)
        ]
    if isinstance(transformer, SimpleImputer) and not transformer.add_indicator:
        empty = [not transformer.keep_empty_features and value != value for value in transformer.statistics_]
        return [column for column, dropped in zip(columns, empty, strict=True) if not dropped]
    known = hasattr(transformer, "feature_names_in_")
    names = transformer.get_feature_names_out(None if known else [column.name for column in columns])
    return [_Column(str(name)) for name in names]


def _affine(transformer: Any, count: int) -> tuple[np.ndarray, np.ndarray] | None:
    """What a scaler multiplies by, and what it adds."""
    ones, zeros = np.ones(count), np.zeros(count)
    if isinstance(transformer, StandardScaler):
        scale = ones if transformer.scale_ is None else transformer.scale_
        mean = zeros if transformer.mean_ is None or not transformer.with_mean else transformer.mean_
        return 1 / scale, -mean / scale
    if isinstance(transformer, MinMaxScaler) and not transformer.clip:
        return transformer.scale_, transformer.min_
    if isinstance(transformer, MaxAbsScaler):
        return 1 / transformer.scale_, zeros
    if isinstance(transformer, RobustScaler):
        scale = transformer.scale_ if transformer.with_scaling else ones
        return 1 / scale, -(transformer.center_ if transformer.with_centering else zeros) / scale
    return None


def _indicators(encoder: OneHotEncoder, columns: list[_Column]) -> list[_Column]:
    if encoder.min_frequency is not None or encoder.max_categories is not None:  # some categories were merged
        names = encoder.get_feature_names_out([column.name for column in columns])
        owners = [
            max((c for c in columns if name.startswith(f"{c.name}_")), key=lambda c: len(c.name)) for name in names
        ]
        return [
            _Column(f"{owner.name}={name.removeprefix(f'{owner.name}_')}", source=owner.name)
            for name, owner in zip(names, owners, strict=True)
        ]
    out = []
    dropped = encoder.drop_idx_ if encoder.drop_idx_ is not None else [None] * len(columns)
    for column, categories, drop in zip(columns, encoder.categories_, dropped, strict=True):
        levels: Sequence[Any] = [level for position, level in enumerate(categories) if position != drop]
        reference = None if drop is None else categories[drop]
        out += [_Column(f"{column.name}={level}", source=column.name, reference=reference) for level in levels]
    return out


def _through_columns(transformer: ColumnTransformer, columns: list[_Column]) -> list[_Column]:
    names = [column.name for column in columns]
    out: list[_Column] = []
    for _, step, chosen in transformer.transformers_:
        if step == "drop":
            continue
        positions = _positions(chosen, names)
        if positions:
            out += _through(step, [columns[position] for position in positions])
    return out


def _positions(chosen: Any, names: list[str]) -> list[int]:
    if isinstance(chosen, str):
        return [names.index(chosen)]
    if isinstance(chosen, slice):
        return list(range(len(names)))[chosen]
    chosen = list(np.atleast_1d(np.asarray(chosen, dtype=object)))
    if chosen and all(isinstance(item, (bool, np.bool_)) for item in chosen):
        return [position for position, flag in enumerate(chosen) if flag]
    return [names.index(item) if isinstance(item, str) else int(item) for item in chosen]
