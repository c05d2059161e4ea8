"""Checks of the estimators' parameters, done when fitting, as scikit-learn asks."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch

from pinets.layers import CCP, NCP, NCPSkip

__all__ = ["MODELS", "check_at_least_one", "check_between", "check_device", "check_parameters"]

MODELS: dict[str, type[CCP] | type[NCP]] = {"ccp": CCP, "ncp": NCP, "ncp_skip": NCPSkip}


def check_at_least_one(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


def check_between(name: str, value: Any, low: float, high: float = math.inf, *, low_included: bool = False) -> None:
    """A number in the open interval (low, high); the lower end may belong to it."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not (low < value < high or (low_included and value == low)):
        rule = f"{'at least' if low_included else 'above'} {low:g}"
        rule += "" if high == math.inf else f" and below {high:g}"
        raise ValueError(f"{name} must be a finite number {rule}, got {value!r}")


def check_device(name: Any) -> torch.device:
    """A device that torch knows and can use here."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(f"device must name one that torch can use here, got {name!r}: {error}") from error
    return device


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_parameters(estimator: Any) -> None:
    """Check all parameters of an estimator."""
    check_choice("model", estimator.model, tuple(MODELS))
    check_choice("solver", estimator.solver, ("auto", "terms", "rows", "adam"))
    check_choice("missing_values", estimator.missing_values, ("indicator", "error"))
    for name in ("rank", "max_epochs", "n_iter_no_change"):
        check_at_least_one(name, getattr(estimator, name))
    for name in ("order", "batch_size"):
        if getattr(estimator, name) != "auto":
            check_at_least_one(name, getattr(estimator, name))
    if estimator.learning_rate != "auto":
        check_between("learning_rate", estimator.learning_rate, 0)
    if estimator.weight_decay != "auto":
        check_between("weight_decay", estimator.weight_decay, 0, low_included=True)
    if estimator.clip not in ("auto", None):
        check_between("clip", estimator.clip, 0, 0.5, low_included=True)
    check_between("validation_fraction", estimator.validation_fraction, 0, 1)
    if not isinstance(estimator.early_stopping, (bool, np.bool_)):
        raise ValueError(f"early_stopping must be True or False, got {estimator.early_stopping!r}")
    check_device(estimator.device)
