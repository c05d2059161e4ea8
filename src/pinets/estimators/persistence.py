"""Fitted estimators as plain containers and arrays, so that skops (or pickle) needs nothing of torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pinets._extras import require
from pinets.estimators.factored import empty_network
from pinets.estimators.parameters import MODELS
from pinets.polynomial import Polynomial

__all__ = ["arrays_of", "load_estimator", "network_from", "network_state", "tensors_of"]

_TENSOR = "tensor of dtype"
_TRUSTED = [
    "pinets.estimators._simplify.PathPoint",
    "pinets.estimators.classifier.PolynomialNetClassifier",
    "pinets.estimators.columns.Columns",
    "pinets.estimators.regressor.PolynomialNetRegressor",
]


def arrays_of(value: Any) -> Any:
    """Nested dictionaries and lists with every tensor as an array."""
    if isinstance(value, Tensor):
        return {_TENSOR: str(value.dtype).removeprefix("torch."), "values": value.detach().cpu().numpy()}
    if isinstance(value, dict):
        return {key: arrays_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [arrays_of(item) for item in value]
    return value


def tensors_of(value: Any, device: torch.device | str = "cpu") -> Any:
    """The inverse of :func:`arrays_of`, but for tuples."""
    if isinstance(value, dict):
        if _TENSOR in value:
            return torch.tensor(np.asarray(value["values"]), dtype=getattr(torch, value[_TENSOR]), device=device)
        return {key: tensors_of(item, device) for key, item in value.items()}
    if isinstance(value, list):
        return [tensors_of(item, device) for item in value]
    return value


def network_state(network: Polynomial) -> dict[str, Any]:
    """The facts and weights from which :func:`network_from` builds a network again."""
    names: dict[type, str] = {made: word for word, made in MODELS.items()}
    head: Any = network.head
    start: Any = network.start
    return {
        "kind": names.get(type(network), "terms"),
        "columns": start.in_features,
        "outputs": head.out_features,
        "rank": start.out_features,
        "order": network.order,
        "weights": arrays_of(dict(network.state_dict())),
    }


def network_from(state: dict[str, Any], device: torch.device | str) -> Polynomial:
    weights = tensors_of(state["weights"])
    dtype = next(iter(weights.values())).dtype
    columns, outputs, rank, order = (int(state[name]) for name in ("columns", "outputs", "rank", "order"))
    if state["kind"] == "terms":
        network: Polynomial = empty_network(columns, outputs, rank, order, dtype)
    else:
        network = MODELS[state["kind"]](columns, outputs, rank=rank, order=order, device="meta", dtype=dtype)
        network.to_empty(device="cpu")
    network.load_state_dict(weights)
    return network.to(device).eval()


def load_estimator(path: str | Path) -> Any:
    """A fitted estimator from a file that ``skops.io.dump`` wrote; a file with other classes is refused."""
    skops = require("skops.io", extra="sklearn")
    try:
        if unknown := sorted(set(skops.get_untrusted_types(file=path)) - set(_TRUSTED)):
            raise ValueError(f"it holds {', '.join(unknown)}, and estimators of pinets alone are read")
        found = skops.load(path, trusted=_TRUSTED)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no file {path}") from error
    except Exception as error:  # a damaged archive raises many types
        raise ValueError(f"{path} is not a file of a pinets estimator: {error}") from error
    if not hasattr(found, "to_polynomial"):
        raise ValueError(f"{path} holds no estimator of pinets but a {type(found).__name__}")
    return found
