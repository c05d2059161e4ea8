"""
A formula from a table
======================

A scikit-learn estimator that fits a polynomial of the columns, and gives it back.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.model_selection import train_test_split

from pinets import expand, interactions
from pinets.algebra import Uniform
from pinets.estimators import PolynomialNetRegressor

# %%
# The price of a flat: so much per square metre, more with a view, less the further away. The last column does nothing.

names = ["area", "view", "distance", "noise"]
rng = np.random.default_rng(0)
X = np.column_stack(
    [rng.uniform(30, 120, 2000), rng.uniform(0, 1, 2000), rng.uniform(0, 20, 2000), rng.normal(size=2000)]
)
y = 20 + 3 * X[:, 0] + 1.5 * X[:, 0] * X[:, 1] - 0.1 * X[:, 0] * X[:, 2] + rng.normal(scale=2, size=2000)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

regressor = PolynomialNetRegressor(order=2, weight_decay=0, random_state=0).fit(X_train, y_train)
print(f"R² on new flats: {regressor.score(X_test, y_test):.4f}")

# %%
# ``to_polynomial`` is the polynomial of the raw columns, and :func:`pinets.expand` multiplies it out.

polynomial = regressor.to_polynomial()
for monomial in expand(polynomial, torch.tensor(X[:1])).top(6):
    print(f"{monomial.coefficient:+9.3f}", " * ".join(names[index] for index in monomial.indices) or "1")

# %%
# Which columns act together? Sobol indices, exact for columns that vary independently in these ranges.

ranges = [Uniform(low, high) for low, high in zip(X.min(0), X.max(0), strict=True)]
together = interactions(polynomial, torch.tensor(X[:1]), marginals=ranges)
found = sorted([*together.strongest(4, size=1), *together.strongest(3, size=2)], key=lambda one: one.share)
plt.figure(figsize=(6, 3), layout="constrained")
plt.barh([" × ".join(names[index] for index in one.inputs) for one in found], [one.share for one in found])
plt.xlabel("share of the variance")
plt.show()
