"""What faces are evaluated on: lists of pairs, packs, IJB's and MegaFace's lists, lights of Extended Yale B."""

from pinets.data.faces.arrays import ChosenRows, open_embeddings
from pinets.data.faces.ijb import IJB, Subjects, TemplatePairs, read_ijb
from pinets.data.faces.megaface import ImageList, keep, read_image_list, read_noises, write_features
from pinets.data.faces.packs import open_pack
from pinets.data.faces.pairs import RFW_SUBSETS, open_pairs, open_rfw, parse_pairs, rfw_files, same_person
from pinets.data.faces.pixels import FACE_PIXELS
from pinets.data.faces.yaleb import YaleB, light_subset, open_yaleb

__all__ = [
    "FACE_PIXELS",
    "ChosenRows",
    "IJB",
    "RFW_SUBSETS",
    "ImageList",
    "Subjects",
    "TemplatePairs",
    "YaleB",
    "keep",
    "light_subset",
    "open_embeddings",
    "open_pack",
    "open_pairs",
    "open_rfw",
    "open_yaleb",
    "parse_pairs",
    "read_ijb",
    "read_image_list",
    "read_noises",
    "rfw_files",
    "same_person",
    "write_features",
]
