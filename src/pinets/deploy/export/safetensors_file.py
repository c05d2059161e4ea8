"""safetensors: the weights alone, under the names of ``state_dict``."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from pinets._extras import require
from pinets._files import write_bytes
from pinets.deploy.export.metadata import KEY, Metadata

__all__ = ["read_safetensors", "write_safetensors"]


def write_safetensors(path: Path, model: nn.Module, metadata: Metadata) -> None:
    """Write the weights; where an expression builds the network, ``pinets.spec.load`` reads the file."""
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()}
    texts = {KEY: metadata.to_json(), **({} if metadata.model is None else {"model": metadata.model})}
    write_bytes(path, require("safetensors.torch", extra="deploy").save(tensors, metadata=texts))


def read_safetensors(path: Path) -> Metadata:
    """The metadata of a file; the weights are not looked at."""
    safetensors = require("safetensors", extra="deploy")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            texts = file.metadata() or {}
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a complete safetensors file: {error}") from error
    if KEY not in texts:
        raise ValueError(f"{path} was not exported by pinets: it has no metadata named {KEY!r}")
    return Metadata.from_json(texts[KEY], path)
