"""The estimators against scikit-learn's own conformance checks, and what they promise beyond them."""

import subprocess
import sys

import joblib
import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pinets.algebra import certify, expand
from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor

BOTH = pytest.mark.parametrize("estimator", [PolynomialNetClassifier, PolynomialNetRegressor])
MODELS = pytest.mark.parametrize("model", ["ccp", "ncp", "ncp_skip"])


# No expected failures. scikit-learn exempts its SGDClassifier and SGDRegressor from
# check_sample_weight_equivalence_on_{dense,sparse}_data and its MLPs pass them for chosen solvers only
# (PER_ESTIMATOR_XFAIL_CHECKS and PER_ESTIMATOR_CHECK_PARAMS in sklearn/utils/_test_common/instance_generator.py); ours
# pass, since what is small enough for one batch is fitted with the exact weighted loss.
@parametrize_with_checks(
    [
        PolynomialNetClassifier(),
        PolynomialNetRegressor(),
        PolynomialNetClassifier(solver="adam", max_epochs=50),
        PolynomialNetRegressor(solver="adam", max_epochs=50),
    ]
)
def test_conforms_to_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cubic():
    """A polynomial of degree 3 whose linear part says nothing: the products are independent of every single input."""
    X = np.random.RandomState(0).uniform(-1, 1, size=(600, 5))
    y = X[:, 0] * X[:, 1] * X[:, 2] + 0.5 * X[:, 3] * X[:, 4] - X[:, 0] ** 2 * X[:, 3]
    return X, y


@pytest.mark.parametrize("order", [1, 2])
def test_a_lower_order_cannot_beat_the_best_polynomial_of_its_degree(cubic, order):
    X, y = cubic
    best = (
        make_pipeline(PolynomialFeatures(order), Ridge(1e-10)).fit(X, y).score(X, y)
    )  # least squares on all monomials
    score = PolynomialNetRegressor(order=order, weight_decay=0, random_state=0).fit(X, y).score(X, y)
    assert score <= best + 1e-9
    assert score > best - 0.02
    assert best < 0.75


def test_several_targets_at_once(cubic):
    X, y = cubic
    Y = np.column_stack([y, 1000 + 50 * X[:, 0] * X[:, 1]])
    regressor = PolynomialNetRegressor(order=3, weight_decay=0, random_state=0).fit(X, Y)
    assert regressor.predict(X).shape == Y.shape
    assert r2_score(Y, regressor.predict(X), multioutput="raw_values").min() > 0.99


def outputs(fitted, X):
    """The polynomial's values: those of a classifier before they become classes."""
    return fitted.decision_function(X) if hasattr(fitted, "decision_function") else fitted.predict(X)


@BOTH
@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
def test_sparse_equals_dense(estimator, container):
    random = np.random.RandomState(0)
    X = random.uniform(size=(120, 30)) * (random.uniform(size=(120, 30)) < 0.1)
    X[:, 3] = 0  # a column of zeros
    X[:, 4] = 2  # and a constant one, which no sparse matrix would leave out
    y = (X[:, 0] + X[:, 1] * 2 > 0.1).astype(int)
    weights = random.uniform(size=120)
    for options in ({}, {"solver": "adam", "max_epochs": 10, "random_state": 0}):
        dense = estimator(**options).fit(X, y, weights)
        thin = estimator(**options).fit(container(X), y, weights)
        np.testing.assert_allclose(outputs(thin, container(X)), outputs(dense, X), rtol=1e-9, atol=1e-9)


def test_features_are_standardised_by_weighted_moments():
    random = np.random.RandomState(0)
    X, weights = random.normal(5, 3, size=(50, 4)), random.randint(1, 5, size=50)
    X[:, 2] = 7
    scaling = PolynomialNetRegressor(clip=0).fit(X, X[:, 0], weights).feature_scaling_
    repeated = StandardScaler().fit(X.repeat(weights, axis=0))
    np.testing.assert_allclose(scaling.mean, repeated.mean_)
    np.testing.assert_allclose(scaling.scale, repeated.scale_)


@BOTH
def test_units_of_the_features_do_not_matter(estimator):
    X, y = load_iris(return_X_y=True)
    units = np.array([1e-6, 1.0, 1e3, 1e9])
    for options in ({}, {"solver": "adam", "max_epochs": 5, "random_state": 0}):
        metric = estimator(**options).fit(X, y)
        imperial = estimator(**options).fit(X * units + 4 * units, y)
        np.testing.assert_allclose(outputs(imperial, X * units + 4 * units), outputs(metric, X), rtol=1e-5, atol=1e-5)


@BOTH
def test_weights_are_repetitions(estimator):
    """Also where rows are left out to choose the order and the penalty by, and in the one batch of a small table."""
    X, y = load_iris(return_X_y=True)
    weights = np.random.RandomState(0).randint(0, 4, size=len(y))
    for options in ({}, {"solver": "adam", "max_epochs": 30, "batch_size": 1000, "random_state": 0}):
        weighted = estimator(**options).fit(X, y, weights)
        repeated = estimator(**options).fit(X.repeat(weights, axis=0), y.repeat(weights))
        np.testing.assert_allclose(outputs(weighted, X), outputs(repeated, X), rtol=1e-8)


@pytest.mark.parametrize(
    "estimator, options, labels",
    [
        (PolynomialNetClassifier, {}, 2),
        (PolynomialNetClassifier, {}, 3),
        (PolynomialNetRegressor, {}, 3),
        (PolynomialNetClassifier, {"solver": "rows"}, 3),
        (PolynomialNetRegressor, {"solver": "rows"}, 3),
        (PolynomialNetClassifier, {"solver": "adam"}, 2),
        (PolynomialNetClassifier, {"solver": "adam", "model": "ncp_skip"}, 3),
        (PolynomialNetRegressor, {"solver": "adam", "model": "ncp"}, 3),
    ],
)
def test_the_raw_polynomial_is_the_estimator(estimator, options, labels):
    X, y = load_iris(return_X_y=True)
    X, y = 100 + 7 * X[y < labels], y[y < labels]
    fitted = estimator(order=3, rank=6, max_epochs=5, random_state=0, clip=None, **options).fit(X, y)
    polynomial, raw = fitted.to_polynomial(), torch.tensor(X)
    values = polynomial(raw).detach().numpy()
    expected = fitted.decision_function(X) if estimator is PolynomialNetClassifier else fitted.predict(X)
    np.testing.assert_allclose(values.reshape(expected.shape), expected, rtol=1e-8, atol=1e-8)
    assert certify(polynomial, raw[:2]).degree == 3
    np.testing.assert_allclose(expand(polynomial, raw[:2])(raw).numpy(), values, rtol=1e-6, atol=1e-6)


def test_the_raw_polynomial_recovers_known_coefficients():
    X = np.random.RandomState(0).uniform(10, 12, size=(500, 3))
    y = 5 + 2 * (X[:, 0] - 11) * (X[:, 1] - 11) - 3 * (X[:, 2] - 11)
    regressor = PolynomialNetRegressor(order=2, weight_decay=0).fit(X, y)
    quadratic = expand(regressor.to_polynomial(), torch.zeros(1, 3, dtype=torch.float64)).coefficients[2][0]
    expected = torch.zeros(3, 3, dtype=torch.float64)
    expected[0, 1] = expected[1, 0] = 1.0  # 2 x0 x1, shared by the two places
    torch.testing.assert_close(quadratic, expected, rtol=0, atol=1e-8)


def test_a_search_in_threads_finds_the_same():
    """Making a network borrows torch's global generator: two threads must not do so at once."""
    X, y = load_iris(return_X_y=True)
    found = []
    for n_jobs in (1, 2):
        with joblib.parallel_backend("threading", n_jobs=n_jobs):
            search = GridSearchCV(
                PolynomialNetClassifier(solver="adam", max_epochs=2, random_state=0), {"order": [1, 2, 3]}, cv=3
            )
            found.append(search.fit(X, y).cv_results_["mean_test_score"])
    np.testing.assert_array_equal(*found)


def test_float32_stays_float32():
    X, y = load_iris(return_X_y=True)
    classifier = PolynomialNetClassifier().fit(X.astype(np.float32), y)
    assert {parameter.dtype for parameter in classifier.module_.parameters()} == {torch.float32}
    assert classifier.predict_proba(X).dtype == np.float32
    assert not classifier.module_.training


@BOTH
@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"solver": "magic"}, "solver must be one of 'auto', 'terms', 'rows', 'adam', got 'magic'"),
        ({"clip": 0.5}, "clip must be a finite number at least 0 and below 0.5, got 0.5"),
        ({"missing_values": "drop"}, "missing_values must be one of 'indicator', 'error', got 'drop'"),
        ({"categorical_features": ["town"]}, "categorical_features names the column 'town', which X does not have"),
        ({"order": 0}, "order must be an integer of at least 1, got 0"),
        ({"order": 2.0}, "order must be an integer of at least 1, got 2.0"),
        ({"rank": 0}, "rank must be an integer of at least 1, got 0"),
        ({"rank": True}, "rank must be an integer"),
        ({"model": "npc"}, "model must be one of 'ccp', 'ncp', 'ncp_skip', got 'npc'"),
        ({"model": 3}, "model must be one of"),
        ({"max_epochs": -1}, "max_epochs must be an integer of at least 1, got -1"),
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"batch_size": "large"}, "batch_size must be an integer"),
        ({"learning_rate": 0}, "learning_rate must be a finite number above 0, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number above 0, got nan"),
        ({"weight_decay": -0.1}, "weight_decay must be a finite number at least 0, got -0.1"),
        ({"validation_fraction": 1.0}, "validation_fraction must be a finite number above 0 and below 1, got 1.0"),
        ({"early_stopping": "yes"}, "early_stopping must be True or False, got 'yes'"),
        ({"device": "abacus"}, "device must name one that torch can use here, got 'abacus'"),
    ],
)
def test_bad_parameters(estimator, parameters, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        estimator(**parameters).fit(X, y)


@BOTH
def test_bad_data(estimator):
    X, y = load_iris(return_X_y=True)
    holes = X.copy()
    holes[3, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        estimator(missing_values="error").fit(holes, y)
    fitted = estimator(missing_values="error").fit(X, y)
    with pytest.raises(ValueError, match="contains NaN"):
        fitted.predict(holes)
    with pytest.raises(ValueError, match=r"has 3 features, but .* expecting 4"):
        fitted.predict(X[:, :3])
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        estimator().fit(X, y, -np.ones(len(y)))


def test_numbers_from_a_search_are_taken():
    X, y = load_iris(return_X_y=True)
    fitted = PolynomialNetClassifier(
        solver="adam", order=np.int64(2), rank=np.int32(4), max_epochs=np.int64(1), learning_rate=np.float32(0.1)
    ).fit(X, y)
    assert (fitted.module_.order, fitted.module_.rank, fitted.n_iter_) == (2, 4, 1)


def test_a_missing_scikit_learn_says_what_to_install():
    script = "import sys; sys.modules['sklearn'] = None; import pinets.estimators"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert finished.returncode == 1
    assert 'needs sklearn; install it with: pip install "pinets[sklearn]"' in finished.stderr


def test_one_weight_for_all_is_no_weight():
    X, y = load_iris(return_X_y=True)
    options = {"solver": "adam", "max_epochs": 2, "random_state": 0}
    with_one, without = (PolynomialNetClassifier(**options).fit(X, y, weights) for weights in (1.0, None))
    assert np.array_equal(with_one.predict_proba(X), without.predict_proba(X))


def test_targets_that_are_no_numbers_are_refused():
    X, _ = load_iris(return_X_y=True)
    for text in ("a", ""):
        with pytest.raises(ValueError, match=f"y must hold numbers, got the text '{text}'; PolynomialNetClassifier"):
            PolynomialNetRegressor().fit(X, np.array([text] * len(X)))
    with pytest.raises(ValueError, match="y must hold numbers, got datetime64"):
        PolynomialNetRegressor().fit(X, np.full(len(X), np.datetime64("2026-01-01")))
