"""The paper's models, each a choice of the slots of :class:`pinets.polynomial.Step`."""

from pinets.layers.bias import FactoredBias, factor_bias
from pinets.layers.ccp import CCP
from pinets.layers.ncp import NCP, NCPSkip
from pinets.layers.power_sum import PowerSum

__all__ = ["CCP", "NCP", "FactoredBias", "NCPSkip", "PowerSum", "factor_bias"]
