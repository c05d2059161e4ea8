"""Raw columns as numbers: categories become indicators, missing values the mean and an indicator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

__all__ = [
    "MOST_LEVELS",
    "Columns",
    "categorical_positions",
    "has_missing",
    "is_frame",
    "numbers",
    "only_zero_or_one",
    "unique",
]

MOST_LEVELS = 255  # categories in a column
MISSING = "missing"  # the word for missing values in names; as a category they are None


def is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "iloc")


def has_missing(X: Any) -> bool:
    """Whether a number or a category is missing."""
    if is_frame(X):
        return bool(X.isna().to_numpy().any())
    if X.dtype == object:
        return any(value is None or value != value for value in X.ravel().tolist())
    return bool(X.dtype.kind == "f" and np.isnan(X).any())


def categorical_positions(X: Any, wanted: Any) -> list[int]:
    """The numbers of the columns that hold categories.

    Args:
        X: A data frame or an array.
        wanted: ``"auto"`` (columns of a data frame that hold categories or texts), ``None`` (no column), or a list of
            names, of numbers or of flags.
    """
    if isinstance(wanted, str):
        if wanted != "auto":
            raise ValueError(f"categorical_features must be 'auto', None or a list, got {wanted!r}")
        return [number for number in range(X.shape[1]) if _holds_categories(X.iloc[:, number])] if is_frame(X) else []
    if wanted is None:
        return []
    if len(X.shape) != 2:
        raise ValueError(f"X must have rows and columns, got the shape {X.shape}")
    wanted = list(np.asarray(wanted).ravel().tolist())
    width = X.shape[1]
    if wanted and all(isinstance(item, bool) for item in wanted):
        if len(wanted) != width:
            raise ValueError(f"categorical_features must have one flag for each of {width} columns, got {len(wanted)}")
        return [number for number, flag in enumerate(wanted) if flag]
    names = list(map(str, X.columns)) if is_frame(X) else []
    found = []
    for item in wanted:
        if isinstance(item, str) and item in names:
            found.append(names.index(item))
        elif isinstance(item, Integral) and 0 <= int(item) < width:
            found.append(int(item))
        else:
            raise ValueError(f"categorical_features names the column {item!r}, which X does not have")
    return sorted(set(found))


def _holds_categories(column: Any) -> bool:
    kind = str(column.dtype)
    if kind == "category" or kind.startswith("str"):
        return True
    if kind != "object":
        return False
    if any(isinstance(value, str) for value in column):  # texts of digits too, as postcodes are
        return True
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return True
    return False


@dataclass
class Columns:
    """The encoding of raw columns as columns of the polynomial, learnt from the samples of ``fit``.

    A column of categories becomes an indicator (0 or 1) for each of its categories but the most frequent, which is the
    reference. A category that ``fit`` has not seen counts as the reference. Missing categories are a category of their
    own, None. A missing number counts as the column's mean, and where ``fit`` saw some, an indicator says so.
    """

    width: int  # of the raw table
    levels: dict[int, list[Any]]  # for every column of categories, by its number, those that have an indicator
    reference: dict[int, Any]  # for every column of categories the one that has none
    fill: dict[int, float]  # the means of the other columns, by number
    flagged: list[int]  # the columns with an indicator of missing values

    @classmethod
    def learn(cls, X: Any, categorical: Sequence[int], share: np.ndarray | None = None) -> Columns:
        """Learn from raw columns; rows count by their share of the weight."""
        levels: dict[int, list[Any]] = {}
        reference: dict[int, Any] = {}
        fill: dict[int, float] = {}
        flagged: list[int] = []
        width = X.shape[1]
        if sparse.issparse(X):
            if categorical:
                raise ValueError(f"a sparse matrix holds numbers alone, but categorical_features names {categorical}")
            return cls(width, levels, reference, fill, flagged)
        for number in range(width):
            if number in categorical:
                codes, categories = _categories(_column(X, number))
                tally = np.bincount(codes, minlength=len(categories)).tolist()
                counts = Counter({level: count for level, count in zip(categories, tally, strict=True) if count})
                if len(counts) > MOST_LEVELS:
                    raise ValueError(
                        f"column {_name(X, number)} has {len(counts)} categories, and at most {MOST_LEVELS} are "
                        f"accepted: leave it out, or merge rare ones"
                    )
                ordered = sorted(counts, key=lambda level: (-counts[level], _label(level)))
                reference[number], levels[number] = ordered[0], sorted(ordered[1:], key=_label)
            else:
                values = numbers(X, number)
                missing = np.isnan(values)
                if missing.any():
                    flagged.append(number)
                    known = values[~missing]
                    weights = None if share is None else share[~missing]
                    fill[number] = float(np.average(known, weights=weights)) if len(known) else 0.0
        return cls(width, levels, reference, fill, flagged)

    def encode(self, X: Any, fill: np.ndarray | None = None) -> Any:
        """The columns of the polynomial, as an array (or the sparse matrix given).

        Args:
            X: Raw columns, as many as were learnt from.
            fill: For every raw column the value of missing numbers where ``learn`` saw none.
        """
        if sparse.issparse(X):
            return X
        if not self.levels and not self.flagged and not is_frame(X):
            holes = np.isnan(X)
            return np.where(holes, 0.0 if fill is None else fill, X).astype(X.dtype) if holes.any() else X
        encoded = []
        for number in range(self.width):
            if number in self.levels:
                codes, categories = _categories(_column(X, number))
                learnt = {level: code for code, level in enumerate(self.levels[number])}
                found = np.array([learnt.get(level, -1) for level in categories])[codes]
                encoded += [found == code for code in range(len(learnt))]
                continue
            values = numbers(X, number)
            missing = np.isnan(values)
            if missing.any():
                known = self.fill.get(number, 0.0 if fill is None else float(fill[number]))
                values = np.where(missing, known, values)
            encoded.append(values)
            if number in self.flagged:
                encoded.append(missing)
        return np.column_stack(encoded).astype(np.float64) if encoded else np.zeros((len(X), 0))

    def names(self, raw: Sequence[str]) -> list[str]:
        """The names of the encoded columns: ``city=Paris``, ``age is missing``. No two are equal."""
        out = []
        for number, name in enumerate(raw):
            if number in self.levels:
                out += [f"{name}={label}" for label in self.labels(number)[1:]]
            else:
                out.append(name)
                if number in self.flagged:
                    out.append(f"{name} is {MISSING}")
        return unique(out, last=self.indicators)

    def labels(self, number: int) -> list[str]:
        """The labels of a column's categories, the reference first; 1 and "1" become ``1`` and ``'1'``."""
        levels = [self.reference[number], *self.levels[number]]
        plain = list(map(_label, levels))
        return plain if len(set(plain)) == len(plain) else [_label(level, repr) for level in levels]

    def references(self, raw: Sequence[str]) -> dict[str, str]:
        """For the names of columns of categories, what their reference is called."""
        return {raw[number]: self.labels(number)[0] for number in self.reference}

    @property
    def indicators(self) -> np.ndarray:
        """Which encoded columns are indicators, of a category or of missing numbers."""
        return np.array([indicator for _, indicator in self._layout()], dtype=bool)

    @property
    def sources(self) -> np.ndarray:
        """For every encoded column the number of the raw one: columns of one source are never multiplied."""
        return np.array([number for number, _ in self._layout()], dtype=np.intp)

    def _layout(self) -> Iterator[tuple[int, bool]]:
        """For every encoded column the number of the raw one, and whether it is an indicator."""
        for number in range(self.width):
            if number in self.levels:
                yield from [(number, True)] * len(self.levels[number])
            else:
                yield number, False
                if number in self.flagged:
                    yield number, True


def unique(names: Sequence[str], last: Any = ()) -> list[str]:
    """The names with a number after those that others have already.

    >>> unique(["age", "age", "city=Rome", "city=Rome"], last=[False, False, True, False])
    ['age', 'age (2)', 'city=Rome (2)', 'city=Rome']

    Args:
        names: Any names.
        last: Flags: whether a name yields to an equal one that does not.
    """
    out: list[str] = list(names)
    used: set[str] = set()
    for position in sorted(range(len(out)), key=lambda position: bool(len(last) and last[position])):
        count = 1
        while out[position] in used:
            count += 1
            out[position] = f"{names[position]} ({count})"
        used.add(out[position])
    return out


def only_zero_or_one(columns: Any) -> np.ndarray:
    """Which columns, dense or sparse, hold nothing but 0 and 1."""
    if not sparse.issparse(columns):
        return np.asarray(((columns == 0) | (columns == 1)).all(axis=0))
    entries = columns.copy()
    entries.sum_duplicates()
    others = entries.indices[(entries.data != 0) & (entries.data != 1)]
    return np.bincount(others, minlength=entries.shape[1]) == 0


def _label(level: Any, write: Callable[[Any], str] = str) -> str:
    return MISSING if level is None else write(level)


def _column(X: Any, number: int) -> Any:
    return X.iloc[:, number] if is_frame(X) else X[:, number]


def _name(X: Any, number: int) -> str:
    return repr(str(X.columns[number])) if is_frame(X) else str(number)


def _categories(column: Any) -> tuple[np.ndarray, list[Any]]:
    """The categories of a column, and for every row the number of its own; all that are missing are one."""
    if hasattr(column, "factorize"):
        codes, found = column.factorize()
        categories = found.tolist()
    else:
        values = np.asarray(column, dtype=object).tolist()
        numbers: dict[Any, int] = {}
        codes = np.array(
            [-1 if value is None or value != value else numbers.setdefault(value, len(numbers)) for value in values],
            dtype=np.intp,
        )
        categories = list(numbers)
    return np.where(codes < 0, len(categories), codes), [*categories, None]


def numbers(X: Any, number: int) -> np.ndarray:
    """A column as numbers, missing ones as NaN."""
    column = _column(X, number)
    try:
        if column.dtype.kind in "mMc":  # numpy would take dates for numbers, and missing ones for the year 1677
            raise TypeError(f"its type is {column.dtype}")
        if hasattr(column, "to_numpy"):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {_name(X, number)} is not numeric ({error}): convert it to numbers, a date to days for instance, "
            f"or name it in categorical_features"
        ) from error
    if np.isinf(values).any():
        raise ValueError(f"column {_name(X, number)} of X contains infinity")
    return values
