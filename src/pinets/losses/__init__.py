"""Losses that torch lacks."""

from pinets.losses.adversarial import AdversarialLoss, Hinge, NonSaturating, Wasserstein

__all__ = ["AdversarialLoss", "Hinge", "NonSaturating", "Wasserstein"]
