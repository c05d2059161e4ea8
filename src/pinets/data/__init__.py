"""Data sets in memory, in folders and in shards; their transforms; batches that can be resumed bit for bit."""

from pinets.data.batches import Batches
from pinets.data.damage import Damage, ForgivingSet
from pinets.data.download import data_folder
from pinets.data.encoded import EncodedSet
from pinets.data.errors import DataError, MissingDataError
from pinets.data.faces.face_pairs import FacePairs
from pinets.data.faces.identities import open_identities
from pinets.data.faces.packing import Packed, pack
from pinets.data.formats.decode import CentreCrop, Crop, RandomResizedCrop
from pinets.data.formats.meshes import read_shapes
from pinets.data.formats.recordio import RecordSet, open_records
from pinets.data.formats.shards import ShardSet, open_shards, write_shards
from pinets.data.registry import DATA_SETS, DataSet, load
from pinets.data.samples import ArraySet, ClipSet, ImageSet, SampleSet, Splits
from pinets.data.sets.folders import FolderSet
from pinets.data.sets.lfw import LfwView1, read_lfw_view1
from pinets.data.sets.meshes import MeshSet, Standardize, mesh_splits, reduce_shapes
from pinets.data.splits import hold_out, stratified_indices, stratified_sample
from pinets.data.transforms.images import Chunked, Compose, Normalize, RandomCrop, RandomFlip, Transform, precompute
from pinets.data.transforms.mel import LogMel, PowerSpectrum, Waveform, mel_matrix
from pinets.data.transforms.speech import (
    RandomLoudness,
    RandomNoise,
    RandomShift,
    RandomSpeed,
    RandomStretch,
    speech_features,
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
    "FacePairs",
    "FolderSet",
    "ForgivingSet",
    "ImageSet",
    "LfwView1",
    "LogMel",
    "MeshSet",
    "MissingDataError",
    "Normalize",
    "Packed",
    "PowerSpectrum",
    "RandomCrop",
    "RandomFlip",
    "RandomLoudness",
    "RandomNoise",
    "RandomResizedCrop",
    "RandomShift",
    "RandomSpeed",
    "RandomStretch",
    "RecordSet",
    "SampleSet",
    "ShardSet",
    "Splits",
    "Standardize",
    "Transform",
    "Waveform",
    "data_folder",
    "hold_out",
    "load",
    "mel_matrix",
    "open_identities",
    "open_records",
    "mesh_splits",
    "open_shards",
    "pack",
    "precompute",
    "read_shapes",
    "reduce_shapes",
    "read_lfw_view1",
    "speech_features",
    "stratified_indices",
    "stratified_sample",
    "write_shards",
]
