"""``torch.export``: networks that torch runs without the code that made them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import torch

from pinets._files import write_bytes
from pinets.algebra.graph import quiet
from pinets.deploy.export.metadata import KEY, Metadata

__all__ = ["read_torch_export", "write_torch_export"]

_FILE = f"{KEY}.json"


def write_torch_export(path: Path, program: torch.export.ExportedProgram, metadata: Metadata) -> None:
    """Write an exported network; ``torch.export.load(path).module()`` runs it."""
    content = io.BytesIO()
    with quiet():
        torch.export.save(program, content, extra_files={_FILE: metadata.to_json()})
    write_bytes(path, content.getvalue())


def read_torch_export(path: Path) -> Metadata:
    """The metadata of a file; nothing in it is run, and the weights are not looked at."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [name for name in archive.namelist() if name.endswith(_FILE)]
            if not found:
                raise ValueError(f"{path} was not written by pinets: it has no file {_FILE}")
            return Metadata.from_json(archive.read(found[0]).decode(), path)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is not a complete file of torch.export: {error}") from error
