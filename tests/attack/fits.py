"""Random tables for the estimators: finite predictions or a clear refusal, and the invariances they promise."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from tests.attack.tally import Tally, cases

__all__ = ["attack"]

TOLD = ("X", "y", "sample", "class", "early_stopping", "feature", "column", "infinity", "scale", "finite")
WRONG = ("nan", "infinite", "short", "one class", "negative weight", "no weight", "flat", "text")


@dataclass
class Table:
    """Samples, and whether something in them must be refused."""

    X: Any
    y: Any
    weights: Any
    wrong: str = ""


def attack(seconds: float, seed: int) -> Tally:
    """Fit, and check what must hold whatever the samples are."""
    tally = Tally()
    for name, random in cases(seconds, seed):
        tally.cases += 1
        estimator, table = written(random)
        told = f"{name}: {estimator}, {describe(table)}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(tally, told, estimator, table, random)
        except Exception as error:
            tally.failures.append(f"{told}: {type(error).__name__}: {str(error)[:200]}")
    return tally


def written(random: Random) -> tuple[Any, Table]:
    """An estimator with random parameters, and random samples for it."""
    from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor

    kind = random.choice([PolynomialNetClassifier, PolynomialNetRegressor])
    estimator = kind(
        model=random.choice(["ccp", "ncp", "ncp_skip"]),
        order=random.choice([1, 2, 3]),
        rank=random.choice([1, 4, 16]),
        max_epochs=random.choice([1, 5]),
        batch_size=random.choice(["auto", 1, 7, 1000]),
        weight_decay=random.choice([0.0, 1.0, 10.0]),
        early_stopping=random.random() < 0.2,
        random_state=random.randrange(100),
    )
    numbers = np.random.default_rng(random.randrange(2**32))
    samples, features = random.choice([2, 3, 10, 40]), random.choice([1, 2, 6])
    power = random.choice([0, 0, 3, 30, 150])
    X = numbers.normal(size=(samples, features)) * 10.0 ** numbers.uniform(-power, power, features)
    if random.random() < 0.3:  # far from zero
        X = X + X.std(0) * random.choice([10.0, 1e4])
    if random.random() < 0.2:
        X[:, 0] = random.choice([0.0, 1.0, -3e5])
    if random.random() < 0.1:
        X = np.repeat(X[:1], samples, axis=0)
    if kind is PolynomialNetClassifier:
        labels = np.array(random.choice([["no", "yes"], [-1, 1], [0, 1, 2], ["a", "b", "c", "d"], [False, True]]))
        y = labels[np.arange(samples) % min(len(labels), samples)]
        numbers.shuffle(y)
    else:
        y = numbers.normal(size=random.choice([(samples,), (samples, 1), (samples, 3)]))
        y = y * 10.0 ** random.uniform(-power, power) + random.choice([0.0, 0.0, 1.0])
    weights = random.choice([None, None, np.ones(samples), numbers.uniform(0.1, 5, samples)])
    table = Table(X.astype(np.float32) if power <= 3 and random.random() < 0.3 else X, y, weights)
    if random.random() < 0.2:
        spoil(table, random)
    return estimator, table


def spoil(table: Table, random: Random) -> None:
    """Make a table one that must be refused."""
    table.wrong = random.choice(WRONG)
    if table.wrong in ("nan", "infinite"):
        table.X[0, 0] = np.nan if table.wrong == "nan" else np.inf
    elif table.wrong == "short":
        table.y = table.y[:-1]
    elif table.wrong == "one class":
        table.y = np.repeat(table.y[:1], len(table.y), axis=0)
        table.wrong = "one class" if table.y.dtype.kind in "UbiO" else ""
    elif table.wrong in ("negative weight", "no weight"):
        table.weights = np.full(len(table.X), -1.0 if table.wrong == "negative weight" else 0.0)
    elif table.wrong == "flat":
        table.X = table.X[:, 0]
    else:
        table.X = table.X.astype(object)
        table.X[0, 0] = "many"


def describe(table: Table) -> str:
    kind = f"{np.shape(table.X)} of {np.asarray(table.X).dtype}"
    return f"{kind}, weights {table.weights is not None}{', ' if table.wrong else ''}{table.wrong}"


def check(tally: Tally, told: str, estimator: Any, table: Table, random: Random) -> None:
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    again = clone(estimator)
    tally.check(again.get_params() == estimator.get_params(), f"{told}: a clone has other parameters")
    try:
        estimator.fit(table.X, table.y, table.weights)
    except ValueError as error:
        tally.check(any(word in str(error) for word in TOLD), f"{told}: an unclear refusal: {error}")
        try:
            estimator.predict(np.zeros((1, 1)))
        except (NotFittedError, ValueError):
            return
        tally.failures.append(f"{told}: answers although its fit was refused")
        return
    first = outputs(estimator, table.X)
    check_outputs(tally, told, estimator, table.X, first)
    if table.wrong:
        tags = estimator.__sklearn_tags__().input_tags
        promised = {"nan": tags.allow_nan, "text": tags.categorical or tags.string}
        tally.check(promised.get(table.wrong, False), f"{told}: was not refused")
        return
    same = {
        "the same fit again": outputs(again.fit(table.X, table.y, table.weights), table.X),
        "a pickle of it": outputs(pickle.loads(pickle.dumps(estimator)), table.X),
        "one row at a time": np.concatenate([outputs(estimator, row[None]) for row in table.X]),
    }
    if not estimator.early_stopping:
        # sums in another order round otherwise, which Adam magnifies step by step: compare after the first one
        once = clone(estimator).set_params(max_epochs=1, batch_size=1000)
        rows, columns = (clone(once).fit(X, table.y, table.weights) for X in (table.X, np.asfortranarray(table.X)))
        moved = np.abs(outputs(rows, table.X) - outputs(columns, table.X)).max() / np.abs(outputs(rows, table.X)).max()
        tally.check(moved <= 1e-3, f"{told}: columns one after the other change the first step by {moved:.3g}")
    powers = 2.0 ** np.array([random.randrange(-3, 4) for _ in range(table.X.shape[1])], dtype=table.X.dtype)
    same["features in other units"] = outputs(
        clone(estimator).fit(table.X * powers, table.y, table.weights), table.X * powers
    )
    if table.weights is not None:
        same["twice the weights"] = outputs(clone(estimator).fit(table.X, table.y, 2 * table.weights), table.X)
        if not estimator.early_stopping:
            padded = [np.concatenate([part, part[:2]]) for part in (table.X, table.y)]
            zero = np.concatenate([table.weights, np.zeros(2)])
            same["more samples of weight zero"] = outputs(clone(estimator).fit(*padded, zero), table.X)
    size = np.abs(first).max() + np.abs(first - first.mean(0)).max()
    tolerance = 1e-3 if table.X.dtype == np.float32 else 1e-6
    for what, found in same.items():
        apart = np.abs(found - first).max()
        tally.check(apart <= tolerance * size, f"{told}: {what} is {apart:.3g} apart, of {size:.3g}")
    check_polynomial(tally, told, estimator, table.X, first, size)


def outputs(estimator: Any, X: Any) -> np.ndarray:
    """Probabilities, or predictions."""
    found = estimator.predict_proba(X) if hasattr(estimator, "predict_proba") else estimator.predict(X)
    return np.asarray(found, dtype=np.float64).reshape(len(X), -1)


def check_outputs(tally: Tally, told: str, estimator: Any, X: Any, found: np.ndarray) -> None:
    tally.check(np.isfinite(found).all(), f"{told}: predictions are not finite")
    if hasattr(estimator, "classes_"):
        tally.check((found >= 0).all() and np.allclose(found.sum(1), 1), f"{told}: probabilities do not add up to 1")
        labels = estimator.predict(X)
        tally.check(np.isin(labels, estimator.classes_).all(), f"{told}: predicts a class that does not exist")
        likeliest = found[np.arange(len(labels)), np.searchsorted(estimator.classes_, labels)]
        tally.check((likeliest >= found.max(1) - 1e-6).all(), f"{told}: does not predict the likeliest class")


def check_polynomial(tally: Tally, told: str, estimator: Any, X: Any, first: np.ndarray, size: float) -> None:
    """The polynomial of the raw features gives what the estimator gives, where doubles are precise enough for it."""
    import torch

    if X.dtype == np.float32 or np.abs(X).max() > 1e3 * X.std(0).min():
        return
    with torch.no_grad():
        raw = estimator.to_polynomial()(torch.tensor(X)).numpy()
    expected = estimator.decision_function(X) if hasattr(estimator, "classes_") else first
    if hasattr(estimator, "classes_") and expected.ndim == 1:
        raw = raw[:, -1] - raw[:, 0] if raw.shape[1] == 2 else raw[:, 0]
    apart = np.abs(raw.reshape(expected.shape) - expected).max()
    tally.check(apart <= 1e-5 * max(size, np.abs(expected).max()), f"{told}: to_polynomial is {apart:.3g} apart")
