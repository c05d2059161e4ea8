"""Data sets in memory, in folders and in shards; their transforms; batches that can be resumed bit for bit."""

from pinets.data.batches import Batches
from pinets.data.decode import CentreCrop, Crop, RandomResizedCrop
from pinets.data.download import data_folder
from pinets.data.encoded import EncodedSet
from pinets.data.errors import DataError, MissingDataError
from pinets.data.folders import FolderSet
from pinets.data.mel import LogMel, PowerSpectrum, Waveform, mel_matrix
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
from pinets.data.splits import hold_out, stratified_indices
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
    "DataError",
    "DataSet",
    "EncodedSet",
    "FolderSet",
    "ImageSet",
    "LogMel",
    "MissingDataError",
    "Normalize",
    "PowerSpectrum",
    "RandomCrop",
    "RandomFlip",
    "RandomLoudness",
    "RandomNoise",
    "RandomResizedCrop",
    "RandomShift",
    "RandomSpeed",
    "RandomStretch",
    "SampleSet",
    "ShardSet",
    "Splits",
    "Transform",
    "Waveform",
    "data_folder",
    "hold_out",
    "load",
    "mel_matrix",
    "open_shards",
    "precompute",
    "speech_features",
    "stratified_indices",
    "write_shards",
]
