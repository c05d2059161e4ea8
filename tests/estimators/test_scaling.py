"""Standardisation inside the estimators: columns that are constant, and numbers near the limits of their type."""

import numpy as np
import pytest
import torch
from scipy import sparse

from pinets.algebra import expand
from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor

BOTH = pytest.mark.parametrize("estimator", [PolynomialNetClassifier, PolynomialNetRegressor])


@pytest.fixture(scope="module")
def cubic():
    X = np.random.RandomState(0).uniform(-1, 1, size=(200, 3))
    return X, X[:, 0] * X[:, 1] * X[:, 2] + X[:, 0]


@BOTH
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_constant_column_counts_for_nothing(estimator, container, dtype):
    random = np.random.RandomState(0)
    X = np.column_stack([random.uniform(0, 10, size=(100, 2)), np.full(100, 0.1), np.zeros(100)]).astype(dtype)
    X[0] = (1, 2, 30, 40)
    y = X[:, 0] * X[:, 1] > 20
    weights = np.r_[0, random.uniform(size=99)]  # constant among the samples that count
    fitted = estimator(order=2).fit(container(X), y, weights)
    moved = X.copy()
    moved[:, 2:] = np.finfo(dtype).max / 1000 * random.choice([-1, 1], size=(100, 2))
    np.testing.assert_array_equal(fitted.predict(container(moved)), fitted.predict(container(X)))
    coefficients = expand(fitted.to_polynomial(), torch.zeros(1, 4, dtype=torch.float64)).coefficients
    assert coefficients[1][:, :2].all()
    assert not coefficients[1][:, 2:].any()
    assert not coefficients[2][:, 2:].any()


def test_what_was_constant_in_one_batch_may_be_learnt_from_the_next():
    X = np.random.RandomState(0).uniform(-1, 1, size=(200, 2))
    regressor = PolynomialNetRegressor(random_state=0, weight_decay=0).partial_fit(X * [1, 0], X[:, 0])
    for _ in range(200):
        regressor.partial_fit(X, X[:, 1])
    assert regressor.score(X, X[:, 1]) > 0.9


@pytest.mark.parametrize("unit", [1e-320, 1e-200, 1e154, 1e306])
def test_units_near_the_limits_of_double_precision(cubic, unit):
    X, y = cubic
    options = {"order": 3, "weight_decay": 1e-3}
    expected = PolynomialNetRegressor(**options).fit(X, y).predict(X)
    loose = {"rtol": 0.01, "atol": 0.01} if unit < 1e-308 else {"rtol": 1e-6}  # few digits are left there
    np.testing.assert_allclose(PolynomialNetRegressor(**options).fit(X * unit, y).predict(X * unit), expected, **loose)
    np.testing.assert_allclose(PolynomialNetRegressor(**options).fit(X, y * unit).predict(X) / unit, expected, **loose)
    thin = PolynomialNetRegressor(**options).fit(sparse.csr_array(X * unit), y, np.full(len(y), 1e300))
    np.testing.assert_allclose(thin.predict(X * unit), expected, **loose)


def test_what_no_double_can_hold_is_refused(cubic):
    X, y = cubic
    with pytest.raises(
        ValueError, match=r"X must hold numbers of at most 8.99e\+307 in size, got .*; give it in larger"
    ):
        PolynomialNetRegressor().fit(X[:3] * 1.7e308, y[:3])
    with pytest.raises(ValueError, match=r"y must hold numbers of at most 8.99e\+307 in size"):
        PolynomialNetRegressor().fit(X[:2], np.array([-1.7e308, 1.7e308]))
    with pytest.raises(ValueError, match=r"X must have columns that are constant or deviate by at least 4.94e-324"):
        PolynomialNetRegressor().fit(np.where(X > 0.9, 5e-324, 0), y)
    fitted = PolynomialNetRegressor().fit(X * 1e-320, y)
    with pytest.raises(ValueError, match=r"weights for raw features and targets must be below 1.8e\+308"):
        fitted.to_polynomial()
