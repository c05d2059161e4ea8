"""Linear maps that torch lacks."""

from pinets.operators.resample import Resample
from pinets.operators.shift import SpatialShift
from pinets.operators.spiral import SpiralConv

__all__ = ["Resample", "SpatialShift", "SpiralConv"]
