"""Deep polynomial neural networks (Π-nets) in PyTorch."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from pinets._extras import lazily

if TYPE_CHECKING:
    from pinets._resolve import Resolved, resolve
    from pinets.algebra import Certificate, bounds, certify, expand, interactions, orders
    from pinets.layers import CCP, NCP, NCPSkip, PowerSum
    from pinets.models import create_model, list_models
    from pinets.polynomial import Polynomial, Step

__all__ = [
    "CCP",
    "NCP",
    "Certificate",
    "NCPSkip",
    "Polynomial",
    "PowerSum",
    "Resolved",
    "Step",
    "__version__",
    "bounds",
    "certify",
    "create_model",
    "expand",
    "interactions",
    "list_models",
    "orders",
    "resolve",
]

try:
    __version__ = version("pinets")  # made from the newest tag when the package was built
except PackageNotFoundError:  # the folder src was put on the path
    __version__ = "0+unknown"

# so that `pinets --help` does not wait for torch
__getattr__, __dir__ = lazily(
    __name__,
    {
        "pinets.polynomial": ("Polynomial", "Step"),
        "pinets.layers": ("CCP", "NCP", "NCPSkip", "PowerSum"),
        "pinets.models": ("create_model", "list_models"),
        "pinets.algebra": ("Certificate", "bounds", "certify", "expand", "interactions", "orders"),
        "pinets._resolve": ("Resolved", "resolve"),
    },
)
