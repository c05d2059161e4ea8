"""The fits that need no mini-batches: against brute force, against scikit-learn, and at the limits."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.preprocessing import PolynomialFeatures

from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor
from pinets.estimators.closed import automatic_orders, choose_solver, clip_rare_values, distinct
from pinets.estimators.exact import fit_terms
from pinets.estimators.factored import network_of_terms
from pinets.estimators.solve import Coordinates, choose_logistic, logistic, ridge
from pinets.estimators.terms import Terms, allowed_products, extensions, screen

BOTH = pytest.mark.parametrize("estimator", [PolynomialNetClassifier, PolynomialNetRegressor])


@pytest.fixture(scope="module")
def basis():
    random = np.random.RandomState(0)
    share = np.full(40, 1 / 40)
    values = random.normal(size=(40, 6))
    values -= share @ values
    targets = random.normal(size=(40, 2))
    return values, targets - share @ targets, share


def test_leave_one_out_errors_are_those_of_fits_without_each_row(basis):
    values, targets, share = basis
    coordinates = Coordinates.of_basis(values, values.T @ (share[:, None] * values), np.ones(6), share, 1 / 40)
    strength, found = 0.05, 0.0
    for row in range(len(values)):
        rest = np.arange(len(values)) != row
        left = Ridge(alpha=strength).fit(values[rest], targets[rest], share[rest])  # the penalty of the whole
        found += share[row] * ((targets[row] - left.predict(values[row : row + 1])[0]) ** 2).sum()
    assert ridge(coordinates, targets, strength).error == pytest.approx(found, rel=1e-9)


def test_rows_and_terms_give_the_same_ridge(basis):
    values, targets, share = basis
    by_terms = Coordinates.of_basis(values, values.T @ (share[:, None] * values), np.ones(6), share, 1 / 40)
    by_rows = Coordinates.of_kernel(values @ values.T, share, 1 / 40)
    one, other = (ridge(each, targets) for each in (by_terms, by_rows))
    assert one.strength == other.strength
    fitted = [each.values @ fit.coefficients for each, fit in ((by_terms, one), (by_rows, other))]
    np.testing.assert_allclose(*fitted, rtol=1e-8)
    np.testing.assert_allclose(
        by_terms.back @ one.coefficients, values.T @ (by_rows.back @ other.coefficients), rtol=1e-8
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_the_logistic_regression_is_scikit_learns(basis, classes):
    values, _, share = basis
    labels = np.arange(len(values)) % classes
    targets = np.eye(classes)[labels] if classes > 2 else labels[:, None].astype(float)
    coordinates = Coordinates.of_basis(values, values.T @ (share[:, None] * values), np.ones(6), share, 1 / 40)
    point = logistic(coordinates.values, coordinates.spectrum, targets, share, 0.1, tolerance=1e-9)
    reference = LogisticRegression(C=10.0, tol=1e-10, max_iter=5000).fit(values, labels, share)
    found = coordinates.back @ point[1:]
    np.testing.assert_allclose(found.T, reference.coef_, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_log_loss_left_out_is_nearly_that_of_fits_without_each_row(basis, classes):
    values, _, share = basis
    random = np.random.RandomState(1)
    odds = values[:, :classes] + random.logistic(size=(len(values), classes))
    labels = odds.argmax(axis=1)
    targets = np.eye(classes)[labels] if classes > 2 else labels[:, None].astype(float)
    coordinates = Coordinates.of_basis(values, values.T @ (share[:, None] * values), np.ones(6), share, 1 / 40)
    strength, losses = 0.01, []
    for row in range(len(values)):
        rest = np.arange(len(values)) != row
        left = LogisticRegression(C=1 / strength, tol=1e-8, max_iter=2000).fit(values[rest], labels[rest], share[rest])
        losses.append(-left.predict_log_proba(values[row : row + 1])[0, labels[row]])
    found = choose_logistic(coordinates, targets, strength).error
    whole = LogisticRegression(C=1 / strength, tol=1e-8, max_iter=2000).fit(values, labels, share)
    fitted = -whole.predict_log_proba(values)[np.arange(len(values)), labels].mean()
    left_out = np.mean(losses)
    assert left_out > 1.2 * fitted  # leaving rows out makes a difference
    if classes == 2:
        assert found == pytest.approx(left_out, rel=0.05)
    else:  # outputs are taken one at a time
        assert left_out < found < left_out + (left_out - fitted)


def test_screening_finds_what_the_complete_table_of_correlations_does():
    random = np.random.RandomState(0)
    columns = random.normal(size=(80, 7))
    columns = columns - columns.mean(axis=0)
    residual = np.column_stack([columns[:, 0] * columns[:, 1] * columns[:, 4], columns[:, 2] ** 2 * columns[:, 5]])
    residual = residual - residual.mean(axis=0)
    allowed = np.ones((7, 7), dtype=bool)
    allowed[2, 3] = allowed[3, 2] = False
    pairs = np.array([(i, j) for i in range(7) for j in range(i, 7) if allowed[i, j]])
    new = extensions(pairs, allowed)
    triples = [(*pairs[term], column) for term, column in zip(*np.nonzero(new), strict=True)]
    values = Terms.of(triples).values(columns)
    values = values - values.mean(axis=0)
    gain = ((values.T @ (residual / residual.std(axis=0))) ** 2).sum(axis=1) / (values**2).sum(axis=0)
    expected = {triples[position] for position in np.argsort(-gain)[:4]}
    found = screen(columns, pairs, new, residual, np.full(80, 1 / 80), 4)
    assert set(map(tuple, found.tolist())) == expected
    assert {(0, 1, 4), (2, 2, 5)} <= expected
    by_chance = [screen(columns, pairs, new, random.normal(size=(80, 1)), np.full(80, 1 / 80), 50) for _ in range(20)]
    assert sum(map(len, by_chance)) <= 2
    assert len(triples) == len(set(triples))


def test_no_products_within_a_group_and_no_squares_of_two_values():
    columns = np.column_stack([np.arange(12) % 3 == 0, np.arange(12) % 3 == 1, np.arange(12.0), np.arange(12) % 2 * 7])
    allowed = allowed_products(columns, np.array([0, 0, 1, 2]))
    assert not allowed[0, 1]
    assert allowed.diagonal().tolist() == [False, False, True, False]
    assert allowed[0, 2]
    assert allowed[0, 3]


def test_no_squares_of_yes_no_and_missing():
    random = np.random.RandomState(0)
    X = random.randint(2, size=(200, 2)).astype(float)
    X[::7, 0], X[::5, 1] = np.nan, 2.0  # the second has three values
    y = np.where(np.isnan(X[:, 0]), 5.0, 3 * X[:, 0]) + X[:, 1] ** 2
    found = PolynomialNetRegressor(order=2).fit(X, y).formula()
    assert found.names == ["x0", "x0 is missing", "x1"]
    products = {term.columns for term in found.terms}
    assert (0, 0) not in products
    assert {(0,), (1,), (2, 2)} <= products


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("outputs", [1, 2])
def test_the_network_of_terms_is_their_sum(order, outputs):
    random = np.random.RandomState(order)
    columns, targets = random.normal(size=(200, 3)), random.normal(size=(200, outputs))
    allowed, share = np.ones((3, 3), dtype=bool), np.full(200, 1 / 200)
    fit = fit_terms(columns, targets, share, allowed, orders=(order,), strength=1e-3)
    import torch

    with torch.no_grad():
        values = network_of_terms(fit, 3, torch.float64)(torch.tensor(columns)).numpy()
    np.testing.assert_allclose(values, fit.terms.values(columns) @ fit.coefficients + fit.constant, atol=1e-10)
    assert len(fit.terms) == PolynomialFeatures(order).fit(columns).n_output_features_ - 1


def test_a_given_decay_is_ridge_on_standardised_monomials():
    random = np.random.RandomState(0)
    X, y = random.uniform(size=(60, 3)), random.normal(size=60)
    fitted = PolynomialNetRegressor(order=2, weight_decay=0.1, clip=None).fit(X, y)
    z = (X - X.mean(0)) / X.std(0)
    basis = PolynomialFeatures(2, include_bias=False).fit_transform(z)
    basis = (basis - basis.mean(0)) / basis.std(0)
    expected = Ridge(alpha=0.1 * 60).fit(basis, y).predict(basis)
    np.testing.assert_allclose(fitted.predict(X), expected, rtol=1e-8)


def test_the_order_is_chosen():
    X = np.random.RandomState(0).normal(size=(300, 4))
    noise = 0.3 * np.random.RandomState(1).normal(size=300)
    truths = {1: X[:, 0], 2: X[:, 0] * X[:, 1], 3: X[:, 0] * X[:, 1] * X[:, 2]}
    for order, truth in truths.items():
        assert PolynomialNetRegressor().fit(X, truth + noise).order_ == order
    assert PolynomialNetClassifier().fit(X, truths[2] + noise > 0).order_ >= 2


def test_a_wide_table_does_as_well_as_ridge():
    random = np.random.RandomState(0)
    X = random.normal(size=(300, 250))
    y = X @ random.normal(size=250) + 5 * random.normal(size=300)
    fitted = PolynomialNetRegressor().fit(X[:200], y[:200])
    reference = RidgeCV(10.0 ** np.arange(-3, 5)).fit(X[:200], y[:200])
    assert fitted.solver_ == "rows"
    assert fitted.score(X[200:], y[200:]) > reference.score(X[200:], y[200:]) - 0.02


def test_few_columns_may_have_higher_orders():
    assert automatic_orders(2) == (1, 2, 3, 4, 5)
    assert automatic_orders(6) == (1, 2, 3, 4)
    assert automatic_orders(13) == (1, 2, 3)
    x = np.random.RandomState(0).uniform(-1, 1, size=(500, 2))
    y = x[:, 0] ** 5 - x[:, 0] ** 3 * x[:, 1] ** 2
    assert PolynomialNetRegressor().fit(x, y).order_ == 5


def test_errors_of_some_rows_choose_as_those_of_all(monkeypatch):
    X = np.random.RandomState(0).normal(size=(3000, 3))
    y = X[:, 0] * X[:, 1] + np.random.RandomState(1).normal(size=3000)
    every = [PolynomialNetRegressor().fit(X, y), PolynomialNetClassifier().fit(X, y > 0)]
    monkeypatch.setattr("pinets.estimators.solve.ROWS_TO_CHOOSE_BY", 1000)
    some = [PolynomialNetRegressor().fit(X, y), PolynomialNetClassifier().fit(X, y > 0)]
    for one, other in zip(every, some, strict=True):
        assert one.order_ >= 2 <= other.order_
        assert other.error_ == pytest.approx(one.error_, rel=0.1)
        assert other.score(X, one.predict(X)) > 0.95


def test_the_solver_is_chosen_by_size():
    assert choose_solver("auto", "auto", 20_000, 13) == "terms"
    assert choose_solver("auto", "auto", 40_000, 100) == "terms"
    assert choose_solver("auto", "auto", 600, 500) == "rows"
    assert choose_solver("auto", 3, 500, 10_000) == "rows"
    assert choose_solver("auto", 3, 5000, 10_000) == "adam"
    assert choose_solver("auto", "auto", 1_000_000, 10) == "adam"
    with pytest.raises(ValueError, match=r"takes at most .* columns for 5,000 rows, got 10,000, which would need"):
        choose_solver("terms", 3, 5000, 10_000)
    with pytest.raises(ValueError, match=r"takes at most 5,000 rows, got 50,000, which would need 100\.0 GB"):
        choose_solver("rows", 3, 50_000, 10)


def test_of_a_row_given_several_times_one_is_left_out():
    """Two cells of a table of categories are enough to learn from: leaving one out as a whole would leave nothing."""
    X, y = np.arange(200)[:, None] % 2, np.arange(200) % 2
    assert PolynomialNetClassifier().fit(X, y).predict_proba(X).max() > 0.99
    assert PolynomialNetRegressor().fit(X, y).error_ < 1e-6


def test_distinct_rows_and_their_weights():
    X = np.array([[1.0, -0.0], [2.0, 3.0], [1.0, 0.0], [1.0, 0.0]])
    columns, y, share, unit = distinct(X, np.array([5.0, 5.0, 5.0, 6.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert unit == 0.1
    assert distinct(X, np.arange(4), np.full(4, 0.5))[3] == 0.25
    found = sorted((*row.tolist(), target, weight) for row, target, weight in zip(columns, y, share, strict=True))
    np.testing.assert_allclose(found, [(1, 0, 5, 0.4), (1, 0, 6, 0.4), (2, 3, 5, 0.2)])


def test_rare_values_are_cut_where_that_predicts_better():
    random = np.random.RandomState(0)
    x = random.standard_cauchy(size=(800, 1))
    share = np.full(800, 1 / 800)
    bounded = np.tanh(x) + 0.1 * random.normal(size=(800, 1))
    assert np.abs(clip_rare_values(x, bounded, share, "auto")).max() < np.abs(x).max()
    normal = random.normal(size=(800, 1))
    assert clip_rare_values(normal, normal**3, share, "auto") is normal
    rare = (np.arange(800) == 3).astype(float)[:, None]
    assert clip_rare_values(rare, bounded, share, 0.01).any()


def test_quantiles_are_those_of_samples():
    random = np.random.RandomState(0)
    X, y = random.normal(size=(60, 2)), random.normal(size=60)
    weights = random.randint(0, 5, size=60)
    every = np.repeat(X, weights, axis=0)
    for sampled, weighted in ((every, None), (X, weights)):
        target = y if weighted is not None else np.repeat(y, weights)
        scaling = PolynomialNetRegressor(clip=0.1).fit(sampled, target, weighted).feature_scaling_
        ends = scaling.mean + scaling.scale * scaling.low, scaling.mean + scaling.scale * scaling.high
        np.testing.assert_allclose(ends, np.quantile(every, [0.1, 0.9], axis=0), rtol=1e-9)


def test_rare_values_are_not_cut_where_the_fit_itself_explains_them():
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = 2 * X[:, 0] - 3 * X[:, 1] * X[:, 2] + 1
    assert clip_rare_values(X, y[:, None], np.full(200, 1 / 200), "auto") is not X  # a sum of cubics would gain
    fitted = PolynomialNetRegressor().fit(X, y)
    assert np.allclose(fitted.predict(X), y, atol=1e-6)
    assert fitted.formula(center=False).text() == "y = 1 - 3 * x1 * x2 + 2 * x0"


def test_predictions_stay_near_the_targets_unless_clip_is_none():
    X = np.linspace(-1, 1, 100)[:, None]
    y = X[:, 0] ** 3
    far = np.array([[50.0]])
    assert PolynomialNetRegressor().fit(X, y).predict(far)[0] == pytest.approx(1, abs=1e-3)
    assert PolynomialNetRegressor(clip=None).fit(X, y).predict(far)[0] == pytest.approx(50**3, rel=1e-3)


# found by an attack


def test_a_column_that_hardly_varies_around_a_large_mean_is_used():
    x = 1.7e9 + 5e-3 * np.random.RandomState(0).normal(size=20_000)
    y = x > np.median(x)
    for options in ({}, {"solver": "adam", "max_epochs": 3, "random_state": 0}):
        assert PolynomialNetClassifier(order=1, **options).fit(x[:, None], y).score(x[:, None], y) > 0.97


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["auto", "adam"])
@pytest.mark.parametrize("weights", [np.full(100, 1e306), np.where(np.arange(100) % 2, 1e-46, 1e39)])
def test_extreme_weights_are_relative(dtype, solver, weights):
    X = np.random.RandomState(0).normal(size=(100, 3)).astype(dtype)
    y = X[:, 0] * X[:, 1]
    kept = weights > 1e-30 * weights.max()
    options = {"order": 2, "solver": solver, "weight_decay": 0, "random_state": 0}
    weighted, plain = PolynomialNetRegressor(**options), PolynomialNetRegressor(**options)
    weighted.fit(X, y, weights)
    plain.fit(X[kept], y[kept])
    assert weighted.score(X[kept], y[kept]) > 0.9
    np.testing.assert_allclose(weighted.predict(X), plain.predict(X), rtol=1e-3, atol=1e-3)


@BOTH
def test_what_failed_is_not_fitted(estimator):
    X, y = load_iris(return_X_y=True)
    fitted = estimator().fit(X, y)
    with pytest.raises(ValueError):
        fitted.fit(X, y, -np.ones(len(y)))
    with pytest.raises(Exception, match="not fitted"):
        fitted.predict(X)
    fresh = estimator(solver="adam", order=8, learning_rate=1e30, max_epochs=3, random_state=0)
    classes = {"classes": [0, 1, 2]} if estimator is PolynomialNetClassifier else {}
    with pytest.raises(FloatingPointError):
        fresh.fit(X, y)
    with pytest.raises(Exception, match="not fitted"):
        fresh.predict(X)
    refused = estimator()
    with pytest.raises(ValueError):
        refused.partial_fit(X, np.full(len(y), np.nan), **classes)
    with pytest.raises(Exception, match="not fitted"):
        refused.predict(X)
    assert not [name for name in vars(refused) if name.endswith("_")]


def test_partial_fit_takes_a_new_weight_decay():
    X, y = load_iris(return_X_y=True)
    fits = []
    for decay in (0.0, 50.0):
        regressor = PolynomialNetRegressor(weight_decay=0.0, random_state=0).partial_fit(X, y)
        fits.append(regressor.set_params(weight_decay=decay).partial_fit(X, y))
    sizes = [sum(parameter.abs().sum().item() for parameter in fit.module_.parameters()) for fit in fits]
    assert sizes[1] < 0.8 * sizes[0]


@pytest.mark.parametrize("options", [{}, {"clip": None}, {"solver": "adam", "max_epochs": 2, "clip": None}])
def test_far_out_there_are_still_probabilities(options):
    X, y = load_iris(return_X_y=True)
    for classes in (2, 3):
        classifier = PolynomialNetClassifier(order=3, **options).fit(X[y < classes], y[y < classes])
        for far in (1e200, -1e200, 1e308):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of the multiplication here
                probabilities = classifier.predict_proba(np.clip(X * far, -1e308, 1e308))
            np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_partial_fit_starts_anew_after_a_closed_form():
    X, y = load_iris(return_X_y=True)
    after = PolynomialNetClassifier(random_state=0).fit(X, y).partial_fit(X, y)
    fresh = PolynomialNetClassifier(random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_array_equal(after.predict_proba(X), fresh.predict_proba(X))
