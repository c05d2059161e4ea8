"""Deep polynomial neural networks (Π-nets) in PyTorch."""

from pinets.layers import CCP, NCP, NCPSkip, PowerSum
from pinets.polynomial import Polynomial, Step

__all__ = ["CCP", "NCP", "NCPSkip", "Polynomial", "PowerSum", "Step", "__version__"]

__version__ = "0.1.0"
