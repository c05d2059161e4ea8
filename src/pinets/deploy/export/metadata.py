"""What travels in a file beside the weights."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor, nn

import pinets
from pinets.algebra import certify

__all__ = ["KEY", "Metadata", "describe"]

KEY = "pinets"  # under which the metadata are kept, as one JSON text
_FORMAT = 1


@dataclass(frozen=True)
class Metadata:
    """What one has to know to use a network that one has not trained.

    Attributes:
        input_shape: Of one input, without the batch.
        polynomial: Whether the network is a polynomial of its input, as far as :func:`pinets.certify` can tell.
        degree: Its exact degree, or None.
        classes: The names of the outputs, or None.
        preprocessing: What is done to an input before the network; a ``Normalize`` of pixels from 0 to ``maximum`` is
            ``(x / maximum - mean) / std``. None if not known.
        recipe: The values it was trained with, as in ``recipe.json``, or None.
        model: The expression that builds the network, where there is one.
        folded: How many batch norms went into the operators before them.
        version: Of pinets.
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
        """Read what :meth:`to_json` wrote; of another version of the format, an error that names the source.

        >>> Metadata.from_json(Metadata((4,), True, 3, classes=("cat", "dog")).to_json()).classes
        ('cat', 'dog')
        """
        try:
            content = json.loads(text)
            version = content.pop("format")
            if version != _FORMAT:
                raise ValueError(f"format {version} is not known here, only {_FORMAT}")
            shape, classes = content.pop("input_shape"), content.pop("classes")
            return Metadata(tuple(shape), classes=None if classes is None else tuple(classes), **content)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{source} cannot be read: {error}") from error


def describe(network: nn.Module, example: Tensor, /, **known: Any) -> Metadata:
    """Find out the rest: the shape of an input, and the certified degree."""
    certificate = certify(network, example[:1])
    return Metadata(tuple(example.shape[1:]), certificate.polynomial, certificate.degree, **known)
