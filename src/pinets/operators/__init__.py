"""Linear maps that torch lacks."""

from pinets.operators.shift import SpatialShift

__all__ = ["SpatialShift"]
