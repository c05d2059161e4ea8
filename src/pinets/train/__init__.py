"""Training: loops that see ``nn.Module`` only, never a model class."""

from typing import TYPE_CHECKING

from pinets._lazy import lazily

if TYPE_CHECKING:
    from pinets.train.arcface import ArcFace
    from pinets.train.checkpoint import Checkpoint, CheckpointError, Checkpoints
    from pinets.train.classification import Classification
    from pinets.train.faces import FaceRecognition, Verification
    from pinets.train.generation import Generation
    from pinets.train.loop import Plan, fit, make_accelerator
    from pinets.train.mesh import MeshAutoencoding
    from pinets.train.nonfinite import NonFiniteError, require_finite
    from pinets.train.optimizers import SGD, Adam, AdamW
    from pinets.train.partial_fc import PartialFC
    from pinets.train.run import ChangedRecipeError, RunFolder
    from pinets.train.schedules import Constant, Exponential, LinearDecay, MultiStep, OneCycle, Plateau, Warmup
    from pinets.train.task import Task

__all__ = [
    "Plan",
    "Task",
    "fit",
    "make_accelerator",
    "require_finite",
    "Classification",
    "FaceRecognition",
    "Generation",
    "MeshAutoencoding",
    "ArcFace",
    "PartialFC",
    "Verification",
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
    "NonFiniteError",
]

# the estimators train without what the loop needs
__getattr__, __dir__ = lazily(
    __name__,
    {
        "pinets.train.arcface": ("ArcFace",),
        "pinets.train.checkpoint": ("Checkpoint", "CheckpointError", "Checkpoints"),
        "pinets.train.classification": ("Classification",),
        "pinets.train.faces": ("FaceRecognition", "Verification"),
        "pinets.train.generation": ("Generation",),
        "pinets.train.loop": ("Plan", "fit", "make_accelerator"),
        "pinets.train.mesh": ("MeshAutoencoding",),
        "pinets.train.nonfinite": ("NonFiniteError", "require_finite"),
        "pinets.train.optimizers": ("SGD", "Adam", "AdamW"),
        "pinets.train.partial_fc": ("PartialFC",),
        "pinets.train.run": ("ChangedRecipeError", "RunFolder"),
        "pinets.train.schedules": (
            "Constant",
            "Exponential",
            "LinearDecay",
            "MultiStep",
            "OneCycle",
            "Plateau",
            "Warmup",
        ),
        "pinets.train.task": ("Task",),
    },
)
