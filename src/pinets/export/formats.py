"""The three file formats: ONNX, ``torch.export`` and safetensors. Each file carries the metadata as one JSON text."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path

import torch
from torch import nn

from pinets._extras import require
from pinets._files import write_bytes
from pinets._storage import read_metadata, write_tensors
from pinets.algebra.graph import quiet
from pinets.export.metadata import KEY, Metadata

__all__ = [
    "read_onnx",
    "read_safetensors",
    "read_torch_export",
    "write_onnx",
    "write_safetensors",
    "write_torch_export",
]

_ONNX_LIMIT = 2**31 - 1  # bytes in one protocol buffer
_JSON = f"{KEY}.json"  # inside a file of torch.export
_MOST_BYTES = 10_000_000  # of metadata


def write_onnx(path: Path, program: torch.export.ExportedProgram, metadata: Metadata) -> None:
    """Write an exported network with input ``input``, output ``output`` and a free batch axis."""
    optimizer = require("onnxscript.optimizer", extra="deploy")
    onnx_ir = require("onnx_ir", extra="deploy")
    size = sum(value.nbytes for value in (*program.state_dict.values(), *program.constants.values()))
    if size > _ONNX_LIMIT:
        raise ValueError(f"the weights take {size / 2**30:.1f} GiB, but one ONNX file holds at most 2 GiB")
    with quiet():
        # optimize=True would fold batch norms unasked; onnxruntime optimises anyway when it loads the file
        converted = torch.onnx.export(
            program,
            (),
            dynamo=True,
            optimize=False,
            verbose=False,
            input_names=["input"],
            output_names=["output"],
            dynamic_shapes=({0: "batch"},),
        )
        assert converted is not None
        model = converted.model
        optimizer.fold_constants(model)  # onnxruntime warns about constants it cannot compute itself
        optimizer.remove_unused_nodes(model)
    model.metadata_props[KEY] = metadata.to_json()
    model.producer_name, model.producer_version = KEY, metadata.version
    write_bytes(path, onnx_ir.to_proto(model).SerializeToString())


def read_onnx(path: Path) -> Metadata:
    """The metadata of an ONNX file."""
    onnx = require("onnx", extra="deploy")
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf raises its own kinds
        raise ValueError(f"{path} is not a complete ONNX file: {error}") from error
    return _metadata({entry.key: entry.value for entry in model.metadata_props}, path)


def write_torch_export(path: Path, program: torch.export.ExportedProgram, metadata: Metadata) -> None:
    """Write an exported network; ``torch.export.load(path).module()`` runs it."""
    content = io.BytesIO()
    with quiet():
        torch.export.save(program, content, extra_files={_JSON: metadata.to_json()})
    write_bytes(path, content.getvalue())


def read_torch_export(path: Path) -> Metadata:
    """The metadata of a file of torch.export, read from its zip archive: no code in the file runs."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = [name for name in archive.namelist() if name.endswith(_JSON)]
            if not found:
                return _metadata({}, path)
            with archive.open(found[0]) as file:  # of a bomb, no more than metadata can have
                return _metadata({KEY: file.read(_MOST_BYTES).decode()}, path)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a complete file of torch.export: {error}") from error


def write_safetensors(path: Path, model: nn.Module, metadata: Metadata) -> None:
    """Write the weights. ``pinets.spec.load`` reads the file if the metadata hold the network's expression."""
    texts = {KEY: metadata.to_json(), **({} if metadata.model is None else {"model": metadata.model})}
    write_tensors(path, model.state_dict(), texts)


def read_safetensors(path: Path) -> Metadata:
    """The metadata of a safetensors file."""
    return _metadata(read_metadata(path), path)


def _metadata(texts: dict[str, str], path: Path) -> Metadata:
    if KEY not in texts:
        raise ValueError(f"{path} was not exported by pinets: it has no metadata named {KEY!r}")
    return Metadata.from_json(texts[KEY], path)
