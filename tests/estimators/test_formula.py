"""Formulas with names and units: they are the estimator, ranked on the data, and few terms where few suffice."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor, formula
from pinets.estimators.persistence import load_estimator

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def rents():
    random = np.random.RandomState(0)
    city = random.choice(["Oslo", "Paris", "Rome"], size=300, p=[0.2, 0.5, 0.3])
    table = pandas.DataFrame(
        {"city": city, "size": random.uniform(20, 120, size=300), "age": random.normal(30, 10, size=300)}
    )
    rent = 5 + 0.1 * table["size"] - 0.02 * (table["size"] - 70) * (table["age"] - 30) + 2 * (city == "Rome")
    return table, rent.to_numpy()


@pytest.fixture(scope="module")
def fitted(rents):
    return PolynomialNetRegressor(order=3, weight_decay=1e-4).fit(*rents)


@pytest.mark.parametrize("center", [True, False])
def test_it_is_the_prediction(rents, fitted, center):
    X, _ = rents
    found = fitted.formula(X, center=center)
    np.testing.assert_allclose(found(fitted._rows(X)), fitted.predict(X), rtol=1e-8)
    assert sum(term.share for term in found.terms) == pytest.approx(1)
    assert found.references == {"city": "Paris"}
    names = {frozenset(found.names[column] for column in term.columns) for term in found.terms}
    assert not [name for name in names if {"city=Oslo", "city=Rome"} <= name]


def test_terms_are_ranked_by_their_variance_on_the_data(rents, fitted):
    X, _ = rents
    found = fitted.formula(X)
    rows = fitted._rows(X) - found.centers
    values = np.column_stack([term.coefficient * rows[:, term.columns].prod(axis=1) for term in found.terms])
    np.testing.assert_allclose([term.deviation for term in found.terms], values.std(axis=0), rtol=1e-9)
    assert [term.deviation for term in found.terms] == sorted((term.deviation for term in found.terms), reverse=True)
    whole = values.sum(axis=1)
    shares = [np.cov(column, whole, ddof=0)[0, 1] / whole.var() for column in values.T]
    np.testing.assert_allclose([term.share for term in found.terms], shares, atol=1e-9)


def test_all_ways_to_write_it_agree(rents, fitted):
    X, _ = rents
    found = fitted.formula(X, target="rent").top(5)
    rows = fitted._rows(X)
    columns = {name: rows[:, number] for number, name in enumerate(found.names)}
    written = {}
    exec(found.to_numpy(), written)
    np.testing.assert_allclose(written["predict"](columns), found(rows))
    expression = found.to_sympy()
    at = {symbol: columns[str(symbol)][0] for symbol in expression.free_symbols}
    assert float(expression.subs(at)) == pytest.approx(found(rows[:1])[0])
    assert found.text().startswith("rent = ")
    assert r"\text{city=Rome}" in found.latex()
    assert "<td>" in found._repr_html_()
    assert "city: compared with Paris" in repr(found)
    assert found.rounded(2).terms[0].coefficient == float(f"{found.terms[0].coefficient:.2g}")


def test_squares_of_columns_of_zeros_and_ones_are_merged():
    X = np.column_stack([np.arange(60) % 2, np.linspace(-1, 1, 60)])
    network = PolynomialNetRegressor(solver="adam", order=2, max_epochs=3, random_state=0).fit(X, X[:, 0] + X[:, 1])
    found = network.formula(X)
    assert (0, 0) not in {term.columns for term in found.terms}
    np.testing.assert_allclose(found(network._rows(X)), network.predict(X), rtol=1e-6)


def test_a_pipeline_has_the_names_and_units_from_before_it(rents):
    X, y = rents
    before = make_column_transformer(
        (OneHotEncoder(drop="first", sparse_output=False), ["city"]),
        (make_pipeline(SimpleImputer(), StandardScaler(), MinMaxScaler()), ["size"]),
        remainder="passthrough",
    )
    pipeline = make_pipeline(before, PolynomialNetRegressor(order=2, clip=None)).fit(X, y)
    found = formula(pipeline, X, target="rent")
    assert found.names == ["city=Paris", "city=Rome", "size", "age"]
    assert found.references == {"city": "Oslo"}
    encoded = np.column_stack([X["city"] == "Paris", X["city"] == "Rome", X["size"], X["age"]]).astype(float)
    np.testing.assert_allclose(found(encoded), pipeline.predict(X), rtol=1e-6)
    with pytest.raises(TypeError, match="takes an estimator of pinets or a pipeline, got MinMaxScaler"):
        formula(MinMaxScaler())


def test_a_network_in_a_pipeline_encodes_its_own_columns():
    """Indicators of missing numbers and of categories are 0 or 1, whatever scaler came before."""
    random = np.random.RandomState(0)
    X = pandas.DataFrame({"size": random.normal(70, 9, size=200), "age": random.normal(30, 5, size=200)})
    X.loc[::5, "size"] = np.nan
    y = X["size"].fillna(100.0) + 2 * X["age"]
    scaled = make_pipeline(StandardScaler(), PolynomialNetRegressor(order=1, clip=None)).fit(X, y)
    found = formula(scaled, X)
    assert found.names == ["size", "size is missing", "age"]
    raw = np.column_stack([X["size"].fillna(X["size"].mean()), X["size"].isna(), X["age"]])
    np.testing.assert_allclose(found(raw.astype(float)), y, rtol=1e-6)

    X = pandas.DataFrame({"city": random.choice(["Oslo", "Paris", "Paris"], size=200), "age": X["age"]})
    y = 3.0 * (X["city"] == "Oslo") + X["age"]
    passed = make_pipeline("passthrough", PolynomialNetRegressor(order=1, clip=None)).fit(X, y)
    found = formula(passed, X)
    assert (found.names, found.references) == (["city=Oslo", "age"], {"city": "Paris"})


def test_a_simplified_network_can_be_stored_and_simplified_again(tmp_path):
    """The optimizer of the network it came from is not its own."""
    X = np.random.RandomState(0).uniform(-1, 1, size=(60, 2))
    y = X[:, 0] * X[:, 1]
    network = PolynomialNetRegressor(solver="adam", max_epochs=2, random_state=0).fit(X, y)
    simple = network.simplify(X, y, max_terms=2)
    back = pickle.loads(pickle.dumps(simple))
    np.testing.assert_array_equal(back.predict(X), simple.predict(X))
    assert back.simplify(X, y, max_terms=2, tolerance=1e-9).score(X, y) >= simple.score(X, y)
    pytest.importorskip("skops.io").dump(simple, tmp_path / "simple.skops")
    read = load_estimator(tmp_path / "simple.skops")  # as the verbs do
    np.testing.assert_array_equal(read.predict(X), simple.predict(X))
    assert read.path_ == simple.path_


def test_what_cannot_be_simplified_or_bounded_is_named():
    X = np.random.RandomState(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="no term explains it"):
        PolynomialNetRegressor().fit(X, np.ones(60)).simplify(X, np.ones(60))
    with pytest.raises(ValueError, match=r"level must lie between 0 and 1, as 0\.95 does, got 95"):
        PolynomialNetRegressor(order=1).fit(X, X[:, 0]).intervals(X, X[:, 0], level=95)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda net, X, y: net.simplify(X, np.column_stack([y, y])),
            r"y must keep the 1 columns .* got shape \(60, 2\)",
        ),
        (lambda net, X, y: net.intervals(X, np.column_stack([y, y])), r"y must keep the 1 columns .* got shape"),
        (lambda net, X, y: net.simplify(X, y, order=0), "order must be an integer of at least 1, got 0"),
        (lambda net, X, y: net.simplify(X, y, max_terms=2.5), r"max_terms must be an integer of at least 1, got 2\.5"),
        (
            lambda net, X, y: net.simplify(X, y, tolerance="1 %"),
            "tolerance must be a finite number at least 0, got '1 %'",
        ),
        (lambda net, X, y: net.monotonic(0, sign=2), r"sign must be 1 \(rises\) or -1 \(falls\), got 2"),
        (lambda net, X, y: net.monotonic(0.5), "feature must be from 0 to 1, the number of a column, got 0.5"),
    ],
)
def test_questions_without_an_answer_are_refused(call, message):
    X = np.random.RandomState(0).normal(size=(60, 2))
    y = X[:, 0] * X[:, 1]
    with pytest.raises(ValueError, match=message):
        call(PolynomialNetRegressor(order=2).fit(X, y), X, y)


def test_several_outputs_are_named():
    X, y = load_iris(return_X_y=True)
    classifier = PolynomialNetClassifier(order=1).fit(X, y)
    found = classifier.formula(output=2)
    np.testing.assert_allclose(found(X), classifier.decision_function(X)[:, 2], rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match=r"output must be one of \[0, 1, 2\], got None"):
        classifier.formula()
    with pytest.raises(ValueError, match="output must be from 0 to 1"):
        PolynomialNetRegressor(order=1).fit(X, X[:, :2]).formula(output=5)
    assert PolynomialNetClassifier(order=1).fit(X[y < 2], y[y < 2]).formula().target == "log-odds of 1"


def test_few_terms_are_found_where_few_suffice(rents):
    X, y = rents
    simple = PolynomialNetRegressor().fit(X, y).simplify(X, y, tolerance=1e-6, max_terms=8)
    found = simple.formula(X)
    products = {tuple(found.names[column] for column in term.columns) for term in found.terms}
    assert {("size", "age"), ("size",), ("city=Rome",)} <= products
    assert len(found) <= 4  # centers are rounded means, which may leave a trace of (age)
    assert simple.score(X, y) > 1 - 1e-6
    assert [point.terms for point in simple.path_] == list(range(1, 9))
    smaller = PolynomialNetRegressor().fit(X, y).simplify(X, y, tolerance=0.2, max_terms=8)
    assert len(smaller.formula()) < len(found)
    with pytest.warns(UserWarning, match="no polynomial of up to 1 terms scores"):
        PolynomialNetRegressor().fit(X, y).simplify(X, y, tolerance=0, max_terms=1)


def test_a_product_of_raw_columns_is_one_term():
    random = np.random.RandomState(0)
    X = random.uniform(1, 2, size=(300, 6))
    y = 4 * X[:, 1] * X[:, 4] ** 2
    simple = PolynomialNetRegressor().fit(X, y).simplify(X, y, tolerance=1e-9, max_terms=5, center=False)
    (term,) = simple.formula(center=False).terms
    assert term.columns == (1, 4, 4)
    assert term.coefficient == pytest.approx(4, rel=1e-5)


def test_a_classifier_is_simplified():
    random = np.random.RandomState(0)
    X = random.normal(size=(500, 5))
    y = random.uniform(size=500) < 1 / (1 + np.exp(-3 * X[:, 0] * X[:, 1]))
    simple = PolynomialNetClassifier(order=2).fit(X, y).simplify(X, y, tolerance=0.02, max_terms=6)
    assert simple.formula().terms[0].columns == (0, 1)
    assert len(simple.formula()) <= 3


@pytest.mark.slow
def test_intervals_cover_the_planted_coefficients():
    """Terms chosen from the same rows, and noise that grows with a column."""
    covered = total = 0
    for seed in range(30):
        random = np.random.RandomState(seed)
        X = random.normal(size=(200, 3))
        y = 2 * X[:, 0] - X[:, 1] * X[:, 2] + (0.5 + 0.5 * np.abs(X[:, 0])) * random.normal(size=200)
        simple = PolynomialNetRegressor(order=2, clip=None).fit(X, y)
        simple = simple.simplify(X, y, tolerance=0.05, max_terms=2, center=False)
        truth = {(0,): 2.0, (1, 2): -1.0}
        for each in simple.intervals(X, y, center=False):
            total += 1
            covered += each.low <= truth.get(each.term.columns, 0.0) <= each.high
    assert total == 60
    assert covered / total >= 0.85


def test_explanations_add_up(rents, fitted):
    X, _ = rents
    found = fitted.shap_values(X.iloc[:4], X.iloc[10:40])
    assert found.names == ["city", "size", "age"]
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base, fitted.predict(X.iloc[:4]), rtol=1e-8)
    gradients = fitted.integrated_gradients(X.iloc[:4], X.iloc[10:40])
    np.testing.assert_allclose(gradients.sum(axis=1) + found.base, fitted.predict(X.iloc[:4]), rtol=1e-8)
    alone = fitted.shap_values(X.iloc[:1], X.iloc[:1])
    np.testing.assert_allclose(alone.values, 0, atol=1e-9)


@pytest.mark.slow
def test_shap_agrees(rents, fitted):
    shap = pytest.importorskip("shap")
    X, _ = rents
    background, rows = X.iloc[10:20], X.iloc[:2]
    coded = {name: number for number, name in enumerate(["Oslo", "Paris", "Rome"])}
    names = list(coded)

    def predict(values):
        table = pandas.DataFrame(values, columns=X.columns)
        return fitted.predict(table.assign(city=[names[int(code)] for code in table["city"]]))

    numbers = [each.assign(city=each["city"].map(coded)).to_numpy(dtype=float) for each in (background, rows)]
    masker = shap.maskers.Independent(numbers[0], max_samples=10)
    expected = shap.explainers.Exact(predict, masker)(numbers[1]).values
    np.testing.assert_allclose(fitted.shap_values(rows, background).values, expected, rtol=0, atol=1e-8)


def test_displays(rents, fitted):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    from pinets.estimators import EffectsDisplay, PairDisplay, PathDisplay, WaterfallDisplay

    X, y = rents
    effects = EffectsDisplay.from_estimator(fitted, X).plot()
    _, points, values, _ = next(effect for effect in effects.effects if effect[0] == "size")
    at = float(points[30])
    assert values[30] == pytest.approx(fitted.predict(X.assign(size=at)).mean(), rel=1e-8)
    _, levels, by_city, _ = next(effect for effect in effects.effects if effect[0] == "city")
    for level, value in zip(levels, by_city, strict=True):
        assert value == pytest.approx(fitted.predict(X.assign(city=level)).mean(), rel=1e-8)
    pair = PairDisplay.from_estimator(fitted, "size", "age", X).plot()
    fixed = X.assign(size=pair.grid[0][5], age=pair.grid[1][7])
    assert pair.values[7, 5] == pytest.approx(fitted.predict(fixed).mean(), rel=1e-8)
    waterfall = WaterfallDisplay.from_estimator(fitted, X.iloc[:1], X, top=2).plot()
    assert waterfall.base + waterfall.values.sum() == pytest.approx(fitted.predict(X.iloc[:1])[0])
    with pytest.raises(ValueError, match="only an estimator that simplify returned"):
        PathDisplay.from_estimator(fitted)
    with pytest.raises(ValueError, match="there is no column 'floor'"):
        PairDisplay.from_estimator(fitted, "floor", "age")
    path = PathDisplay.from_estimator(fitted.simplify(X, y, max_terms=4, tolerance=0.2)).plot()
    assert len(path.scores) == 4
    pyplot.close("all")


def test_float32_reads_alike(rents):
    X, y = rents
    numbers = X[["size", "age"]].to_numpy(dtype=np.float32)
    network = PolynomialNetRegressor(order=2).fit(numbers, y)
    assert next(network.module_.parameters()).dtype == torch.float32
    np.testing.assert_allclose(network.formula()(network.sample_)[:5], network.predict(network.sample_)[:5], rtol=1e-3)
