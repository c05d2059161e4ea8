"""Trained networks as ONNX, ``torch.export`` or safetensors files, with their metadata."""

from pinets.export._export import SUFFIXES, Target, export, read_metadata
from pinets.export.fold import fold_batch_norms
from pinets.export.metadata import Metadata, describe

__all__ = ["SUFFIXES", "Metadata", "Target", "describe", "export", "fold_batch_norms", "read_metadata"]
