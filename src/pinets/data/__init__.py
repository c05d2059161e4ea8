"""Datasets in memory, in folders and in shards; their transforms; batches that resume bit for bit."""

from pinets.data.batches import Batches
from pinets.data.damage import Damage, ForgivingSet
from pinets.data.download import data_folder
from pinets.data.encoded import EncodedSet
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.images import CentreCrop, Crop, RandomResizedCrop
from pinets.data.formats.shards import ShardSet, open_shards, write_shards
from pinets.data.registry import DATA_SETS, DataSet, load
from pinets.data.samples import ArraySet, ClipSet, ImageSet, SampleSet, Splits
from pinets.data.sets.folders import FolderSet
from pinets.data.splits import hold_out, stratified_indices, stratified_sample
from pinets.data.transforms import (
    Chunked,
    Compose,
    Normalize,
    RandomColour,
    RandomCrop,
    RandomErase,
    RandomFlip,
    RandomGrain,
    RandomLight,
    RandomSimilarity,
    Transform,
    precompute,
)

__all__ = [
    "DATA_SETS",
    "ArraySet",
    "Batches",
    "CentreCrop",
    "Chunked",
    "ClipSet",
    "Compose",
    "Crop",
    "Damage",
    "DataError",
    "DataSet",
    "EncodedSet",
    "FolderSet",
    "ForgivingSet",
    "ImageSet",
    "MissingDataError",
    "Normalize",
    "RandomColour",
    "RandomCrop",
    "RandomErase",
    "RandomFlip",
    "RandomGrain",
    "RandomLight",
    "RandomResizedCrop",
    "RandomSimilarity",
    "SampleSet",
    "ShardSet",
    "Splits",
    "Transform",
    "data_folder",
    "hold_out",
    "load",
    "open_shards",
    "precompute",
    "stratified_indices",
    "stratified_sample",
    "write_shards",
]
