"""The estimators beside scikit-learn's on its bundled data sets: the same folds and the same tuning budget for all.

Every method is scored by 5-fold cross-validation. In each fold, it chooses among four candidate settings by 3-fold
cross-validation within the training part (one split of a fifth where there are more than a thousand samples), and is
fitted again with the best. Prints a Markdown table and then the same as JSON:

    python benchmarks/tabular.py
    python benchmarks/tabular.py --data wine diabetes
    python benchmarks/tabular.py --data california    # downloaded by scikit-learn
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any
from urllib.error import URLError

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn import datasets
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor

LOADERS = {
    "diabetes": datasets.load_diabetes,
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
    "california": datasets.fetch_california_housing,
}
REGRESSION = ("diabetes", "california")
BUNDLED = ("diabetes", "breast cancer", "wine", "digits")
MOST_COLUMNS = 6000  # of PolynomialFeatures; degree 3 of digits would have 47,905
FOLDS, SEED = 5, 0


@dataclass(frozen=True)
class Result:
    """One method on one data set: R² or accuracy over the folds, and CPU seconds to tune and fit in a fold."""

    data: str
    method: str
    mean: float
    deviation: float
    seconds: float
    chosen: list[dict[str, Any]]


def methods(regression: bool, features: int) -> dict[str, tuple[Any, dict[str, list[Any]]]]:
    """Estimators with four candidate settings each; docs/estimators.md says how these were placed."""
    columns = {degree: PolynomialFeatures(degree).fit(np.zeros((1, features))).n_output_features_ for degree in (2, 3)}
    degrees = [degree for degree, count in columns.items() if count <= MOST_COLUMNS]
    net = {"order": [2, 3], "weight_decay": [1.0, 3.0]}
    mlp = {"alpha": [0.01, 1.0], "learning_rate_init": [0.001, 0.01]}
    boosting = {"learning_rate": [0.05, 0.1], "max_leaf_nodes": [7, 31]}
    if regression:
        expanded = make_pipeline(StandardScaler(), PolynomialFeatures(include_bias=False), StandardScaler(), Ridge())
        return {
            "PolynomialNetRegressor": (PolynomialNetRegressor(random_state=SEED), net),
            "Ridge": (make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [1.0, 10.0, 100.0, 1000.0]}),
            f"Ridge on PolynomialFeatures({_either(degrees)})": (
                expanded,
                {
                    "polynomialfeatures__degree": degrees,
                    "ridge__alpha": [100.0, 300.0] if len(degrees) == 2 else [10.0, 30.0, 100.0, 300.0],
                },
            ),
            "MLPRegressor": (
                # its targets are standardised too, as ours are
                TransformedTargetRegressor(
                    make_pipeline(StandardScaler(), MLPRegressor(random_state=SEED)), transformer=StandardScaler()
                ),
                {f"regressor__mlpregressor__{name}": values for name, values in mlp.items()},
            ),
            "HistGradientBoostingRegressor": (HistGradientBoostingRegressor(random_state=SEED), boosting),
        }
    logistic = LogisticRegression(max_iter=1000)
    expanded = make_pipeline(StandardScaler(), PolynomialFeatures(include_bias=False), StandardScaler(), logistic)
    return {
        "PolynomialNetClassifier": (PolynomialNetClassifier(random_state=SEED), net),
        "LogisticRegression": (
            make_pipeline(StandardScaler(), logistic),
            {"logisticregression__C": [0.01, 0.1, 1.0, 10.0]},
        ),
        f"LogisticRegression on PolynomialFeatures({_either(degrees)})": (
            expanded,
            {
                "polynomialfeatures__degree": degrees,
                "logisticregression__C": [0.1, 1.0] if len(degrees) == 2 else [0.001, 0.01, 0.1, 1.0],
            },
        ),
        "MLPClassifier": (
            make_pipeline(StandardScaler(), MLPClassifier(random_state=SEED)),
            {f"mlpclassifier__{name}": values for name, values in mlp.items()},
        ),
        "HistGradientBoostingClassifier": (HistGradientBoostingClassifier(random_state=SEED), boosting),
    }


def _either(degrees: list[int]) -> str:
    return " or ".join(map(str, degrees))


def one_fold(
    estimator: Any, candidates: dict[str, list[Any]], X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray
) -> tuple[float, float, dict[str, Any]]:
    """The score on a fold after tuning within the others, the CPU seconds it took, and the setting that was chosen."""
    classify = is_classifier(estimator)
    if len(train) > 1000:
        inner = (StratifiedShuffleSplit if classify else ShuffleSplit)(1, test_size=0.2, random_state=SEED)
    else:
        inner = (StratifiedKFold if classify else KFold)(3, shuffle=True, random_state=SEED)
    search = GridSearchCV(clone(estimator), candidates, cv=inner)
    started = time.process_time()  # of the one thread it has: what else the machine does must not count
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # MLP says so at its default number of iterations
        search.fit(X[train], y[train])
    seconds = time.process_time() - started
    return search.score(X[test], y[test]), seconds, search.best_params_


def compare(name: str, jobs: int) -> list[Result]:
    data = LOADERS[name]()
    X, y = np.asarray(data.data, dtype=np.float64), np.asarray(data.target)
    regression = name in REGRESSION
    folds = list((KFold if regression else StratifiedKFold)(FOLDS, shuffle=True, random_state=SEED).split(X, y))
    results = []
    for method, (estimator, candidates) in methods(regression, X.shape[1]).items():
        # one thread for each fold, whatever the method: threads of its own would make the seconds incomparable
        with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
            outcomes = Parallel()(delayed(one_fold)(estimator, candidates, X, y, *fold) for fold in folds)
        scores, seconds, chosen = zip(*outcomes, strict=True)
        result = Result(
            name, method, float(np.mean(scores)), float(np.std(scores)), float(np.mean(seconds)), list(chosen)
        )
        results.append(result)
    return results


def table(results: list[Result]) -> str:
    lines = ["| data | score | method | mean ± deviation | CPU seconds |", "|---|---|---|---|---|"]
    for result in results:
        best = result.mean >= max(other.mean for other in results if other.data == result.data)
        score = f"{result.mean:.3f} ± {result.deviation:.3f}"
        kind = "R²" if result.data in REGRESSION else "accuracy"
        shown = f"**{score}**" if best else score
        lines.append(f"| {result.data} | {kind} | {result.method} | {shown} | {result.seconds:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=LOADERS, default=BUNDLED, help="which data sets")
    parser.add_argument("--jobs", type=int, default=2, help="folds computed at once, one core each")
    arguments = parser.parse_args()
    started = time.perf_counter()
    results = []
    for name in arguments.data:
        try:
            results += compare(name, arguments.jobs)
        except URLError as error:
            print(f"{name} is left out: it could not be downloaded ({error.reason})", file=sys.stderr)
    print(table(results))
    print(json.dumps({"seconds": time.perf_counter() - started, "results": [asdict(result) for result in results]}))


if __name__ == "__main__":
    main()
