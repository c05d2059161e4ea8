"""Sound bounds: what a polynomial network can give over a whole box of inputs, rounding included."""

from pinets.algebra.bounds.box import Bounds, ball, bounds, interval_bounds, lipschitz, margins
from pinets.algebra.bounds.problem import TooLargeError

__all__ = ["Bounds", "TooLargeError", "ball", "bounds", "interval_bounds", "lipschitz", "margins"]
