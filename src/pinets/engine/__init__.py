"""Training: one loop for every task, run folders, checkpoints and logs."""

from pinets.engine.checkpoint import Checkpoint, CheckpointError, Checkpoints
from pinets.engine.compiling import compile_networks
from pinets.engine.loop import Plan, fit, make_accelerator
from pinets.engine.nonfinite import NonFiniteError, require_finite
from pinets.engine.optimization import (
    SGD,
    Adam,
    AdamW,
    Constant,
    Exponential,
    LinearDecay,
    MultiStep,
    Muon,
    OneCycle,
    Plateau,
    Warmup,
)
from pinets.engine.run import ChangedRecipeError, RunExistsError, RunFolder
from pinets.engine.task import Task

__all__ = [
    "Plan",
    "Task",
    "compile_networks",
    "fit",
    "make_accelerator",
    "require_finite",
    "SGD",
    "Adam",
    "AdamW",
    "Constant",
    "Exponential",
    "LinearDecay",
    "MultiStep",
    "Muon",
    "OneCycle",
    "Plateau",
    "Warmup",
    "Checkpoint",
    "CheckpointError",
    "Checkpoints",
    "RunFolder",
    "ChangedRecipeError",
    "RunExistsError",
    "NonFiniteError",
]
