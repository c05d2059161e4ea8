"""Polynomial networks as scikit-learn estimators."""

from pinets._extras import require

require("sklearn", extra="sklearn")

from pinets.estimators.classifier import PolynomialNetClassifier  # noqa: E402  (the check above explains itself first)
from pinets.estimators.regressor import PolynomialNetRegressor  # noqa: E402

__all__ = ["PolynomialNetClassifier", "PolynomialNetRegressor"]
