"""The example of docs/estimators.md: California housing to a formula and four pictures.

python docs/estimators/california.py ../data/tables/california.csv
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import pandas
from sklearn.model_selection import train_test_split

from pinets.estimators import EffectsDisplay, PairDisplay, PathDisplay, PolynomialNetRegressor, WaterfallDisplay

houses = pandas.read_csv(sys.argv[1])
value = houses.pop("median_house_value") / 1000  # thousands of dollars
X_train, X_test, y_train, y_test = train_test_split(houses, value, random_state=0)

net = PolynomialNetRegressor().fit(X_train, y_train)
print(f"order {net.order_}, {len(net.formula())} terms, R² {net.score(X_test, y_test):.3f}")

simple = net.simplify(X_train, y_train, tolerance=0.1, max_terms=15)
formula = simple.formula(X_train, target="value")
print(f"{len(formula)} terms, R² {simple.score(X_test, y_test):.3f}\n\n{formula}\n")
print(simple.intervals(X_test, y_test))

pictures = {
    "effects": EffectsDisplay.from_estimator(simple, X_test, top=3, target="value").plot(),
    "pair": PairDisplay.from_estimator(simple, "longitude", "latitude", X_test, target="value").plot(),
    "waterfall": WaterfallDisplay.from_estimator(
        simple, X_test.iloc[:1], X_test.iloc[:200], top=5, target="value"
    ).plot(),
    "path": PathDisplay.from_estimator(simple).plot(),
}
for name, picture in pictures.items():
    picture.figure_.savefig(Path(__file__).parent / f"{name}.png", dpi=80)
