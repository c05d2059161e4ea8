"""One function for all targets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from pinets._modes import evaluating
from pinets._nearest import did_you_mean
from pinets.algebra.graph import quiet
from pinets.algebra.inputs import check_inputs
from pinets.deploy.export.fold import fold_batch_norms
from pinets.deploy.export.metadata import Metadata, describe
from pinets.deploy.export.onnx_file import read_onnx, write_onnx
from pinets.deploy.export.safetensors_file import read_safetensors, write_safetensors
from pinets.deploy.export.torch_file import read_torch_export, write_torch_export

__all__ = ["SUFFIXES", "Target", "export", "read_metadata"]

Target = Literal["onnx", "torch_export", "safetensors"]
SUFFIXES: dict[str, str] = {"onnx": ".onnx", "torch_export": ".pt2", "safetensors": ".safetensors"}


def export(
    model: nn.Module,
    example: Tensor,
    path: str | Path,
    *,
    to: Target,
    fold: bool = False,
    metadata: Metadata | None = None,
) -> Metadata:
    """Write a network into one file that needs no pinets to be used.

    The network is taken in evaluation mode, for any number of inputs at a time. The file appears only when it is
    complete.

    Args:
        model: Any network that `torch.export` can trace, with one input and one output. It is left as it was.
        example: An input with its batch, on the CPU. The file takes any batch; of a network that compares the samples
            of a batch with each other, multiples of the example's.
        path: Where to write.
        to: ``"onnx"``, ``"torch_export"`` or ``"safetensors"`` (weights alone).
        fold: Whether batch norms become part of the operators before them.
        metadata: What is known of the network; found out if left out.

    Returns:
        What was written beside the weights.

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
        raise ValueError(f"a file for {to} must end in {SUFFIXES[to]}, by which it is read again; got {path}")
    known = describe(model, example) if metadata is None else metadata
    if to == "safetensors":
        write_safetensors(path, model, known)
        return known
    folded, count = fold_batch_norms(model, example) if fold else (model, 0)
    known = replace(known, folded=count)
    program = _program(folded, example)
    (write_onnx if to == "onnx" else write_torch_export)(path, program, known)
    return known


def read_metadata(path: str | Path) -> Metadata:
    """What :func:`export` wrote beside the weights, by the ending of the file's name."""
    path = Path(path)
    readers = {".onnx": read_onnx, ".pt2": read_torch_export, ".safetensors": read_safetensors}
    if path.suffix not in readers:
        raise ValueError(f"{path} must end in one of {', '.join(readers)}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    return readers[path.suffix](path)


def _program(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    """The network for any batch, or where it compares samples with each other, for multiples of the example's."""
    # tracing takes what is one for a constant, and keeps what it was given: not the example, which may be private
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
        node.meta.pop("stack_trace", None)  # the files that made it, by their place on this machine
    outputs = len(program.graph_signature.user_outputs)
    if outputs != 1:
        raise ValueError(f"a network with one output can be exported, this one has {outputs}")
    return program
