"""What being a polynomial buys: certificates, coefficients, contributions, interactions, bounds."""

from pinets.algebra.bounds import Bounds, TooLargeError, ball, bounds, interval_bounds, lipschitz, margins
from pinets.algebra.certify import Certificate, certify
from pinets.algebra.degree import Violation
from pinets.algebra.domain import NotPolynomialError
from pinets.algebra.expand import Expansion, Monomial, expand
from pinets.algebra.interactions import Interaction, Interactions, Normal, Uniform, interactions
from pinets.algebra.orders import orders

__all__ = [
    "Bounds",
    "Certificate",
    "Expansion",
    "Interaction",
    "Interactions",
    "Monomial",
    "Normal",
    "NotPolynomialError",
    "TooLargeError",
    "Uniform",
    "Violation",
    "ball",
    "bounds",
    "certify",
    "expand",
    "interactions",
    "interval_bounds",
    "lipschitz",
    "margins",
    "orders",
]
