"""Networks as files for elsewhere: ONNX, ``torch.export`` and safetensors, each with what one must know to use it."""

from pinets.deploy.export.export import SUFFIXES, Target, export, read_metadata
from pinets.deploy.export.fold import fold_batch_norms
from pinets.deploy.export.metadata import Metadata, describe

__all__ = ["SUFFIXES", "Metadata", "Target", "describe", "export", "fold_batch_norms", "read_metadata"]
