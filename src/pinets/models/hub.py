"""Trained networks on the hub of Hugging Face, through ``huggingface_hub.PyTorchModelHubMixin``."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from pinets._extras import require
from pinets._files import PathLike, write_bytes
from pinets._limits import build_on_meta
from pinets.models.cards import Card
from pinets.models.pretrained import load_weights
from pinets.models.registry import build_model

__all__ = ["HubNetwork"]

_Mixin: Any = require("huggingface_hub", extra="train").PyTorchModelHubMixin


class HubNetwork(nn.Module, _Mixin, library_name="pinets", license="mit"):  # type: ignore[misc,call-arg]
    """A trained network with its card, which can be saved to a folder and pushed to the hub.

    ``save_pretrained``, ``from_pretrained`` and ``push_to_hub`` are those of ``PyTorchModelHubMixin``: a folder holds
    ``config.json`` (the card), ``model.safetensors`` and ``README.md``.

    Args:
        card: The card, as plain data.

    Example:
        >>> import tempfile
        >>> network = HubNetwork.of("mnist_ccp4")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = network.save_pretrained(folder)
        ...     sorted(file.name for file in Path(folder).iterdir())
        ['README.md', 'config.json', 'model.safetensors']
    """

    def __init__(self, card: dict[str, Any]) -> None:
        super().__init__()
        self.card = Card.from_json(json.dumps(card), "config.json")
        build = partial(build_model, self.card.model, **self.card.options)
        build_on_meta(build)  # the card may be a stranger's
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced
            self.network = build()

    @classmethod
    def of(cls, source: PathLike) -> Self:
        """The network of weights that come with pinets, or of a file that ``pinets publish`` wrote."""
        network, card = load_weights(source)
        held = cls(asdict(card))
        held.network = network
        return held.eval()

    @classmethod
    def _from_pretrained(cls, *, strict: bool = True, **arguments: Any) -> Self:
        """Weights with a tensor missing are refused: the mixin would keep random numbers in its place."""
        return super()._from_pretrained(strict=True, **arguments)

    @classmethod
    def from_hub(cls, name: str) -> Self:
        """As ``from_pretrained``, with errors in one line."""
        if (folder := Path(name)).is_dir() and not (folder / "config.json").is_file():
            raise ValueError(f"{name} has no config.json: it does not hold a network that was saved for the hub")
        try:
            return cls.from_pretrained(name).eval()
        except Exception as error:  # of the network, the hub or the file: whatever the libraries raise
            lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
            text = " ".join(lines[: 1 + lines[0].endswith(":")])  # torch tells what is missing in its second line
            raise ValueError(f"no network could be loaded from the hub as {name!r}: {text}") from error

    def _save_pretrained(self, save_directory: Path) -> None:
        super()._save_pretrained(save_directory)
        write_bytes(save_directory / "README.md", self.card.markdown().encode())

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)
