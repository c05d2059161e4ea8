"""Formulas read from tables: whether planted ones are found, intervals cover, and explanations are fast.

    python benchmarks/formulas.py planted --seeds 5
    python benchmarks/formulas.py coverage --seeds 200
    python benchmarks/formulas.py shapley

Each prints Markdown. Recovery is that of exactly the terms planted, beside the terms that LassoCV on
PolynomialFeatures(3) keeps. Shapley values are compared with the sampling explainers of ``shap``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LassoCV
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from pinets.estimators import PolynomialNetRegressor

ROWS = 600


def plant(
    columns: int, seed: int, *, noise: float, correlated: bool
) -> tuple[np.ndarray, np.ndarray, dict[Any, float]]:
    """A table, a target of four terms of degree one to three with the same variance, and their coefficients."""
    random = np.random.RandomState(seed)
    X = random.normal(size=(ROWS, columns))
    if correlated:
        X = 0.7 * X + 0.7 * random.normal(size=(ROWS, 1))
    terms = sorted({tuple(sorted(random.choice(columns, size=random.randint(1, 4)).tolist())) for _ in range(4)})
    values = np.column_stack([X[:, term].prod(axis=1) for term in terms])
    coefficients = random.choice([-1.0, 1.0], size=len(terms)) / values.std(axis=0)
    y = values @ coefficients
    y = y + noise * y.std() * random.normal(size=ROWS)
    return X, y, dict(zip(terms, coefficients.tolist(), strict=True))


def simplified(X: np.ndarray, y: np.ndarray, noise: float) -> PolynomialNetRegressor:
    """Few terms, out of all products of degree up to three: the first fit only brings the scales."""
    fitted = PolynomialNetRegressor(order=1, clip=None).fit(X, y)
    return fitted.simplify(X, y, order=3, max_terms=8, tolerance=1e-4 if noise == 0 else 2e-3, center=False)


def lasso(X: np.ndarray, y: np.ndarray) -> set[tuple[int, ...]]:
    features = PolynomialFeatures(3, include_bias=False).fit(X)
    basis = StandardScaler().fit_transform(features.transform(X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about convergence
        kept = np.flatnonzero(LassoCV(cv=3, alphas=20, max_iter=2000).fit(basis, y).coef_)
    return {tuple(np.repeat(np.arange(X.shape[1]), features.powers_[position]).tolist()) for position in kept}


def planted(args: argparse.Namespace) -> None:
    print("| columns | noise | correlated | simplify | CPU | LassoCV | CPU |\n|---|---|---|---|---|---|---|")
    cases = [(d, e, c) for d in args.columns for e in (0.0, 0.1) for c in (False, True)]
    for columns, noise, correlated in cases:
        methods: dict[str, Callable[[Any, Any], set[tuple[int, ...]]]] = {
            "simplify": lambda X, y, noise=noise: {  # type: ignore[misc]
                term.columns for term in simplified(X, y, noise).formula(X, center=False).terms
            }
        }
        if columns <= args.lasso:
            methods["LassoCV"] = lasso
        cells = []
        for method in methods.values():
            hits, started = 0, time.process_time()
            for seed in range(args.seeds):
                X, y, truth = plant(columns, seed, noise=noise, correlated=correlated)
                hits += method(X, y) == set(truth)
            cells.append(f"{hits} of {args.seeds} | {(time.process_time() - started) / args.seeds:.1f} s")
        cells += ["not run | "] * (2 - len(cells))
        print(f"| {columns} | {noise:.0%} | {'yes' if correlated else 'no'} | {' | '.join(cells)} |", flush=True)


def coverage(args: argparse.Namespace) -> None:
    print("| noise | terms | intervals | that cover |\n|---|---|---|---|")
    for uneven in (False, True):
        found = {"planted": [0, 0], "chosen from other rows": [0, 0], "chosen from the same rows": [0, 0]}
        for seed in range(args.seeds):
            random = np.random.RandomState(seed)
            X = random.normal(size=(400, 3))
            spread = 0.5 + 0.5 * np.abs(X[:, 0]) if uneven else np.ones(400)
            y = 2 * X[:, 0] - X[:, 1] * X[:, 2] + spread * random.normal(size=400)
            truth = {(0,): 2.0, (1, 2): -1.0}
            base = PolynomialNetRegressor(order=2, clip=None).fit(X[:200], y[:200])
            simple = base.simplify(X[:200], y[:200], tolerance=0.05, max_terms=4, center=False)
            exact = base.simplify(X[:200], X[:200, 0] - X[:200, 1] * X[:200, 2], max_terms=2, center=False)
            for name, net, rows in (
                ("planted", exact, slice(200, 400)),
                ("chosen from other rows", simple, slice(200, 400)),
                ("chosen from the same rows", simple, slice(0, 200)),
            ):
                for each in net.intervals(X[rows], y[rows], center=False):
                    found[name][0] += 1
                    found[name][1] += each.low <= truth.get(each.term.columns, 0.0) <= each.high
        for name, (total, covered) in found.items():
            kind = "grows with a column" if uneven else "even"
            print(f"| {kind} | {name} | {total} | {covered / total:.1%} |", flush=True)


def shapley(args: argparse.Namespace) -> None:
    import shap

    print("| columns | explainer | CPU seconds a row | largest error, in deviations |\n|---|---|---|---|")
    for columns in args.columns:
        X, y, _ = plant(columns, 0, noise=0.1, correlated=True)
        net = PolynomialNetRegressor(order=3, clip=None).fit(X, y)  # predictions are the polynomial everywhere
        background, rows = X[:50], X[100 : 100 + args.rows]
        net.shap_values(rows[:1], background)  # the first call of each imports and compiles
        started = time.process_time()
        exact = net.shap_values(rows, background).values
        cells = [("pinets, exact", time.process_time() - started, 0.0)]
        permutation = shap.explainers.Permutation(net.predict, background, seed=0)
        kernel = shap.KernelExplainer(net.predict, background, seed=0)
        for name, explain in (
            ("shap, permutations", lambda rows, made=permutation: made(rows, silent=True).values),
            ("shap, kernel", lambda rows, made=kernel: made.shap_values(rows, silent=True)),
        ):
            explain(rows[:1])
            started = time.process_time()
            values = np.asarray(explain(rows))
            seconds = time.process_time() - started
            cells.append((name, seconds, float(np.abs(values - exact).max() / net.predict(X).std())))
        for name, seconds, error in cells:
            print(f"| {columns} | {name} | {seconds / args.rows:.4f} | {error:.1e} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    subjects = parser.add_subparsers(required=True)
    for function, seeds in ((planted, 5), (coverage, 200), (shapley, None)):
        subject = subjects.add_parser(function.__name__)
        subject.set_defaults(run=function)
        if seeds:
            subject.add_argument("--seeds", type=int, default=seeds, help="tables")
        if function is planted:
            subject.add_argument("--columns", type=int, nargs="+", default=[10, 30, 100])
            subject.add_argument("--lasso", type=int, default=10, help="columns up to which LassoCV runs")
        if function is shapley:
            subject.add_argument("--columns", type=int, nargs="+", default=[10, 20])
            subject.add_argument("--rows", type=int, default=100, help="rows explained")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
