"""Data frames: categories, missing values, names; and estimators stored without pickle."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def rents():
    random = np.random.RandomState(0)
    city = random.choice(["Oslo", "Paris", "Rome"], size=300, p=[0.2, 0.5, 0.3])
    size = random.uniform(20, 120, size=300)
    rent = 5 + 0.1 * size + np.select([city == "Rome", city == "Oslo"], [0.05 * size, -3.0], 0.0)
    return pandas.DataFrame({"city": city, "size": size}), rent


@pytest.mark.parametrize("kind", ["str", "category", "object", "array"])
def test_categories_are_learnt(rents, kind):
    X, y = rents
    options = {}
    if kind == "array":
        X, options = X.to_numpy(dtype=object), {"categorical_features": [0]}
    else:
        X = X.astype({"city": kind})
    fitted = PolynomialNetRegressor(**options).fit(X, y)
    assert fitted.score(X, y) > 1 - 1e-6
    names = ["x0=Oslo", "x0=Rome", "x1"] if kind == "array" else ["city=Oslo", "city=Rome", "size"]
    assert fitted.encoded_names() == names
    assert fitted.columns_.reference == {0: "Paris"}


@pytest.mark.parametrize("kind", ["str", "object"])
def test_texts_of_digits_are_categories(kind):
    """Whatever pandas calls a column of texts, which depends on its version."""
    X = pandas.DataFrame({"postcode": pandas.Series(["0150", "75001", "0150", "00100"] * 10, dtype=kind)})
    fitted = PolynomialNetRegressor().fit(X, X["postcode"].map({"0150": 0.0, "75001": 1.0, "00100": 7.0}))
    assert fitted.encoded_names() == ["postcode=00100", "postcode=75001"]


def test_an_unknown_category_counts_as_the_reference(rents):
    X, y = rents
    fitted = PolynomialNetRegressor().fit(X, y)
    elsewhere, reference = X.assign(city="Atlantis"), X.assign(city="Paris")
    np.testing.assert_array_equal(fitted.predict(elsewhere), fitted.predict(reference))
    np.testing.assert_array_equal(fitted.predict(X.assign(city=None)), fitted.predict(reference))


def test_missing_values_have_an_effect_of_their_own(rents):
    X, y = rents
    missing = np.arange(len(y)) % 5 == 0
    holes = X.assign(size=X["size"].where(~missing))
    target = np.where(missing, 40.0, y)
    fitted = PolynomialNetRegressor().fit(holes, target)
    assert fitted.encoded_names()[-1] == "size is missing"
    np.testing.assert_allclose(fitted.predict(holes)[missing], 40, atol=0.01)
    array = PolynomialNetRegressor().fit(holes[["size"]].to_numpy(), target)
    assert array.encoded_names() == ["x0", "x0 is missing"]
    whole = PolynomialNetRegressor().fit(X[["size"]].to_numpy(), y)  # none in fit: the mean
    mean = whole.feature_scaling_.mean.numpy()[None]
    np.testing.assert_allclose(whole.predict(np.array([[np.nan]])), whole.predict(mean))
    with pytest.raises(ValueError, match="has missing values"):
        PolynomialNetRegressor(missing_values="error").fit(holes, target)


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_a_category_called_missing_is_not_missing(kind):
    X = np.array([["missing"]] * 40 + [[None]] * 40 + [["known"]] * 60, dtype=object)
    y = np.repeat([0.0, 10.0, 1.0], [40, 40, 60])
    table = pandas.DataFrame(X, columns=["x0"]) if kind == "frame" else X
    fitted = PolynomialNetRegressor(categorical_features=[0]).fit(table, y)
    np.testing.assert_allclose(fitted.predict(table), y, atol=1e-6)
    assert fitted.encoded_names() == ["x0='missing'", "x0=missing"]
    mostly = PolynomialNetRegressor(categorical_features=[0]).fit(table[20:100], y[20:100])
    assert mostly.formula().references == {"x0": "missing"}


def test_missing_values_are_refused_if_wanted(rents):
    """In numbers and categories, in fit and predict, in frames and arrays."""
    X, y = rents
    fitted = PolynomialNetRegressor(missing_values="error").fit(X, y)
    for column in X.columns:
        holes = X.astype(object)
        holes.loc[3, column] = None
        array = holes.to_numpy()
        for refused in (
            lambda holes=holes: PolynomialNetRegressor(missing_values="error").fit(holes, y),
            lambda holes=holes: fitted.predict(holes),
            lambda array=array: PolynomialNetRegressor(missing_values="error", categorical_features=[0]).fit(array, y),
        ):
            with pytest.raises(ValueError, match="missing values, and missing_values='error' refuses them"):
                refused()


def test_bad_frames(rents):
    X, y = rents
    fitted = PolynomialNetRegressor().fit(X, y)
    with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing"):
        fitted.predict(X[["size"]])
    with pytest.raises(ValueError, match="column 'size' is not numeric"):
        PolynomialNetRegressor(categorical_features=["city"]).fit(X.assign(size="large"), y)
    with pytest.raises(ValueError, match="column 'size' of X contains infinity"):
        PolynomialNetRegressor().fit(X.assign(size=np.inf), y)
    with pytest.raises(ValueError, match="has 300 categories, and at most 255 are accepted"):
        PolynomialNetRegressor().fit(X.assign(city=[f"city {number}" for number in range(300)]), y)
    with pytest.raises(ValueError, match="could not convert string to float"):
        PolynomialNetRegressor(categorical_features=None).fit(X, y)
    with pytest.raises(ValueError, match="one flag for each of 2 columns, got 3"):
        PolynomialNetRegressor(categorical_features=[True, False, False]).fit(X, y)
    for read in (
        lambda unfitted: unfitted.formula(),
        lambda unfitted: unfitted.encoded_names(),
        lambda unfitted: unfitted.intervals(X, y),
    ):
        with pytest.raises(NotFittedError):
            read(PolynomialNetRegressor())


@pytest.mark.parametrize("others", [["city", "size"], ["size"]])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_dates_are_named(rents, others, zone):
    """numpy takes them for numbers, where there are texts beside them, and a missing one for the year 1677."""
    X, y = rents
    dates = pandas.Series(pandas.date_range("2020-01-01", periods=len(y), tz=zone))
    dates[3] = pandas.NaT
    with pytest.raises(ValueError, match=r"column 'sold' is not numeric .*datetime.*: convert it to numbers"):
        PolynomialNetRegressor().fit(X[others].assign(sold=dates), y)
    days = (dates - dates.min()).dt.days
    assert PolynomialNetRegressor(order=1).fit(X[others].assign(sold=days), y).encoded_names()[-1] == "sold is missing"


def test_classes_are_weighted():
    random = np.random.RandomState(0)
    X = random.normal(size=(400, 1))
    y = X[:, 0] + random.normal(size=400) > 1.5
    plain, balanced = (PolynomialNetClassifier(class_weight=weight).fit(X, y) for weight in (None, "balanced"))
    assert plain.predict(X).mean() < y.mean() < balanced.predict(X).mean()
    weights = np.where(y, 3.0, 1.0)
    by_class = PolynomialNetClassifier(class_weight={False: 1, True: 3}).fit(X, y)
    np.testing.assert_allclose(by_class.predict_proba(X), PolynomialNetClassifier().fit(X, y, weights).predict_proba(X))


@pytest.mark.parametrize("options", [{}, {"solver": "rows"}, {"solver": "adam", "max_epochs": 2, "random_state": 0}])
def test_stored_without_pickle(rents, options):
    skops = pytest.importorskip("skops.io")
    X, y = rents
    fitted = PolynomialNetRegressor(**options).fit(X, y)
    stored = skops.dumps(fitted)
    types = skops.get_untrusted_types(data=stored)
    assert types == ["pinets.estimators.columns.Columns", "pinets.estimators.regressor.PolynomialNetRegressor"]
    loaded = skops.loads(stored, trusted=types)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    if options.get("solver") == "adam":
        np.testing.assert_array_equal(loaded.partial_fit(X, y).predict(X), fitted.partial_fit(X, y).predict(X))


def test_text_in_the_wrong_place_is_answered_with_what_to_do():
    rows = [["Paris", 1.0], ["Rome", 2.0], ["Paris", 3.0], ["Rome", 5.0]] * 5
    y = np.arange(20.0)
    with pytest.raises(ValueError, match=r"X holds text .*'Paris'.* give a data frame"):
        PolynomialNetRegressor().fit(rows, y)
    fitted = PolynomialNetRegressor(categorical_features=[0], order=1).fit(rows, y)
    array = np.array(rows, dtype=object)
    np.testing.assert_array_equal(fitted.predict(rows), fitted.predict(array))
    by_flags = PolynomialNetRegressor(categorical_features=np.array([True, False]), order=1).fit(rows, y)
    np.testing.assert_array_equal(by_flags.predict(rows), fitted.predict(rows))
    with pytest.raises(ValueError, match=r"X must have rows and columns, got the shape \(20,\)"):
        PolynomialNetRegressor(categorical_features=[0]).fit(array[:, 0], y)
    for labels in ([None, "a"] * 10, [1, "a"] * 10):
        with pytest.raises(ValueError, match="Unknown label type"):  # as of scikit-learn's own
            PolynomialNetClassifier().fit(array[:, 1:], np.array(labels, dtype=object))
    with pytest.raises(ValueError, match=r"got the text 'no'; PolynomialNetClassifier takes classes"):
        PolynomialNetRegressor().fit(array[:, 1:], ["no", "yes"] * 10)
    with pytest.raises(ValueError, match=r"there is no column 'x00'; did you mean 'x0'"):
        fitted.monotonic("x00")
    with pytest.raises(ValueError, match=r"feature must be from 0 to 1, the number of a column, got 2"):
        fitted.monotonic(2)


def test_missing_numbers_are_refused_beside_categories_too():
    X = np.array([[0.0, 1.0], [1.0, np.nan], [0.0, 3.0], [1.0, 4.0]])
    with pytest.raises(ValueError, match="X has missing values"):
        PolynomialNetRegressor(missing_values="error", categorical_features=[0]).fit(X, X[:, 0])


def test_a_sparse_matrix_has_no_categories():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ValueError, match=r"a sparse matrix holds numbers alone, but categorical_features names \[0\]"):
        PolynomialNetRegressor(categorical_features=[0]).fit(sparse.csr_matrix(np.eye(20)), np.arange(20.0))
