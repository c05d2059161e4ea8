"""Deep polynomial neural networks (Π-nets) in PyTorch."""

from pinets.algebra import Certificate, certify, expand, interactions, orders
from pinets.layers import CCP, NCP, NCPSkip, PowerSum
from pinets.polynomial import Polynomial, Step

__all__ = [
    "CCP",
    "NCP",
    "Certificate",
    "NCPSkip",
    "Polynomial",
    "PowerSum",
    "Step",
    "__version__",
    "certify",
    "expand",
    "interactions",
    "orders",
]

__version__ = "0.1.0"
