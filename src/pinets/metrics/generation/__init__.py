"""How good generated images are: FID, KID, precision and recall, Inception score, by protocols that have a name."""

from pinets.metrics.generation.evaluation import GenerationResult, evaluate
from pinets.metrics.generation.folders import evaluate_folder
from pinets.metrics.generation.frechet import Moments, frechet_distance
from pinets.metrics.generation.kernel import kernel_distance
from pinets.metrics.generation.manifold import precision_recall
from pinets.metrics.generation.protocols import PROTOCOLS, get_protocol
from pinets.metrics.generation.score import InceptionScore
from pinets.metrics.generation.sources import FolderSource, TensorSource, data_set_source, find_source
from pinets.metrics.generation.statistics import FeatureStatistics, reference_statistics

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
    "reference_statistics",
]
