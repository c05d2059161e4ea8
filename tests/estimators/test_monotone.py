"""Signs of slopes: proven or refuted as they are, and held by fits that ask for them."""

import numpy as np
import pytest
from scipy import optimize

from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor
from pinets.estimators.monotone import _ENOUGH_SLOPE, _WEIGHT, Box, _with_signs, prove

pandas = pytest.importorskip("pandas")


def box(columns):
    return Box(-np.ones(columns), np.ones(columns), np.zeros(columns, dtype=bool), np.arange(columns))


def test_a_slope_is_proven_refuted_or_left_open():
    products, coefficients = [(0,), (0, 1), (1, 1)], np.array([1.0, 0.5, 2.0])  # x + xy/2 + 2y²
    risen = prove(products, coefficients, 0, 1, box(2), 5.0)
    assert risen.status == "proven"
    assert risen.slope == pytest.approx(0.5, abs=1e-6)
    fallen = prove(products, coefficients, 1, 1, box(2), 5.0)
    assert fallen.status == "refuted"
    assert fallen.slope == pytest.approx(0.5 * fallen.point[0] + 4 * fallen.point[1])
    assert fallen.slope < 0
    assert prove(products, coefficients, 0, -1, box(2), 5.0).status == "refuted"
    touching = prove([(0,), (0, 1)], np.array([1.0, 1.0]), 0, 1, box(2), 0.2)  # x (1 + y): no slope at y = -1
    assert touching.status == "open"
    assert prove(products, coefficients, 2, 1, box(3), 1.0).status == "proven"  # does not depend on it


def test_categories_are_taken_one_at_a_time():
    """x (1 - 0.6 a - 0.6 b) falls where a and b are both 1, which two categories of one column never are."""
    products, coefficients = [(0,), (0, 1), (0, 2)], np.array([1.0, -0.6, -0.6])
    low, high = np.array([-1.0, 0.0, 0.0]), np.ones(3)
    indicators = np.array([False, True, True])
    assert prove(products, coefficients, 0, 1, Box(low, high, indicators, np.array([0, 1, 1])), 1.0).status == "proven"
    assert prove(products, coefficients, 0, 1, Box(low, high, indicators, np.array([0, 1, 2])), 1.0).status == "refuted"


@pytest.fixture(scope="module")
def houses():
    random = np.random.RandomState(0)
    table = pandas.DataFrame(
        {
            "rooms": random.uniform(1, 6, size=400),
            "age": random.uniform(0, 90, size=400),
            "town": random.choice(["A", "B", "C"], size=400),
        }
    )
    slope = 1 - 0.4 * (table["town"] == "B") - (table["age"] / 100) ** 2
    price = slope * table["rooms"] - 0.01 * table["age"] + 0.0004 * (table["age"] - 45) ** 2
    price += 0.8 * random.normal(size=400)
    return table, price.to_numpy()


def changes(fitted, table, feature, count=2000):
    """How predictions change with a feature, from pairs of rows that differ in it alone; some far outside the data."""
    random = np.random.RandomState(1)
    rows = table.sample(count, replace=True, random_state=random).reset_index(drop=True)
    for name in ("rooms", "age"):
        low, high = table[name].min(), table[name].max()
        rows[name] = random.uniform(low - (high - low), high + (high - low), size=count)
    more = rows.assign(**{feature: rows[feature] + random.exponential(table[feature].std(), size=count)})
    outputs = fitted.decision_function if hasattr(fitted, "decision_function") else fitted.predict
    return outputs(more) - outputs(rows)


@pytest.mark.parametrize(
    ("estimator", "dtype"),
    [(PolynomialNetRegressor, np.float32), (PolynomialNetClassifier, np.float64)],
)
def test_a_fit_with_signs_holds_them_everywhere(houses, estimator, dtype):
    table, price = houses
    table = table.astype({"rooms": dtype, "age": dtype})
    y = price if estimator is PolynomialNetRegressor else price > np.median(price)
    free = estimator(order=3, weight_decay=1e-4).fit(table, y)
    doubtful = free.monotonic("age", -1)
    assert doubtful.status == "refuted"
    signs = {"rooms": 1, "age": -1}
    fitted = estimator(order=3, weight_decay=1e-4, monotonic_cst=signs).fit(table, y)
    for feature, sign in signs.items():
        assert fitted.monotonic(feature, sign).status == "proven"
        assert (sign * changes(fitted, table, feature)).min() > -1e-5
    assert set(fitted.monotonic_penalty_) == set(signs)
    assert fitted.score(table, y) > free.score(table, y) - 0.05
    assert (changes(free, table, "age") > 0.01).any()


def test_the_nearest_polynomial_with_signs_is_found():
    """Whole steps of Newton's method went round in circles: other slopes were too small where each ended."""
    random = np.random.RandomState(0)
    x, y = random.normal(size=(2, 200))
    basis = np.column_stack([x, y, x**2, x * y, y**2])
    basis -= basis.mean(axis=0)
    quadratic, linear = basis.T @ basis / 200, basis.T @ (x * y + x) / 200
    a, b = random.uniform(-3, 3, size=(2, 300))
    one, zero = np.ones(300), np.zeros(300)
    slopes = np.vstack([np.column_stack([one, zero, 2 * a, b, zero]), -np.column_stack([zero, one, zero, a, 2 * b])])

    def loss(point):
        lacking = np.clip(_ENOUGH_SLOPE - slopes @ point, 0, None)
        return point @ quadratic @ point / 2 - linear @ point + _WEIGHT / 2 * (lacking**2).sum()

    expected = optimize.minimize(loss, np.zeros(5), options={"maxiter": 10_000, "gtol": 1e-9})
    assert loss(_with_signs(quadratic, linear, slopes)) == pytest.approx(expected.fun, abs=1e-8)


def test_signs_against_each_other_leave_what_they_can():
    """x y cannot rise with x and fall with y, but the cube of x can stay."""
    x, y = np.random.RandomState(0).normal(size=(2, 150))
    X = np.column_stack([x, y])
    fitted = PolynomialNetRegressor(order=3, monotonic_cst=[1, -1]).fit(X, x**3 + x * y)
    assert fitted.monotonic(0, 1).status == fitted.monotonic(1, -1).status == "proven"
    assert fitted.score(X, x**3 + x * y) > 0.9


def test_the_counterexample_is_one(houses):
    table, price = houses
    fitted = PolynomialNetRegressor(order=3, weight_decay=1e-4).fit(table, price)
    found = fitted.monotonic("age", -1)
    names = fitted.encoded_names()
    polynomial = fitted.to_polynomial()
    import torch

    point = torch.tensor(found.point, requires_grad=True)
    (slope,) = torch.autograd.grad(polynomial(point[None])[0, 0], point)
    assert -slope[names.index("age")].item() == pytest.approx(found.slope, rel=1e-6)


def test_what_cannot_be_promised_is_refused(houses):
    table, price = houses
    for options, message in (
        ({"monotonic_cst": {"rum": 1}}, "names the column 'rum'"),
        ({"monotonic_cst": [1, 0]}, "one entry for each of 3 columns, got 2"),
        ({"monotonic_cst": [1, 0, 2]}, "1, -1 or 0, got 2 for 'town'"),
        ({"monotonic_cst": [0, 0, 1]}, "0 for columns of categories, got 1 for 'town'"),
        ({"monotonic_cst": [1, 0, 0], "clip": None}, "range of the data is not known"),
        ({"monotonic_cst": [1, 0, 0], "solver": "adam"}, "needs solver='terms'"),
        ({"monotonic_cst": [1, 0, 0], "solver": "rows"}, "takes one target or two classes, solver='terms'"),
    ):
        with pytest.raises(ValueError, match=message):
            PolynomialNetRegressor(**options).fit(table, price)
    with pytest.raises(ValueError, match="got 'town', which holds categories"):
        PolynomialNetRegressor().fit(table, price).monotonic("town")
    free, none = (PolynomialNetRegressor(monotonic_cst=cst).fit(table, price) for cst in (None, [0, 0, 0]))
    np.testing.assert_array_equal(free.predict(table), none.predict(table))
