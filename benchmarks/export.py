"""Is an exported network as fast in onnxruntime as it is in torch?

Each network runs in turn in torch and in onnxruntime, with folded batch norms, same inputs, same number of threads.
onnxruntime/eager = time in onnxruntime / time in eager torch. The outputs must agree.

Example:
  python -m benchmarks export --quick
  python -m benchmarks export --compile --only ccp4 --seconds 30 --threads 2
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.measuring import interleave, medians
from benchmarks.rows import Goal, Row, add_timing, choose
from pinets._extras import require
from pinets.export import Metadata, export
from pinets.models import create_model, model_entry

__all__ = ["FULL", "GOALS", "QUICK", "Case", "add_arguments", "measure", "open_session", "rows"]

GOALS = (Goal("onnxruntime/eager", at_most=1.0), Goal("outputs differ by", at_most=1e-4))


@dataclass(frozen=True)
class Case:
    """A registered model at a batch size."""

    model: str
    batch: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.model}, batch {self.batch}"


FULL = [
    Case(model, batch)
    for model in ("ccp4_mnist", "ccp8_mnist", "polynomial_resnet_cifar", "prodpoly_resnet18_cifar", "resnet18_cifar")
    for batch in (1, 32)
]
QUICK = [Case("ccp4_mnist", 32), Case("polynomial_resnet_cifar", 8, {"width": 16})]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    add_timing(parser, seconds=10.0, quick="two small networks")


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """One row for each case."""
    with tempfile.TemporaryDirectory() as folder:
        for case in choose(QUICK if args.quick else FULL, args.only):
            yield measure(case, Path(folder) / "model.onnx", seconds=args.seconds, compiled=args.compile)


def measure(case: Case, path: Path, *, seconds: float, compiled: bool = False) -> Row:
    """Export a model to a file and time it in both."""
    torch.compiler.reset()  # or the networks of earlier cases count as recompilations
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = create_model(case.model, **case.options).eval()
        x = torch.randn(case.batch, *model_entry(case.model).input_shape)
    export(model, x, path, to="onnx", fold=True, metadata=Metadata(tuple(x.shape[1:]), polynomial=False))
    session = open_session(path, torch.get_num_threads())
    given = {"input": x.numpy()}
    with torch.no_grad():
        ours, theirs = model(x), torch.from_numpy(session.run(None, given)[0])
    calls = {"eager": torch.no_grad()(lambda: model(x)), "onnxruntime": lambda: session.run(None, given)}
    if compiled:
        run = torch.compile(model, fullgraph=True)
        calls["compiled"] = torch.no_grad()(lambda: run(x))
    median = medians(interleave(calls, seconds=seconds))
    figures = {f"{name} ms": taken * 1e3 for name, taken in median.items()}
    figures["onnxruntime/eager"] = median["onnxruntime"] / median["eager"]
    figures["outputs differ by"] = float((ours - theirs).abs().max() / ours.abs().max())
    return Row(str(case), figures, GOALS)


def open_session(path: Path, threads: int | None = None) -> Any:
    """An onnxruntime session on the CPU."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # or it leaves files behind
    onnxruntime = require("onnxruntime", extra="deploy")
    options = onnxruntime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
