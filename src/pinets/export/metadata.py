"""Metadata of an exported network."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn

import pinets
from pinets._storage import from_json
from pinets.algebra import certify

__all__ = ["KEY", "Metadata", "describe"]

KEY = "pinets"  # the metadata are one JSON text under this key
_FORMAT = 1


@dataclass(frozen=True)
class Metadata:
    """How to use an exported network.

    Attributes:
        input_shape: The shape of one input, without the batch axis.
        polynomial: Whether :func:`pinets.certify` certifies the network as a polynomial of its input.
        degree: The exact degree, or None.
        classes: The names of the outputs, or None.
        preprocessing: How an input is prepared; ``Normalize`` of pixels from 0 to ``maximum`` is
            ``(x / maximum - mean) / std``. None if not known.
        recipe: The training recipe, as in ``recipe.json``, or None.
        model: The expression that builds the network, or None.
        folded: The number of folded batch norms.
        version: The version of pinets.
    """

    input_shape: tuple[int, ...]
    polynomial: bool
    degree: int | None = None
    classes: tuple[str, ...] | None = None
    preprocessing: Any = None
    recipe: Any = None
    model: str | None = None
    folded: int = 0
    version: str = pinets.__version__

    def to_json(self) -> str:
        return json.dumps({"format": _FORMAT, **asdict(self)})

    @staticmethod
    def from_json(text: str, source: object = "the metadata") -> Metadata:
        """Read what :meth:`to_json` wrote; errors name the source.

        >>> Metadata.from_json(Metadata((4,), True, 3, classes=("cat", "dog")).to_json()).classes
        ('cat', 'dog')
        """
        try:
            content = json.loads(text)
            version = content.pop("format")
            if version != _FORMAT:
                raise ValueError(f"format {version} is not known here, only {_FORMAT}")
            return from_json(Metadata, content, "metadata")
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{source} cannot be read: {error}") from error


def describe(network: nn.Module, example: Tensor, /, **known: Any) -> Metadata:
    """Metadata with the input shape and the certified degree; the other fields are given."""
    certificate = certify(network, example[:1])
    return Metadata(tuple(example.shape[1:]), certificate.polynomial, certificate.degree, **known)
