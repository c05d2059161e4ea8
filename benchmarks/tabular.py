"""The estimators beside scikit-learn's, EBM and pyGAM on twelve real tables: the same folds for all.

Every method is scored by cross-validation (R² or accuracy). Methods that do not choose their settings themselves choose
among two to four by one split of a fifth within the training part, and are fitted again with the best; the test folds
are never looked at. Large tables are sub-sampled to ``--rows``. What is measured is appended to ``--out`` at once, and
what is there already is not measured again. Prints Markdown:

    python benchmarks/tabular.py --data ../data/tables
    python benchmarks/tabular.py --data ../data/tables --tables california adult --rows 100000 --folds 1
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from sklearn.compose import TransformedTargetRegressor, make_column_selector, make_column_transformer
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor

REGRESSION = {
    "california": "median_house_value",
    "diamonds": "price",
    "mpg": "mpg",
    "abalone": "rings",
    "winequality-red": "quality",
    "winequality-white": "quality",
}
CLASSIFICATION = {
    "adult": "income",
    "german": "bad",
    "pima-indians-diabetes": "diabetes",
    "ionosphere": "good",
    "banknote_authentication": "forged",
    "penguins": "species",
}
NAMES_ONLY = {"mpg": ["name"]}  # a different text in every row
READABLE = ("pinets", "Ridge-poly", "EBM", "GAM")  # yield a formula or an additive model
MOST_COLUMNS = 700  # of PolynomialFeatures
SEED = 0  # of the methods


def load(folder: Path, name: str, rows: int, seed: int) -> tuple[pandas.DataFrame, np.ndarray]:
    files = [folder / f"{part}.csv" for part in (("adult-train", "adult-test") if name == "adult" else (name,))]
    table = pandas.concat([pandas.read_csv(file, na_values=["?"], skipinitialspace=True) for file in files])
    table = table.sample(min(rows, len(table)), random_state=seed).reset_index(drop=True)
    target = {**REGRESSION, **CLASSIFICATION}[name]
    y = table.pop(target).to_numpy()
    return table.drop(columns=NAMES_ONLY.get(name, [])), y if name in REGRESSION else y.astype(str)


def encoded(*last: Any, scale: bool = True) -> Any:
    """A pipeline with categories as indicators, missing numbers as means, and numbers standardised."""
    numbers = [SimpleImputer(keep_empty_features=True), *([StandardScaler()] if scale else [])]
    before = make_column_transformer(
        (make_pipeline(*numbers), make_column_selector(dtype_include=np.number)),
        (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False, min_frequency=5),
            make_column_selector(dtype_exclude=np.number),
        ),
    )
    return make_pipeline(before, *last)


def methods(regression: bool, X: pandas.DataFrame) -> dict[str, Callable[[], Any]]:
    """Fresh estimators by name; those with settings to choose are searches."""
    width = encoded().fit(X).transform(X).shape[1]
    degrees = [
        degree
        for degree in (1, 2, 3)
        if PolynomialFeatures(degree).fit(np.zeros((1, width))).n_output_features_ <= MOST_COLUMNS
    ]
    inner = (ShuffleSplit if regression else StratifiedShuffleSplit)(1, test_size=0.2, random_state=SEED)

    def search(pipeline: Any, **candidates: list[Any]) -> Any:
        return GridSearchCV(pipeline, candidates, cv=inner)

    def polynomial() -> Any:
        features = PolynomialFeatures(include_bias=False)
        if regression:
            pipeline = encoded(features, StandardScaler(), Ridge())
            return search(pipeline, polynomialfeatures__degree=degrees, ridge__alpha=[1.0, 100.0])
        pipeline = encoded(features, StandardScaler(), LogisticRegression(max_iter=300))
        return search(pipeline, polynomialfeatures__degree=degrees, logisticregression__C=[0.01, 1.0])

    def mlp() -> Any:
        if regression:
            network = MLPRegressor(early_stopping=True, random_state=SEED)
            return TransformedTargetRegressor(encoded(network), transformer=StandardScaler())
        return encoded(MLPClassifier(early_stopping=True, random_state=SEED))

    def boosting() -> Any:
        made = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
        return made(random_state=SEED, categorical_features="from_dtype")

    def ebm() -> Any:
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

        made = ExplainableBoostingRegressor if regression else ExplainableBoostingClassifier
        return made(random_state=SEED, n_jobs=1, outer_bags=4)

    def gam() -> Any:
        from pygam import LinearGAM, LogisticGAM

        return encoded(LinearGAM() if regression else LogisticGAM(), scale=False)

    def own() -> Any:
        return PolynomialNetRegressor() if regression else PolynomialNetClassifier()

    return {"pinets": own, "Ridge-poly": polynomial, "MLP": mlp, "HGB": boosting, "EBM": ebm, "GAM": gam}


def one_fold(estimator: Any, X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> tuple[float, float]:
    """The score on a fold, and the CPU seconds of one thread that the fit took."""
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peers, about convergence and rare categories
        estimator.fit(X.iloc[train], y[train])
        seconds = time.process_time() - started
        predicted = np.asarray(estimator.predict(X.iloc[test]))
    if y.dtype.kind == "f" or y.dtype.kind == "i":
        return 1 - float(((y[test] - predicted) ** 2).mean() / y[test].var()), seconds
    return float((predicted.astype(str) == y[test]).mean()), seconds


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    known = [json.loads(line) for line in args.out.read_text().splitlines()] if args.out.exists() else []
    done = {(row["table"], row["method"], row["rows"], row["folds"], row["seed"]) for row in known}
    for table in args.tables:
        regression = table in REGRESSION
        X, y = load(args.data, table, args.rows, args.seed)
        categories = X.select_dtypes(exclude=np.number).columns
        X = X.astype(dict.fromkeys(categories, "category"))
        folds = list(
            (KFold if regression else StratifiedKFold)(max(5, args.folds), shuffle=True, random_state=args.seed).split(
                X, y
            )
        )
        made = {"dummy": DummyRegressor if regression else DummyClassifier, **methods(regression, X)}
        for method, make in made.items():
            if (table, method, len(y), args.folds, args.seed) in done or (
                args.methods and method not in (*args.methods, "dummy")
            ):
                continue
            if method == "GAM" and not regression and len(np.unique(y)) > 2:
                continue  # pyGAM has no more than two classes
            plain = X.astype(dict.fromkeys(categories, object)) if method != "HGB" else X
            labels = y if method != "GAM" or regression else (y == np.unique(y)[1]).astype(int)
            try:
                outcomes = [one_fold(make(), plain, labels, *fold) for fold in folds[: args.folds]]
            except Exception as error:
                print(f"{table}: {method} failed ({type(error).__name__}: {str(error)[:100]})", flush=True)
                continue
            scores, seconds = zip(*outcomes, strict=True)
            row = {"table": table, "method": method, "rows": len(y), "folds": args.folds, "seed": args.seed}
            row |= {
                "score": float(np.mean(scores)),
                "deviation": float(np.std(scores)),
                "seconds": float(np.mean(seconds)),
            }
            known.append(row)
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(
                f"{table:24} {method:12} {row['score']:.4f} ± {row['deviation']:.4f}  {row['seconds']:.2f} s",
                flush=True,
            )
    wanted = {(row["table"], row["method"]): row for row in known if row["seed"] == args.seed}
    return [row for row in wanted.values() if row["table"] in args.tables]


def report(found: list[dict[str, Any]]) -> str:
    """Scores by table, and over the tables with all methods the mean rank and the mean normalised score."""
    tables = list(dict.fromkeys(row["table"] for row in found))
    names = [name for name in dict.fromkeys(row["method"] for row in found) if name != "dummy"]
    score = {(row["table"], row["method"]): row["score"] for row in found}
    seconds = {(row["table"], row["method"]): row["seconds"] for row in found}
    lines = [f"| table | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for table in tables:
        best = max(score.get((table, name), -np.inf) for name in names)
        cells = []
        for name in names:
            value = score.get((table, name))
            text = "" if value is None else f"{value:.3f}, {seconds[table, name]:.2f} s"
            cells.append(f"**{text}**" if value == best else text)
        lines.append(f"| {table} | {' | '.join(cells)} |")
    for group, title in ((names, "of all"), ([name for name in names if name in READABLE], "of readable methods")):
        shared = [table for table in tables if all((table, name) in score for name in group)]
        cells = []
        for name in names:
            ranks = [1 + sum(score[table, other] > score.get((table, name), 0) for other in group) for table in shared]
            cells.append(f"{np.mean(ranks):.2f}" if name in group and shared else "")
        lines.append(f"| mean rank {title}, {len(shared)} tables | {' | '.join(cells)} |")
    cells = []
    for name in names:
        parts = []
        for table in tables:
            if (table, name) in score:
                nothing, best = score[table, "dummy"], max(score.get((table, other), -np.inf) for other in names)
                parts.append((score[table, name] - nothing) / (best - nothing))
        cells.append(f"{np.mean(parts):.3f}")
    lines.append(f"| mean normalised score | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/tables"), help="the folder of the tables")
    parser.add_argument(
        "--tables", nargs="+", choices=[*REGRESSION, *CLASSIFICATION], default=[*REGRESSION, *CLASSIFICATION]
    )
    parser.add_argument("--methods", nargs="+", help="only these methods")
    parser.add_argument("--rows", type=int, default=2000, help="rows of a table, at most")
    parser.add_argument("--folds", type=int, default=5, help="folds that are scored")
    parser.add_argument("--out", type=Path, default=Path("tabular.jsonl"), help="what was measured, one line each")
    parser.add_argument("--seed", type=int, default=1, help="of the rows and folds; the defaults were made with others")
    print(report(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
