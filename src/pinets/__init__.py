"""Deep polynomial neural networks (Π-nets) in PyTorch."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    "Step",
    "__version__",
    "bounds",
    "certify",
    "create_model",
    "expand",
    "interactions",
    "list_models",
    "orders",
]

__version__ = "0.1.0"

_HOMES = {
    "pinets.polynomial": ("Polynomial", "Step"),
    "pinets.layers": ("CCP", "NCP", "NCPSkip", "PowerSum"),
    "pinets.models": ("create_model", "list_models"),
    "pinets.algebra": ("Certificate", "bounds", "certify", "expand", "interactions", "orders"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that `pinets --help` does not wait for torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'pinets' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
