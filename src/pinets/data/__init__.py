"""Data sets in memory, in folders and in shards; their transforms; batches that can be resumed bit for bit."""

from pinets.data.batches import Batches
from pinets.data.damage import Damage, ForgivingSet
from pinets.data.decode import CentreCrop, Crop, RandomResizedCrop
from pinets.data.download import data_folder
from pinets.data.encoded import EncodedSet
from pinets.data.errors import DataError, MissingDataError
from pinets.data.face_pairs import FacePairs
from pinets.data.folders import FolderSet
from pinets.data.identities import open_identities
from pinets.data.lfw import LfwView1, read_lfw_view1
from pinets.data.mel import LogMel, PowerSpectrum, Waveform, mel_matrix
from pinets.data.mesh_files import read_shapes
from pinets.data.meshes import MeshSet, Standardize, mesh_splits, reduce_shapes
from pinets.data.packing import Packed, pack
from pinets.data.recordio import RecordSet, open_records
from pinets.data.registry import DATA_SETS, DataSet, load
from pinets.data.samples import ArraySet, ClipSet, ImageSet, SampleSet, Splits
from pinets.data.shards import ShardSet, open_shards, write_shards
from pinets.data.speech_augment import (
    RandomLoudness,
    RandomNoise,
    RandomShift,
    RandomSpeed,
    RandomStretch,
    speech_features,
)
from pinets.data.splits import hold_out, stratified_indices, stratified_sample
from pinets.data.transforms import Chunked, Compose, Normalize, RandomCrop, RandomFlip, Transform, precompute

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
