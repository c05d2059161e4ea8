"""Polynomial networks as scikit-learn estimators."""

from pinets._extras import require

require("sklearn", extra="sklearn")

# the check above explains itself first
from pinets.estimators._displays import (  # noqa: E402
    EffectsDisplay,
    PairDisplay,
    PathDisplay,
    WaterfallDisplay,
)
from pinets.estimators._formula import Formula  # noqa: E402
from pinets.estimators._pipeline import formula  # noqa: E402
from pinets.estimators.classifier import PolynomialNetClassifier  # noqa: E402
from pinets.estimators.regressor import PolynomialNetRegressor  # noqa: E402

__all__ = [
    "EffectsDisplay",
    "Formula",
    "PairDisplay",
    "PathDisplay",
    "PolynomialNetClassifier",
    "PolynomialNetRegressor",
    "WaterfallDisplay",
    "formula",
]
