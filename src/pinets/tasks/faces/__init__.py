"""Face recognition: training with ArcFace, and every protocol of verification and identification.

- ``recipe``, ``catalogue``, ``task``, ``arcface``, ``partial_fc``: training;
- ``data``: faces on disk; ``embeddings``: their embeddings, computed or opened;
- ``metrics``: pure functions of embeddings; ``results``: their figures for one model and dataset;
- ``evaluation``: files in, results and a report out; ``report``: tables, curves and pages.
"""

from pinets.tasks.faces import catalogue
from pinets.tasks.faces.arcface import ArcFace
from pinets.tasks.faces.data import (
    FacePairs,
    open_identities,
    open_pack,
    open_pairs,
    open_rfw,
    open_yaleb,
    pack,
    read_ijb,
    read_lfw_view1,
)
from pinets.tasks.faces.embeddings import FACE_PIXELS, embed, embed_faces, open_embeddings, write_features
from pinets.tasks.faces.evaluation import (
    EmbeddingFiles,
    FaceRun,
    ListedEmbeddings,
    MismatchError,
    evaluate_ijb,
    evaluate_megaface,
    evaluate_pairs,
    evaluate_rfw,
    evaluate_yaleb,
    score_lights,
    score_test_pairs,
)
from pinets.tasks.faces.metrics import Pooling, identify, measure_megaface, search, verify_pairs, verify_templates
from pinets.tasks.faces.partial_fc import PartialFC
from pinets.tasks.faces.recipe import Embedder, FacePack, FaceRecipe, LfwPeople
from pinets.tasks.faces.report import face_table, light_table, roc_drawing, write_face_report
from pinets.tasks.faces.results import FaceResult, load_results
from pinets.tasks.faces.task import FaceRecognition, Verification

__all__ = [
    "FACE_PIXELS",
    "ArcFace",
    "Embedder",
    "EmbeddingFiles",
    "FacePack",
    "FacePairs",
    "FaceRecipe",
    "FaceRecognition",
    "FaceResult",
    "FaceRun",
    "LfwPeople",
    "ListedEmbeddings",
    "MismatchError",
    "PartialFC",
    "Pooling",
    "Verification",
    "catalogue",
    "embed",
    "embed_faces",
    "evaluate_ijb",
    "evaluate_megaface",
    "evaluate_pairs",
    "evaluate_rfw",
    "evaluate_yaleb",
    "face_table",
    "identify",
    "light_table",
    "load_results",
    "measure_megaface",
    "open_embeddings",
    "open_identities",
    "open_pack",
    "open_pairs",
    "open_rfw",
    "open_yaleb",
    "pack",
    "read_ijb",
    "read_lfw_view1",
    "roc_drawing",
    "score_lights",
    "score_test_pairs",
    "search",
    "verify_pairs",
    "verify_templates",
    "write_face_report",
    "write_features",
]
