"""ONNX: networks for onnxruntime and everything else that reads it."""

from __future__ import annotations

from pathlib import Path

import torch

from pinets._extras import require
from pinets._files import write_bytes
from pinets.algebra.graph import quiet
from pinets.deploy.export.metadata import KEY, Metadata

__all__ = ["read_onnx", "write_onnx"]

_LARGEST = 2**31 - 1  # bytes in one file of protocol buffers


def write_onnx(path: Path, program: torch.export.ExportedProgram, metadata: Metadata) -> None:
    """Write an exported network, with one input ``input``, one output ``output`` and any batch."""
    optimizer = require("onnxscript.optimizer", extra="deploy")
    onnx_ir = require("onnx_ir", extra="deploy")
    size = sum(value.nbytes for value in (*program.state_dict.values(), *program.constants.values()))
    if size > _LARGEST:
        raise ValueError(f"the weights take {size / 2**30:.1f} GiB, but one ONNX file holds at most 2 GiB")
    with quiet():
        # what an optimiser would do, the runtime does when it loads the file; here it would fold batch norms unasked
        converted = torch.onnx.export(
            program,
            (),
            dynamo=True,
            optimize=False,
            verbose=False,
            input_names=["input"],
            output_names=["output"],
            dynamic_shapes=({0: "batch"},),  # the program's own, by this name
        )
        assert converted is not None
        model = converted.model
        optimizer.fold_constants(model)  # the runtime cannot compute all of them, and says so each time
        optimizer.remove_unused_nodes(model)
    model.metadata_props[KEY] = metadata.to_json()
    model.producer_name, model.producer_version = KEY, metadata.version
    write_bytes(path, onnx_ir.to_proto(model).SerializeToString())


def read_onnx(path: Path) -> Metadata:
    """The metadata of a file; the weights are not looked at."""
    onnx = require("onnx", extra="deploy")
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf has errors of its own
        raise ValueError(f"{path} is not a complete ONNX file: {error}") from error
    texts = {entry.key: entry.value for entry in model.metadata_props}
    if KEY not in texts:
        raise ValueError(f"{path} was not written by pinets: it has no metadata named {KEY!r}")
    return Metadata.from_json(texts[KEY], path)
