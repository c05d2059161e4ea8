"""Verification and identification of faces: pure functions of embeddings, from any network, and lists.

Every similarity is a cosine. Figures are exact: ties never help, and rates are counts.
"""

from pinets.tasks.faces.metrics.gallery import Found, search
from pinets.tasks.faces.metrics.identification import Identification, identify, rank_rates
from pinets.tasks.faces.metrics.megaface import MegaFace, mate_pairs, measure_megaface
from pinets.tasks.faces.metrics.pairs import (
    GRID,
    Accuracy,
    PairVerification,
    cross_validated_accuracy,
    fold_numbers,
    hardest_pairs,
    pair_scores,
    verify_pairs,
)
from pinets.tasks.faces.metrics.rates import OperatingPoint, log_rates, operating_points, operating_points_from_tail
from pinets.tasks.faces.metrics.templates import (
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
    "cross_validated_accuracy",
    "fold_numbers",
    "hardest_pairs",
    "identify",
    "identify_combined",
    "identify_separate",
    "log_rates",
    "mate_pairs",
    "measure_megaface",
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
