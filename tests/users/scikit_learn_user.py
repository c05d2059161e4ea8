"""Somebody with a table and scikit-learn fits, searches settings, and reads and stores the polynomial."""

import json
import subprocess

import numpy as np
import pandas
import skops.io
import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pinets import expand
from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor


def search():
    X, y = load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    pipeline = make_pipeline(StandardScaler(), PolynomialNetRegressor(random_state=0))
    found = GridSearchCV(pipeline, {"polynomialnetregressor__weight_decay": [1.0, 3.0]}, cv=2).fit(X_train, y_train)
    score = found.score(X_test, y_test)
    print(f"{found.best_params_}, R² {score:.3f}")
    assert score > 0.2


def read():
    table = np.random.default_rng(0).uniform(0, 10, size=(500, 3))
    price = 3 + 2 * table[:, 0] - 0.5 * table[:, 1] * table[:, 2]
    regressor = PolynomialNetRegressor(order=2, weight_decay=0, random_state=0).fit(table, price)
    top = expand(regressor.to_polynomial(), torch.tensor(table[:1])).top(2)
    print([(term.indices, round(term.coefficient, 2)) for term in top])
    assert {tuple(term.indices) for term in top} == {(0,), (1, 2)}


def store():
    """A raw table, with text and missing values, and the command line on a file of it."""
    draw = np.random.default_rng(0)
    table = pandas.DataFrame({"age": draw.uniform(20, 70, 200), "city": draw.choice(["Paris", "Rome"], 200)})
    bought = np.where(table["age"] + 20 * (table["city"] == "Rome") > 50, "yes", "no")
    table.loc[::10, "age"] = None
    classifier = PolynomialNetClassifier().fit(table, bought)
    print(classifier.formula(target="bought"))
    skops.io.dump(classifier, "bought.skops")
    table.to_csv("rows.csv", index=False)
    words = ["pinets", "predict", "bought.skops", "rows.csv", "--json"]
    answers = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert [row["class"] for row in answers] == classifier.predict(table).tolist()
    assert classifier.score(table, bought) > 0.9


if __name__ == "__main__":
    search()
    read()
    store()
