"""``export`` writes a network in any of the formats; ``read_metadata`` reads what travels with it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from pinets._modes import evaluating
from pinets._nearest import did_you_mean
from pinets.algebra.graph import quiet
from pinets.algebra.inputs import check_inputs
from pinets.export.fold import fold_batch_norms
from pinets.export.formats import (
    read_onnx,
    read_safetensors,
    read_torch_export,
    write_onnx,
    write_safetensors,
    write_torch_export,
)
from pinets.export.metadata import Metadata, describe
from pinets.export.page import check_page, write_page

__all__ = ["SUFFIXES", "Target", "export", "read_metadata"]

Target = Literal["onnx", "torch_export", "safetensors", "html"]
SUFFIXES: dict[str, str] = {
    "onnx": ".onnx",
    "torch_export": ".pt2",
    "safetensors": ".safetensors",
    "html": ".html",
}


def export(
    model: nn.Module,
    example: Tensor,
    path: str | Path,
    *,
    to: Target,
    fold: bool = False,
    metadata: Metadata | None = None,
    runtime: str | Path | None = None,
) -> Metadata:
    """Write a network to one file that runs without pinets.

    The network is exported in evaluation mode, with a free batch axis. The file is written atomically.

    Args:
        model: Any network that `torch.export` can trace, with one input and one output. It is not changed.
        example: An input with a batch axis, on the CPU. A network that compares the samples of a batch with each
            other can be exported too, for multiples of the example's batch size.
        path: The file to write; its suffix must be that of the format.
        to: ``"onnx"``, ``"torch_export"``, ``"safetensors"`` (weights alone) or ``"html"``, a page that runs the ONNX
            file in a browser.
        fold: Whether to fold batch norms into the operators before them.
        metadata: What to write with the weights; by default the input shape and the certified degree.
        runtime: For a page, the folder ``dist`` of onnxruntime-web, which becomes a part of the page.

    Returns:
        The metadata that were written.

    Example:
        >>> import tempfile
        >>> from pinets import CCP
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = export(CCP(4, 2, rank=3, order=3), torch.randn(1, 4), f"{folder}/cubic.pt2", to="torch_export")
        ...     read_metadata(f"{folder}/cubic.pt2").degree
        3
    """
    if to not in get_args(Target):
        raise ValueError(f"there is no target {to!r}{did_you_mean(to, get_args(Target))}")
    if fold and to == "safetensors":
        raise ValueError(
            "safetensors keeps the weights under the names of the network, and folding would leave some without a "
            "module: export to onnx or torch_export, or do not fold"
        )
    (example,) = check_inputs(example)
    path = Path(path)
    if path.suffix != SUFFIXES[to]:
        raise ValueError(f"a file for {to} must end in {SUFFIXES[to]}, got {path}")
    if to != "safetensors":
        _require_runs(model, example)
    known = describe(model, example) if metadata is None else metadata
    if to == "safetensors":
        write_safetensors(path, model, known)
        return known
    if to == "html":
        browser = check_page(known, runtime)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "network.onnx"
            known = export(model, example, file, to="onnx", fold=fold, metadata=known)
            write_page(path, file.read_bytes(), known, browser)
        return known
    folded, count = fold_batch_norms(model, example) if fold else (model, 0)
    known = replace(known, folded=count)
    program = _program(folded, example)
    (write_onnx if to == "onnx" else write_torch_export)(path, program, known)
    return known


def read_metadata(path: str | Path) -> Metadata:
    """The metadata that :func:`export` wrote to a file."""
    path = Path(path)
    readers = {".onnx": read_onnx, ".pt2": read_torch_export, ".safetensors": read_safetensors}
    if path.suffix not in readers:
        raise ValueError(f"{path} must end in one of {', '.join(readers)}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return readers[path.suffix](path)


def _require_runs(model: nn.Module, example: Tensor) -> None:
    """Refuse an example of another type or shape than the network takes: tracing would let some of these pass."""
    try:
        with evaluating(model), torch.no_grad(), torch.random.fork_rng(devices=[]):
            model(example)
    except RuntimeError as error:
        text = str(error).strip().partition("\n")[0]
        kind = f"{tuple(example.shape)} {str(example.dtype).removeprefix('torch.')}"
        raise ValueError(f"the network does not take the example, of shape {kind}: {text}") from error


def _program(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    """The traced network, for any batch size or, failing that, for multiples of the example's."""
    # twice: tracing takes a batch size of 1 for a constant. Zeros: the program keeps its example, which may be private
    twice = torch.zeros_like(torch.cat([example, example]))
    sizes = [torch.export.Dim("batch", min=1), len(example) * torch.export.Dim("groups", min=1)]
    failures: list[Exception] = []
    with evaluating(model), torch.no_grad(), quiet():
        for size in sizes:
            try:
                program = torch.export.export(model, (twice,), dynamic_shapes=({0: size},))
                break
            except Exception as error:
                failures.append(error)
        else:
            text = str(failures[0]).strip().partition("\n")[0]
            raise ValueError(f"the network cannot be traced for any batch: {text}") from failures[0]
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine
    outputs = len(program.graph_signature.user_outputs)
    if outputs != 1:
        raise ValueError(f"a network with one output can be exported, this one has {outputs}")
    return program
