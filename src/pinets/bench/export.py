"""Is an exported network as fast in onnxruntime as it is in torch?

Each network runs in turn in eager torch and in onnxruntime, same inputs, same number of threads.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pinets._extras import require
from pinets.bench.rows import Measured, Results, collect
from pinets.bench.timing import interleave, machine, medians
from pinets.deploy.export import Metadata, export
from pinets.models import create_model, model_entry

__all__ = ["FULL", "QUICK", "Case", "Row", "bench_export", "open_session"]

GOAL = 1.0  # onnxruntime's time relative to torch's, at most
PARITY = 1e-4


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


@dataclass(frozen=True)
class Row(Measured):
    """Seconds for one batch, and the largest difference of outputs relative to the largest output."""

    case: Case
    torch_seconds: float
    onnx_seconds: float
    difference: float

    @property
    def ratio(self) -> float:
        return self.onnx_seconds / self.torch_seconds

    @property
    def reached(self) -> bool:
        return self.ratio <= GOAL and self.difference <= PARITY

    def to_json(self) -> dict[str, Any]:
        return super().to_json() | {"ratio": self.ratio, "reached": self.reached}

    def __str__(self) -> str:
        return (
            f"{self.case!s:36} torch {self.torch_seconds * 1e3:9.3f} ms, onnxruntime {self.onnx_seconds * 1e3:9.3f} ms"
            f": {self.ratio:.2f} of the time; outputs differ by {self.difference:.0e}"
            f"{'' if self.reached else ', missed'}"
        )


def bench_export(
    which: Iterable[Case] = FULL, *, seconds: float = 10.0, on_row: Callable[[Row], None] | None = None
) -> Results[Row]:
    """Time every case.

    Args:
        which: The models.
        seconds: How long to time each.
        on_row: Called with each result as it comes.
    """
    facts = machine()
    with tempfile.TemporaryDirectory() as folder:
        rows = collect((measure(case, Path(folder) / "model.onnx", seconds) for case in which), on_row)
    return Results("export", rows, facts, {"goal": GOAL})


def measure(case: Case, path: Path, seconds: float) -> Row:
    """Export a model and time it in both."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = create_model(case.model, **case.options).eval()
        x = torch.randn(case.batch, *model_entry(case.model).input_shape)
    export(model, x, path, to="onnx", fold=True, metadata=Metadata(tuple(x.shape[1:]), polynomial=False))
    session = open_session(path, torch.get_num_threads())
    given = {"input": x.numpy()}
    with torch.no_grad():
        ours, theirs = model(x), torch.from_numpy(session.run(None, given)[0])
    difference = float((ours - theirs).abs().max() / ours.abs().max())
    calls = {"torch": _eager(model, x), "onnx": lambda: session.run(None, given)}
    taken = medians(interleave(calls, seconds=seconds))
    return Row(case, taken["torch"], taken["onnx"], difference)


def open_session(path: Path, threads: int | None = None) -> Any:
    """An onnxruntime session on the CPU."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # or it leaves files behind
    onnxruntime = require("onnxruntime", extra="deploy")
    options = onnxruntime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _eager(model: nn.Module, x: Tensor) -> Callable[[], object]:
    return torch.no_grad()(lambda: model(x))
