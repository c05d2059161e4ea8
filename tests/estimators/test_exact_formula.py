"""A formula is the prediction: whatever rows rank it, however many terms it has, whatever the columns are called."""

import re

import numpy as np
import pytest
from scipy import sparse

from pinets.estimators import PolynomialNetRegressor, _formula
from pinets.estimators.columns import only_zero_or_one

pandas = pytest.importorskip("pandas")
sympy = pytest.importorskip("sympy")


def assert_all_ways_agree(network, X):
    """Called, as SymPy and as Python code, a formula takes the encoded columns by their names."""
    found, rows, expected = network.formula(), network._rows(X), network.predict(X)
    assert len(set(found.names)) == len(found.names)
    columns = dict(zip(found.names, rows.T, strict=True))
    written = {}
    exec(found.to_numpy(), written)
    symbols = [sympy.Symbol(name) for name in found.names]
    of_symbols = sympy.lambdify([symbols], found.to_sympy(), "numpy")
    for values in (found(rows), written["predict"](columns), of_symbols(list(rows.T))):
        np.testing.assert_allclose(values, expected, atol=1e-6)


def test_rows_to_rank_by_do_not_decide_what_is_an_indicator():
    X = pandas.DataFrame({"n": np.arange(200) % 8})
    network = PolynomialNetRegressor().fit(X, X["n"] ** 2)
    found = network.formula(X[X["n"] <= 1])
    np.testing.assert_allclose(found([[5.0]]), 25, rtol=1e-6)
    simple = network.simplify(X[X["n"] <= 2], X["n"][X["n"] <= 2] ** 2, tolerance=0.001)
    np.testing.assert_allclose(simple.formula(X[X["n"] <= 1])([[2.0]]), simple.predict(X[X["n"] == 2])[:1], rtol=1e-6)


def test_rare_values_are_values():
    """Twelve rows in 20,000, which the rows kept to rank by do not have."""
    random = np.random.RandomState(0)
    flag = random.randint(2, size=20_000).astype(float)
    flag[:12] = random.choice([3, 5, 7], size=12)
    X = np.column_stack([flag, random.normal(size=20_000)])
    network = PolynomialNetRegressor(clip=None).fit(X, X[:, 0] ** 2 + X[:, 1])
    assert not set(network.sample_[:, 0]) & {3, 5, 7}
    np.testing.assert_allclose(network.formula()(X[:20]), network.predict(X[:20]), rtol=1e-6)


def test_later_batches_may_hold_other_values():
    random = np.random.RandomState(0)
    X = np.column_stack([random.randint(2, size=60), random.normal(size=60)]).astype(float)
    network = PolynomialNetRegressor(random_state=0).partial_fit(X, X[:, 0])
    assert network.zero_or_one_.tolist() == [True, False]
    network.partial_fit(3 * X, X[:, 0])
    np.testing.assert_allclose(network.formula()(3 * X), network.predict(3 * X), rtol=1e-8)


def test_simplify_may_see_other_values_than_fit():
    random = np.random.RandomState(0)
    X = random.randint(2, size=(60, 1)).astype(float)
    network = PolynomialNetRegressor(clip=None, order=2).fit(X, X[:, 0])
    more = random.randint(4, size=(60, 1)).astype(float)
    simple = network.simplify(more, more[:, 0] ** 2, order=2)
    np.testing.assert_allclose(simple.formula()(more), more[:, 0] ** 2, atol=1e-6)


def test_zeros_and_ones_of_sparse_columns():
    dense = np.array([[0, 1, 2.0], [1, 1, 0], [0, 0.5, 0]])
    doubled = sparse.csr_matrix(([1.0, 1.0, 1.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))  # two entries in one place
    assert only_zero_or_one(dense).tolist() == only_zero_or_one(sparse.csr_matrix(dense)).tolist()
    assert only_zero_or_one(dense).tolist() == [True, False, False]
    assert only_zero_or_one(doubled).tolist() == [False, True]


def test_rows_to_rank_by_do_not_decide_what_is_negligible():
    random = np.random.RandomState(0)
    X = random.normal(size=(100, 2))
    network = PolynomialNetRegressor(order=1).fit(X, X.sum(axis=1))
    narrow = X * [1.0, 1e-12]
    np.testing.assert_allclose(network.formula(narrow)(X), network.predict(X), rtol=1e-6)


def test_no_term_is_left_out_of_a_few_thousand():
    random = np.random.RandomState(0)
    X = random.normal(size=(60, 50))
    network = PolynomialNetRegressor(order=3, clip=None).fit(X, X[:, 0] * X[:, 1] * X[:, 2])
    found = network.formula(X)
    assert (network.solver_, found.omitted) == ("rows", 0)
    np.testing.assert_allclose(found(X), network.predict(X), atol=1e-8)
    written = {}
    exec(found.to_numpy(), written)  # a single sum of so many is too deep for Python
    np.testing.assert_allclose(written["predict"](dict(zip(found.names, X.T, strict=True))), found(X), atol=1e-8)


@pytest.mark.parametrize("limit", ["_MOST_TERMS", "_MOST_FOUND"])
def test_terms_left_out_are_announced(limit, monkeypatch):
    monkeypatch.setattr(_formula, limit, 20)
    if limit == "_MOST_FOUND":
        monkeypatch.setattr(_formula, "_MOST_SEARCHED", 100)
    else:
        monkeypatch.setattr(_formula._monomials, "__defaults__", (20,))
    X = np.random.RandomState(0).normal(size=(30, 20)) * np.logspace(-3, 3, 20)  # units must not choose the terms
    network = PolynomialNetRegressor(solver="rows", order=2, clip=None).fit(X, X[:, 0])
    with pytest.warns(UserWarning, match="lacks up to .* and is not exactly the prediction"):
        found = network.formula()
    kept, everything = {"_MOST_TERMS": 40, "_MOST_FOUND": 20}[limit], 20 + 210
    assert (len(found), found.omitted) == (kept, everything - kept)
    note = f"not exactly the prediction: up to {everything - kept} smaller terms are left out"
    assert note in repr(found)
    assert note in found.to_numpy()
    assert note in found._repr_html_()
    assert found.text().endswith(" + ...")
    assert found.latex().endswith(r" + \cdots")
    assert max(column for term in found.terms for column in term.columns) > 15


def test_names_of_categories_yield_to_those_of_columns():
    random = np.random.RandomState(0)
    X = pandas.DataFrame({"c": random.choice(["x", "y"], size=300, p=[0.7, 0.3]), "c=y": random.normal(size=300)})
    network = PolynomialNetRegressor(order=1).fit(X, 3 * (X["c"] == "y") + X["c=y"])
    assert network.encoded_names() == ["c=y (2)", "c=y"]
    assert_all_ways_agree(network, X)


def test_categories_that_print_alike_are_told_apart():
    X = pandas.DataFrame({"c": np.array(["b"] * 20 + [1] * 10 + ["1"] * 10, dtype=object)})
    network = PolynomialNetRegressor(order=1).fit(X, X["c"].map({"b": 0.0, 1: 1.0, "1": 5.0}))
    assert sorted(network.encoded_names()) == ["c='1'", "c=1"]
    assert_all_ways_agree(network, X)


def test_a_column_may_be_called_missing():
    random = np.random.RandomState(0)
    X = pandas.DataFrame({"a": random.normal(size=200), "a is missing": random.normal(size=200)})
    X.loc[::4, "a"] = np.nan
    network = PolynomialNetRegressor(order=1).fit(X, 2 * X["a is missing"] + 3 * X["a"].isna())
    assert network.encoded_names() == ["a", "a is missing (2)", "a is missing"]
    assert_all_ways_agree(network, X)


@pytest.mark.parametrize("size", [1e300, 1e-160])
def test_units_beyond_those_of_a_formula_are_refused(size):
    X = np.random.RandomState(0).normal(size=(100, 2)) * size
    network = PolynomialNetRegressor(order=2).fit(X, X[:, 0] / size * (X[:, 1] / size))
    assert network.score(X, X[:, 0] / size * (X[:, 1] / size)) > 0.99
    with pytest.raises(ValueError, match=r"of order 2 takes columns with a size and deviation of 1e-145 to 1e145, got"):
        network.formula()


@pytest.mark.parametrize("size", [1e300, 1e-200])
def test_units_of_the_target_do_not_matter(size):
    X = np.random.RandomState(0).normal(size=(100, 2))
    y = X[:, 0] * X[:, 1] + 2 * X[:, 0]
    plain, found = (PolynomialNetRegressor(order=2).fit(X, y * unit).formula() for unit in (1.0, size))
    np.testing.assert_allclose(found(X) / size, y, rtol=1e-6, atol=1e-6)
    assert [term.columns for term in found.terms[:3]] == [term.columns for term in plain.terms[:3]]
    assert [term.share for term in found.terms[:3]] == pytest.approx([term.share for term in plain.terms[:3]])


def test_a_constant_column_of_any_size_is_ignored():
    X = np.column_stack([np.full(50, 1e200), np.linspace(0, 1, 50)])
    network = PolynomialNetRegressor(order=2).fit(X, X[:, 1])
    np.testing.assert_allclose(network.formula()(X), X[:, 1], atol=1e-6)


def test_centers_are_written_with_all_their_digits():
    t = 1e12 + 1 / 3 + np.random.RandomState(0).normal(size=(300, 1))
    network = PolynomialNetRegressor(order=1, clip=None).fit(t, t[:, 0] - 1e12)
    (center,) = network.formula().centers
    assert f"(x0 - {float(center)!r})" in network.formula().text()
    assert "(x0 - 3)" in PolynomialNetRegressor(order=1).fit([[2], [4]] * 20, [1, 2] * 20).formula().text()


def test_code_subtracts_no_negative_numbers():
    X = np.random.RandomState(0).normal([-3, 0], size=(200, 2))
    code = PolynomialNetRegressor(order=1).fit(X, X[:, 0]).formula().to_numpy()
    assert re.search(r"x0 = columns\['x0'\] \+ [23]\.\d+\n", code)
    assert "- 0.0" not in code


def test_names_in_latex_are_texts():
    """All characters that LaTeX reads as something else, as its manual lists them."""
    X = pandas.DataFrame({r"a_b^2~c\d": np.arange(20.0)})
    written = PolynomialNetRegressor(order=1).fit(X, X.iloc[:, 0]).formula(center=False).latex()
    assert r"\text{a\_b\textasciicircum{}2\textasciitilde{}c\textbackslash{}d}" in written


def test_numbers_of_numpy_name_targets():
    X = np.random.RandomState(0).normal(size=(50, 2))
    network = PolynomialNetRegressor(order=1).fit(X, X)
    assert [network.formula(output=number).target for number in np.arange(2)] == ["y0", "y1"]


def test_a_few_rows_are_too_few_to_simplify():
    X = np.random.RandomState(0).normal(size=(50, 2))
    network = PolynomialNetRegressor(order=1).fit(X, X[:, 0])
    for rows in (1, 5):
        with pytest.raises(ValueError, match=f"3 folds of at least 2 rows and needs 6, got {rows}"):
            network.simplify(X[:rows], X[:rows, 0])


def test_intervals_of_terms_that_cannot_be_told_apart_are_infinite():
    random = np.random.RandomState(0)
    a, b = random.normal(size=(2, 500))
    X = pandas.DataFrame({"a": a, "double": 2 * a, "b": b})
    y = 3 * a + b + 0.1 * random.normal(size=500)
    network = PolynomialNetRegressor(order=1).fit(X, y)
    with pytest.warns(UserWarning, match=r"coefficients of .*double.* cannot be told apart") as caught:
        found = network.intervals(X, y, center=False)
    assert "b," not in str(caught[0].message)
    ends = {network.encoded_names()[each.term.columns[0]]: (each.low, each.high) for each in found}
    assert ends["a"] == ends["double"] == (-np.inf, np.inf)
    low, high = ends["b"]
    assert low < 1 < high < low + 0.1
