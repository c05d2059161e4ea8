"""Trained networks: those that come with pinets, and those in a file, at an address or on the hub.

A file of weights is a safetensors file whose metadata hold the expression that builds the network, and its card.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pinets._extras import require
from pinets._files import PathLike, user_cache
from pinets._limits import build_on_meta
from pinets._nearest import did_you_mean
from pinets._storage import difference, read_metadata, read_tensors, write_tensors
from pinets.models.cards import Card
from pinets.models.registry import build_model

__all__ = ["list_weights", "load_weights", "pretrained_model", "read_card", "save_weights", "weights_file"]

_SHIPPED = Path(__file__).parents[1] / "weights"
_EXPRESSION, _CARD = "model", "card"  # keys of the metadata; the first is that of pinets.spec


def list_weights() -> list[str]:
    """The names of the weights that come with pinets, and of those in the folder ``$PINETS_WEIGHTS``.

    >>> "mnist_ccp4" in list_weights()
    True
    """
    return sorted({file.stem for folder in _folders() for file in folder.glob("*.safetensors")})


def _folders() -> list[Path]:
    own = os.environ.get("PINETS_WEIGHTS")
    return [*([Path(own).expanduser()] if own else []), _SHIPPED]


def weights_file(source: PathLike) -> Path:
    """The file of weights that a name, a path or an address stands for.

    An address ends in the file's checksum, ``https://.../net.safetensors#sha256=...``; it is downloaded once.
    """
    text = str(source)
    if text.startswith(("https://", "http://")):
        return _downloaded(text)
    if text.endswith(".safetensors"):
        if not Path(text).is_file():
            raise FileNotFoundError(f"there is no file {text} of weights")
        return Path(text)
    for folder in _folders():
        if (file := folder / f"{text}.safetensors").is_file() and "/" not in text:
            return file
    raise ValueError(f"there are no weights named {text!r}{did_you_mean(text, list_weights())}")


def _downloaded(address: str) -> Path:
    url, _, checksum = address.partition("#sha256=")
    if len(checksum) != 64:
        raise ValueError(f"an address of weights must end in #sha256= and 64 digits, got {address}")
    pooch = require("pooch", extra="train")
    folder = user_cache("weights")
    try:
        return Path(pooch.retrieve(url, f"sha256:{checksum}", f"{checksum[:16]}.safetensors", folder))
    except Exception as error:  # whatever the network library raises
        raise OSError(f"{url} could not be downloaded: {_first_line(error)}") from error


def read_card(source: PathLike) -> Card:
    """The card of weights, by name, path or address.

    >>> read_card("mnist_ccp4").input_shape
    (1, 28, 28)
    """
    file = weights_file(source)
    metadata = read_metadata(file)
    if _CARD not in metadata:
        raise ValueError(f"{file} has no card: it was not written by pinets publish")
    return Card.from_json(metadata[_CARD], file)


def save_weights(path: PathLike, network: nn.Module, card: Card) -> None:
    """Write the weights of a network and their card to a safetensors file, atomically.

    Matrices and kernels are stored in the type that the card names; vectors, such as batch-norm statistics, in float32.
    """
    kind = getattr(torch, card.precision)
    tensors = {
        name: tensor.to(kind) if tensor.is_floating_point() and tensor.ndim > 1 else tensor
        for name, tensor in network.state_dict().items()
    }
    write_tensors(path, tensors, {_EXPRESSION: card.expression, _CARD: card.to_json()})


def load_weights(source: PathLike, **arguments: Any) -> tuple[nn.Module, Card]:
    """A trained network in evaluation mode, in float32, and its card.

    Args:
        source: Name, path or address of the weights.
        arguments: Arguments of the model's builder, in place of those of the card; the weights must still fit.

    Example:
        >>> network, card = load_weights("mnist_ccp4")
        >>> card.degree, network(torch.zeros(1, *card.input_shape)).shape
        ('4', torch.Size([1, 10]))
    """
    card = read_card(source)
    tensors, _ = read_tensors(weights_file(source))
    return _filled(card, tensors, arguments), card


def _filled(card: Card, tensors: Mapping[str, torch.Tensor], arguments: Mapping[str, Any]) -> nn.Module:
    """Build the network of a card and load weights into it; the card may be a stranger's."""
    asked = replace(card, options={**card.options, **arguments})
    build = partial(build_model, card.model, **asked.options)
    try:
        expected = build_on_meta(build)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"the weights {card.name} cannot be used: {_first_line(error)}") from error
    if found := difference(expected.state_dict(), tensors):
        raise ValueError(f"the weights {card.name} do not fit {asked.expression}: {found}")
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
        network = build()
    network.load_state_dict(dict(tensors))
    return network.eval()


def pretrained_model(name: str, source: bool | PathLike, arguments: Mapping[str, Any]) -> nn.Module:
    """The result of ``create_model(name, pretrained=source, **arguments)``."""
    if str(source).startswith("hub:"):
        from pinets.models.hub import HubNetwork

        held = HubNetwork.from_hub(str(source).removeprefix("hub:"))
        card, tensors = held.card, held.network.state_dict()
    else:
        source = _default(name) if source is True else str(source)
        card, (tensors, _) = read_card(source), read_tensors(weights_file(source))
    if name not in (card.name, card.model):
        raise ValueError(f"the weights {source} are of {card.model}, not of {name}")
    return _filled(card, tensors, arguments)


def _default(name: str) -> str:
    """The weights of a name: its own, or the only ones of the model."""
    known = list_weights()
    if name in known:
        return name
    fitting = [other for other in known if _model_of(other) == name]
    if len(fitting) > 1:
        raise ValueError(f"there are several weights of {name}: name one, as in pretrained={fitting[0]!r} ({fitting})")
    if not fitting:
        raise ValueError(f"there are no weights of {name!r}{did_you_mean(name, known)}")
    return fitting[0]


def _model_of(source: str) -> str | None:
    """The model of weights; None for a file in a folder of the user's that is not one of weights."""
    try:
        return read_card(source).model
    except ValueError:
        return None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
