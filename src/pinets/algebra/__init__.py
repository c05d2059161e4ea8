"""What being a polynomial buys: certificates, coefficients, contributions, interactions, bounds.

A network is traced once (:mod:`~pinets.algebra.traced`) to a graph of operations, each of which is a linear map or a
product (:mod:`~pinets.algebra.rules`). The graph then runs in many domains (:mod:`~pinets.algebra.domains`), each of
which answers a question: ``_certify``, ``_orders``, ``_expand``, ``_interactions``, ``_bounds``,
``_shapley``, ``_spectra``, ``_verify``.
"""

from pinets.algebra._bounds import Bounds, ball, bounds, interval_bounds, lipschitz, margins
from pinets.algebra._certify import Certificate, certify
from pinets.algebra._expand import Expansion, Monomial, expand
from pinets.algebra._interactions import Interaction, Interactions, Normal, Uniform, interactions
from pinets.algebra._orders import orders
from pinets.algebra._shapley import Shapley, integrated_gradients, shapley
from pinets.algebra._spectra import Spectrum, spectra
from pinets.algebra._verify import verify
from pinets.algebra.domains.base import NotPolynomialError
from pinets.algebra.domains.degree import Violation
from pinets.algebra.enclosure import TooLargeError
from pinets.algebra.graph import TraceError
from pinets.algebra.traced import Traced, trace
from pinets.algebra.verdicts import Verdict

__all__ = [
    "Bounds",
    "Certificate",
    "Expansion",
    "Interaction",
    "Interactions",
    "Monomial",
    "Normal",
    "NotPolynomialError",
    "Shapley",
    "Spectrum",
    "TooLargeError",
    "TraceError",
    "Traced",
    "Uniform",
    "Verdict",
    "Violation",
    "ball",
    "bounds",
    "certify",
    "expand",
    "integrated_gradients",
    "interactions",
    "interval_bounds",
    "lipschitz",
    "margins",
    "orders",
    "shapley",
    "spectra",
    "trace",
    "verify",
]
