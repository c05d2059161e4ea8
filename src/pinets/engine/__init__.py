"""Training: one loop for every task, run folders, checkpoints and logs."""

from typing import TYPE_CHECKING

from pinets._lazy import lazily

if TYPE_CHECKING:
    from pinets.engine.checkpoint import Checkpoint, CheckpointError, Checkpoints
    from pinets.engine.loop import Plan, compile_networks, fit, make_accelerator
    from pinets.engine.nonfinite import NonFiniteError, require_finite
    from pinets.engine.optimization import (
        SGD,
        Adam,
        AdamW,
        Constant,
        Exponential,
        LinearDecay,
        MultiStep,
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

# lazily: the estimators train without the packages that the loop needs
__getattr__, __dir__ = lazily(
    __name__,
    {
        "pinets.engine.checkpoint": ("Checkpoint", "CheckpointError", "Checkpoints"),
        "pinets.engine.loop": ("Plan", "compile_networks", "fit", "make_accelerator"),
        "pinets.engine.nonfinite": ("NonFiniteError", "require_finite"),
        "pinets.engine.optimization": (
            *("SGD", "Adam", "AdamW"),
            *("Constant", "Exponential", "LinearDecay", "MultiStep", "OneCycle", "Plateau", "Warmup"),
        ),
        "pinets.engine.run": ("ChangedRecipeError", "RunExistsError", "RunFolder"),
        "pinets.engine.task": ("Task",),
    },
)
