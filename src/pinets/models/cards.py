"""The card of a trained network: what it is, what it was measured at, and what it is not good for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from pinets._storage import from_json

__all__ = ["Card"]


@dataclass(frozen=True)
class Card:
    """The metadata of trained weights.

    Attributes:
        name: Name of the weights.
        summary: One line about them.
        model: Name of the registered model.
        options: Arguments of the model's builder.
        input_shape: Shape of one input, without the batch.
        parameters: Number of learnt parameters.
        polynomial: Whether :func:`pinets.certify` certifies the network as a polynomial of its input.
        degree: Its degree, as text: it may have hundreds of digits.
        metrics: Test metrics by name.
        data: Name of the training data.
        command: The command that trained the network.
        classes: Names of the outputs.
        preprocessing: How an input is prepared, as plain data.
        recipe: The training recipe, as in ``recipe.json``.
        precision: Type of the stored matrices and kernels; the network computes in float32.
        changed: What storing them in that type changed: by name, measured on test inputs.
        limits: What the network is not good for.
        license: Licence of the weights.
        version: Version of pinets that wrote the card.
    """

    name: str
    summary: str
    model: str
    input_shape: tuple[int, ...]
    parameters: int
    polynomial: bool
    degree: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    data: str = ""
    command: str = ""
    classes: tuple[str, ...] | None = None
    preprocessing: Any = None
    recipe: Any = None
    precision: str = "float32"
    changed: Mapping[str, float] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    license: str = "MIT"
    version: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str, source: object = "the card") -> Card:
        """Read what :meth:`to_json` wrote; errors name the source.

        >>> Card.from_json('{"name": 3}', "a.safetensors")
        Traceback (most recent call last):
        ValueError: the card of a.safetensors cannot be read: ...
        """
        try:
            return from_json(Card, json.loads(text), "card")
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"the card of {source} cannot be read: {error}") from error

    def prepare(self, pixels: Tensor) -> Tensor:
        """Images as bytes, (N, C, H, W), as the network takes them.

        >>> card = Card("a", "", "m", (1, 1, 1), 1, True,
        ...     preprocessing={"kind": "Normalize", "mean": [0.5], "std": [0.25], "maximum": 255.0})
        >>> card.prepare(torch.tensor([[[[255]]]], dtype=torch.uint8))
        tensor([[[[2.]]]])
        """
        known = self.preprocessing
        if not isinstance(known, dict) or known.get("kind") != "Normalize":
            raise ValueError(f"{self.name} has no normalisation of images to apply, but {known!r}")
        if pixels.is_floating_point():
            raise TypeError(f"images are prepared from bytes, 0 to {known['maximum']:g}, got {pixels.dtype}")
        mean, std = (torch.tensor(known[key]).view(-1, 1, 1) for key in ("mean", "std"))
        return (pixels / known["maximum"] - mean) / std

    def markdown(self) -> str:
        """The card as a page, with the front matter that model hubs read."""
        certificate = f"a polynomial of the input, of degree {self.degree}" if self.polynomial else "not a polynomial"
        rows = {
            "model": f"`{self.expression}`",
            "certificate": f"{certificate} (`pinets certify {self.name}`)",
            "parameters": f"{self.parameters:,}",
            "input": "x".join(map(str, self.input_shape)),
            **{f"test {name}": f"{value:.4f}" for name, value in self.metrics.items()},
            "data": self.data,
            **({"trained with": f"`{self.command}`"} if self.command else {}),  # none for data of one's own
            "stored as": self.precision
            + "".join(f"; {name.replace('_', ' ')} {value:.2g}" for name, value in self.changed.items()),
            "preprocessing": f"`{json.dumps(self.preprocessing)}`" if self.preprocessing is not None else "none",
            "classes": ", ".join(self.classes or ()) or "none",
            "licence": self.license,
        }
        front = f"---\nlicense: {self.license.lower()}\nlibrary_name: pinets\ntags: [polynomial-network]\n---\n\n"
        table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
        limits = "".join(f"- {limit}\n" for limit in self.limits)
        use = f'network = pinets.create_model("{self.name}", pretrained=True)'
        return (
            f"{front}# {self.name}\n\n{self.summary}\n\n```python\nimport pinets\n\n{use}\n```\n\n"
            f"| | |\n|---|---|\n{table}\n\n## Not good for\n\n{limits or '- nothing is known'}\n"
        )

    @property
    def expression(self) -> str:
        """The :mod:`pinets.spec` expression that builds the network."""
        return f"{self.model}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"
