"""Verification and identification of faces: pure functions of embeddings, from any network, and lists.

Every similarity is a cosine. Figures are exact: ties never help, and rates are counts.
"""

from pinets.metrics.faces.blocks import Found, search
from pinets.metrics.faces.embeddings import Summed, embed, embed_faces
from pinets.metrics.faces.identification import Identification, identify, rank_rates
from pinets.metrics.faces.megaface import MegaFace, evaluate_megaface, mate_pairs
from pinets.metrics.faces.pairs import (
    GRID,
    Accuracy,
    PairVerification,
    cross_validated_accuracy,
    fold_numbers,
    hardest_pairs,
    pair_scores,
    verify_pairs,
)
from pinets.metrics.faces.rates import OperatingPoint, log_rates, operating_points, operating_points_from_tail
from pinets.metrics.faces.templates import (
    OpenSet,
    Pooling,
    identify_combined,
    identify_separate,
    pool_templates,
    template_scores,
    verify_templates,
)

__all__ = [
    "GRID",
    "Accuracy",
    "Found",
    "Identification",
    "MegaFace",
    "OpenSet",
    "OperatingPoint",
    "PairVerification",
    "Pooling",
    "Summed",
    "cross_validated_accuracy",
    "embed",
    "embed_faces",
    "evaluate_megaface",
    "fold_numbers",
    "hardest_pairs",
    "identify",
    "identify_combined",
    "identify_separate",
    "log_rates",
    "mate_pairs",
    "operating_points",
    "operating_points_from_tail",
    "pair_scores",
    "pool_templates",
    "rank_rates",
    "search",
    "template_scores",
    "verify_pairs",
    "verify_templates",
]
