"""What being a polynomial buys: certificates, coefficients, contributions, interactions."""

from pinets.algebra.certify import Certificate, certify
from pinets.algebra.degree import Violation
from pinets.algebra.expand import Expansion, Monomial, expand
from pinets.algebra.graph import NotPolynomialError
from pinets.algebra.interactions import Interaction, Interactions, Normal, Uniform, interactions
from pinets.algebra.orders import orders

__all__ = [
    "Certificate",
    "Expansion",
    "Interaction",
    "Interactions",
    "Monomial",
    "Normal",
    "NotPolynomialError",
    "Uniform",
    "Violation",
    "certify",
    "expand",
    "interactions",
    "orders",
]
