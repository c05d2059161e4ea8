"""Quality of generated images by named protocols: FID, KID, precision and recall, Inception score."""

from pinets.tasks.generation.metrics.distances import (
    InceptionScore,
    Moments,
    frechet_distance,
    kernel_distance,
    precision_recall,
)
from pinets.tasks.generation.metrics.evaluation import GenerationResult, evaluate, evaluate_folder
from pinets.tasks.generation.metrics.protocols import PROTOCOLS, get_protocol, protocol_names
from pinets.tasks.generation.metrics.sources import FolderSource, TensorSource, data_set_source, find_source
from pinets.tasks.generation.metrics.statistics import FeatureStatistics, reference_statistics

__all__ = [
    "PROTOCOLS",
    "FeatureStatistics",
    "FolderSource",
    "GenerationResult",
    "InceptionScore",
    "Moments",
    "TensorSource",
    "data_set_source",
    "evaluate",
    "evaluate_folder",
    "find_source",
    "frechet_distance",
    "get_protocol",
    "kernel_distance",
    "precision_recall",
    "protocol_names",
    "reference_statistics",
]
