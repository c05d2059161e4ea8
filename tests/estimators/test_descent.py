"""Mini-batches: the solver for tables too large for a closed form, and partial_fit."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.preprocessing import PolynomialFeatures

from pinets import CCP
from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor

BOTH = pytest.mark.parametrize("estimator", [PolynomialNetClassifier, PolynomialNetRegressor])
MODELS = pytest.mark.parametrize("model", ["ccp", "ncp", "ncp_skip"])


@pytest.fixture(scope="module")
def cubic():
    """A polynomial of degree 3 whose linear part says nothing: the products are independent of every single input."""
    X = np.random.RandomState(0).uniform(-1, 1, size=(600, 5))
    y = X[:, 0] * X[:, 1] * X[:, 2] + 0.5 * X[:, 3] * X[:, 4] - X[:, 0] ** 2 * X[:, 3]
    return X, y


@MODELS
def test_order_three_fits_a_cubic(cubic, model):
    X, y = cubic
    regressor = PolynomialNetRegressor(solver="adam", model=model, order=3, weight_decay=0, random_state=0).fit(
        X[:400], y[:400]
    )
    assert regressor.score(X[400:], y[400:]) > 0.99


def test_order_three_tells_the_parity_of_three_signs_and_order_two_cannot():
    X = np.random.RandomState(0).uniform(-1, 1, size=(1500, 3))
    y = X[:, 0] * X[:, 1] * X[:, 2] > 0
    accuracy = {
        order: PolynomialNetClassifier(solver="adam", order=order, weight_decay=0.1, max_epochs=40, random_state=0)
        .fit(X[:1000], y[:1000])
        .score(X[1000:], y[1000:])
        for order in (2, 3)
    }
    assert accuracy[3] > 0.95
    assert accuracy[2] < 0.6


@BOTH
def test_random_state_decides_everything_and_nothing_global_changes(estimator):
    X, y = load_iris(return_X_y=True)
    before = torch.random.get_rng_state()
    fits = [
        estimator(solver="adam", max_epochs=3, batch_size=16, early_stopping=True, random_state=seed).fit(X, y)
        for seed in (1, 1, 2)
    ]
    assert torch.equal(torch.random.get_rng_state(), before)
    first, again, other = (fit.to_polynomial()(torch.tensor(X)).detach() for fit in fits)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_partial_fit_is_adamw_step_by_step():
    """Three calls with different batches against the same three steps written with torch alone."""
    random = np.random.RandomState(0)
    X, y = random.normal(size=(3, 30, 4)), random.normal(size=(3, 30))
    options = {"order": 2, "rank": 8, "learning_rate": 0.02, "weight_decay": 0.5, "random_state": 3}
    regressor = PolynomialNetRegressor(solver="adam", **options)
    for batch, targets in zip(X, y, strict=True):
        regressor.partial_fit(batch, targets)

    with torch.random.fork_rng():
        torch.manual_seed(np.random.RandomState(3).randint(np.iinfo(np.int32).max))
        module = CCP(4, 1, rank=8, order=2, dtype=torch.float64)
    torch.nn.init.zeros_(module.head.weight)
    vectors = [module.head.bias]
    matrices = [parameter for parameter in module.parameters() if parameter is not module.head.bias]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.5}, {"params": vectors, "weight_decay": 0}], 0.02
    )
    for batch, targets in zip(X, y, strict=True):
        z = torch.tensor((batch - X[0].mean(0)) / X[0].std(0))  # as in the first call, for good
        wanted = torch.tensor((targets - y[0].mean()) / y[0].std())
        optimizer.zero_grad()
        (module(z)[:, 0] - wanted).square().mean().backward()
        optimizer.step()
    # The bias's first gradient, the mean of the standardised targets, is zero but for rounding (1e-16), which Adam
    # divides by its epsilon of 1e-8: no two orders of summation agree to more than 1e-8 from there on.
    for name, parameter in module.state_dict().items():
        torch.testing.assert_close(regressor.module_.state_dict()[name], parameter, rtol=0, atol=1e-8)
    assert regressor.n_iter_ == len(regressor.loss_curve_) == 3


def test_partial_fit_of_a_classifier_learns_and_keeps_its_classes():
    X, y = make_classification(400, 8, n_informative=6, n_classes=3, random_state=0)
    names = np.array(["ant", "bee", "cat"])[y]
    classifier = PolynomialNetClassifier(solver="adam", random_state=0)
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        classifier.partial_fit(X, names)
    classifier.partial_fit(X[:100][y[:100] < 2], names[:100][y[:100] < 2], classes=["cat", "ant", "bee"])  # no cat yet
    for _ in range(40):
        classifier.partial_fit(X, names)
    assert list(classifier.classes_) == ["ant", "bee", "cat"]
    assert classifier.score(X, names) > 0.85
    with pytest.raises(ValueError, match=r"not among the classes.*dog"):
        classifier.partial_fit(X[:2], ["dog", "ant"])
    with pytest.raises(ValueError, match="stay those of the first call"):
        classifier.partial_fit(X, names, classes=["ant", "bee"])


def test_partial_fit_takes_a_new_learning_rate():
    X, y = load_iris(return_X_y=True)
    regressor = PolynomialNetRegressor(solver="adam", random_state=0, weight_decay=0).partial_fit(X, y)
    before = regressor.predict(X)
    regressor.set_params(learning_rate=1e-30).partial_fit(X, y)
    np.testing.assert_array_equal(regressor.predict(X), before)


@BOTH
def test_early_stopping_keeps_the_best_epoch(estimator):
    random = np.random.RandomState(0)
    X, y = random.normal(size=(80, 30)), random.randint(2, size=80)  # nothing to learn: soon overfitted
    fitted = estimator(
        solver="adam", early_stopping=True, validation_fraction=0.3, n_iter_no_change=5, random_state=0
    ).fit(X, y)
    best = int(np.argmin(fitted.validation_loss_curve_))
    assert fitted.n_iter_ == len(fitted.loss_curve_) == best + 1 + 5 < 100
    assert len(fitted.validation_scores_) == fitted.n_iter_
    shorter = estimator(solver="adam", early_stopping=True, validation_fraction=0.3, n_iter_no_change=5, random_state=0)
    with pytest.raises(ValueError, match="early_stopping needs all samples"):
        shorter.partial_fit(X, y, **({"classes": [0, 1]} if estimator is PolynomialNetClassifier else {}))


def test_too_few_samples_of_a_class():
    X = np.random.RandomState(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=r"at least 2 classes, got 1 class: 3$"):
        PolynomialNetClassifier(solver="adam").fit(X, np.full(20, 3))
    alone = np.arange(20) == 7
    with pytest.raises(ValueError, match=r"early_stopping needs .* validation_fraction=0\.1 of 20 does not give them"):
        PolynomialNetClassifier(solver="adam", early_stopping=True).fit(X, alone)
    assert PolynomialNetClassifier(solver="adam", max_epochs=1).fit(X, alone).classes_.tolist() == [False, True]


@BOTH
def test_what_is_held_out_is_not_looked_at_for_scaling(estimator):
    """Of powers of two, the sum tells which were summed."""
    powers = 2.0 ** np.arange(20)
    y = np.arange(20) % 2 if estimator is PolynomialNetClassifier else powers
    fitted = estimator(solver="adam", early_stopping=True, validation_fraction=0.3, max_epochs=1, random_state=0)
    fitted.fit(powers[:, None], y)
    (mean,) = fitted.feature_scaling_.mean.tolist()
    assert round(mean * 14).bit_count() == 14
    if estimator is PolynomialNetRegressor:
        assert fitted.target_scaling_.mean.tolist() == pytest.approx([mean])
    fitted.fit(powers[:, None], y, sample_weight=np.arange(20) // 2 % 2)
    assert round(fitted.feature_scaling_.mean.item() * 7).bit_count() == 7


@BOTH
def test_pickle_keeps_predictions_and_goes_on_training_alike(estimator):
    X, y = load_iris(return_X_y=True)
    fitted = estimator(solver="adam", max_epochs=5, random_state=0).fit(X, y)
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(copied.partial_fit(X, y).predict(X), fitted.partial_fit(X, y).predict(X))
    assert clone(fitted).get_params() == fitted.get_params()


def test_overflow_is_an_error_and_not_a_bad_model():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(FloatingPointError, match="lower the learning rate"):
        PolynomialNetRegressor(solver="adam", order=8, learning_rate=1e30, random_state=0).fit(X, y)


def peak_growth(prepare, work):
    """The megabytes by which the peak of a process of its own rises from preparing the data to having worked on it."""
    lines = [
        "import resource",
        "import numpy as np",
        "from scipy import sparse",
        "from pinets.estimators import PolynomialNetClassifier",
        "random = np.random.RandomState(0)",
        "warm_up = random.normal(size=(64, 5))",
        "PolynomialNetClassifier(solver='adam', max_epochs=1).fit(warm_up, warm_up[:, 0] > 0).predict(warm_up)",
        *prepare,
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss",
        *work,
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)",
    ]
    finished = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    return float(finished.stdout)


def test_degree_three_of_500_features_takes_less_memory_than_one_row_of_monomials():
    growth = peak_growth(
        ["X = random.normal(size=(4000, 500))", "y = X[:, 0] * X[:, 1] * X[:, 2] > 0"],
        ["PolynomialNetClassifier(solver='adam', order=3, max_epochs=1, random_state=0).fit(X, y).predict(X)"],
    )
    monomials = PolynomialFeatures(3).fit(np.zeros((1, 500))).n_output_features_
    assert monomials == 21_084_251
    assert growth < monomials * 8 / 1024**2 / 4  # 40 MB; twenty-odd are the batches, the weights are 0.4 MB


def test_sparse_features_are_never_dense_as_a_whole():
    growth = peak_growth(
        [
            # five entries a row, placed by hand: sparse.random would itself take half a gigabyte and hide the growth
            "columns = random.randint(5000, size=8000 * 5)",
            "X = sparse.csr_array((np.ones(8000 * 5), columns, np.arange(0, 8000 * 5 + 1, 5)), shape=(8000, 5000))",
            "y = random.randint(2, size=8000)",
        ],
        ["PolynomialNetClassifier(solver='adam', rank=2, max_epochs=1, random_state=0).fit(X, y).predict(X)"],
    )
    dense = 8000 * 5000 * 8 / 1024**2
    assert growth < dense / 4


def test_verbose_prints_a_line_an_epoch(capsys):
    X, y = load_iris(return_X_y=True)
    PolynomialNetClassifier(solver="adam", max_epochs=2, verbose=True, early_stopping=True, random_state=0).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 1", "epoch 2"]
    assert "validation loss" in lines[0]


@pytest.mark.parametrize("order", [2, 3])
def test_hundreds_of_features_are_learnt_and_not_given_up(order):
    """Steps of 0.01 for each of so many weights made such networks collapse to a constant."""
    X = np.random.default_rng(0).normal(size=(600, 300))
    y = X @ np.random.default_rng(1).normal(size=300)
    assert PolynomialNetRegressor(solver="adam", order=order, max_epochs=30, random_state=0).fit(X, y).score(X, y) > 0.9


def test_what_partial_fit_cannot_change_is_told():
    X, y = load_iris(return_X_y=True)
    classifier = PolynomialNetClassifier(solver="adam", order=2, rank=4).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"were \('ccp', 2, 4\) in the first call and are \('ccp', 3, 4\) now"):
        classifier.set_params(order=3).partial_fit(X, y)
