"""Faces on disk: identities to train on; pairs, templates and lists to evaluate on."""

from pinets.tasks.faces.data.identities import Packed, open_identities, pack
from pinets.tasks.faces.data.ijb import IJB, Subjects, TemplatePairs, read_ijb
from pinets.tasks.faces.data.lfw import LfwView1, read_lfw_view1
from pinets.tasks.faces.data.lists import ImageList, keep, parse_pairs, read_image_list, read_noises, same_person
from pinets.tasks.faces.data.pairs import RFW_SUBSETS, FacePairs, open_pack, open_pairs, open_rfw, rfw_files
from pinets.tasks.faces.data.recordio import open_records
from pinets.tasks.faces.data.yaleb import YaleB, light_subset, open_yaleb

__all__ = [
    "IJB",
    "RFW_SUBSETS",
    "FacePairs",
    "ImageList",
    "LfwView1",
    "Packed",
    "Subjects",
    "TemplatePairs",
    "YaleB",
    "keep",
    "light_subset",
    "open_identities",
    "open_pack",
    "open_pairs",
    "open_records",
    "open_rfw",
    "open_yaleb",
    "pack",
    "parse_pairs",
    "read_ijb",
    "read_image_list",
    "read_lfw_view1",
    "read_noises",
    "rfw_files",
    "same_person",
]
