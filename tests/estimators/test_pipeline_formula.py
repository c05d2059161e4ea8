"""Formulas of pipelines: the units of the raw columns, or names that say that the units are others."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)

from pinets.estimators import PolynomialNetRegressor, formula

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def table():
    random = np.random.RandomState(0)
    X = pandas.DataFrame({"a": random.normal(100, 20, size=300), "b": random.normal(size=300)})
    return X, 2 * X["a"] + X["b"]


def keep(*columns, **options):
    return ColumnTransformer([("keep", "passthrough", list(columns))], **options)


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler().set_output(transform="pandas"), keep("a", "b")],
        [StandardScaler(), keep(1, 0)],
        [StandardScaler(), ColumnTransformer([("scale", MinMaxScaler(), [0])], remainder="passthrough")],
        [StandardScaler(), keep(0, 1, transformer_weights={"keep": 5})],
        [StandardScaler(), KNNImputer()],
        [StandardScaler(), SimpleImputer(add_indicator=True)],
        [StandardScaler(), SelectKBest(f_regression, k=2)],
        [MinMaxScaler(clip=True)],
        [ColumnTransformer([("scale", StandardScaler(), slice("a", "b"))])],
        [ColumnTransformer([("scale", StandardScaler(), slice("b", None))], remainder=MinMaxScaler())],
        [ColumnTransformer([("scale", StandardScaler(), [-1])], remainder="passthrough")],
        [ColumnTransformer([("s", StandardScaler(), ["a", "b"])]).set_output(transform="pandas"), keep("s__a", "s__b")],
        [FeatureUnion([("scale", StandardScaler()), ("other", SelectKBest(f_regression, k=1))])],
    ],
    ids=lambda steps: "-".join(type(step).__name__ for step in steps),
)
def test_units_pass_through(table, steps):
    X, y = table
    pipeline = make_pipeline(*steps, PolynomialNetRegressor(order=1, clip=None)).fit(X, y)
    found = formula(pipeline, X)
    rows = np.column_stack([X[name] for name in found.names])
    np.testing.assert_allclose(found(rows), y, rtol=1e-6)
    slopes = dict.fromkeys("ab", 0.0)
    for term in found.terms:
        slopes[found.names[term.columns[0]]] += term.coefficient
    assert slopes == pytest.approx({"a": 2, "b": 1}, rel=1e-4)


def test_indicators_of_an_imputer_are_columns_of_their_own(table):
    X, y = table
    holes = X.assign(a=X["a"].where(np.arange(300) % 5 > 0))
    steps = [StandardScaler(), SimpleImputer(add_indicator=True)]
    pipeline = make_pipeline(*steps, PolynomialNetRegressor(order=2, clip=None)).fit(holes, y)
    found = formula(pipeline, holes)
    assert found.names == ["a", "b", "a is missing"]
    rows = np.column_stack([holes["a"].fillna(holes["a"].mean()), holes["b"], holes["a"].isna()])
    np.testing.assert_allclose(found(rows.astype(float)), pipeline.predict(holes), rtol=1e-6)


def test_units_that_are_lost_are_named(table):
    X, y = table
    network = PolynomialNetRegressor(order=1, clip=None)
    names = {
        "a after QuantileTransformer": [QuantileTransformer(n_quantiles=50)],
        "scaled a after QuantileTransformer": [StandardScaler(), QuantileTransformer(n_quantiles=50)],
        "scaled a^2": [StandardScaler().set_output(transform="pandas"), PolynomialFeatures(2, include_bias=False)],
    }
    for name, steps in names.items():
        pipeline = make_pipeline(*steps, StandardScaler(), network).fit(X, y)
        found = formula(pipeline, X)
        assert name in found.names
        assert not {"a", "b"} & set(found.names)
        np.testing.assert_allclose(found(pipeline[:-2].transform(X)), pipeline.predict(X), rtol=1e-6)


def test_a_category_of_a_scaled_column_says_so():
    X = pandas.DataFrame({"a": np.arange(60) % 3 * 10.0})
    steps = [StandardScaler(), OneHotEncoder(sparse_output=False, drop="first")]
    pipeline = make_pipeline(*steps, PolynomialNetRegressor(order=1)).fit(X, X["a"])
    assert all(name.startswith("scaled a=") for name in formula(pipeline).names)


def test_one_column_may_be_encoded_twice():
    """A category times itself is not zero, and has one name."""
    random = np.random.RandomState(0)
    X = pandas.DataFrame({"c": random.choice(["x", "y", "z"], size=200)})
    before = ColumnTransformer([("one", OneHotEncoder(), ["c"]), ("two", OneHotEncoder(), ["c"])], sparse_threshold=0)
    network = PolynomialNetRegressor(solver="adam", order=2, max_epochs=3, random_state=0)
    pipeline = make_pipeline(before, network).fit(X, X["c"] == "x")
    found = formula(pipeline, X)
    assert found.names == ["c=x", "c=y", "c=z"] * 2
    np.testing.assert_allclose(found(pipeline[:-1].transform(X)), pipeline.predict(X), rtol=1e-8, atol=1e-8)
