"""The datasets by name: how each is read, which folder it has, and where it is downloaded from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from filelock import FileLock

from pinets._files import PathLike
from pinets._nearest import did_you_mean
from pinets.data.download import (
    Fetch,
    Remote,
    data_folder,
    fetch,
    is_offline,
    made_folder,
    obtain_file,
    obtain_folder,
    offline,
)
from pinets.data.errors import DataError, MissingDataError, TooFewSamplesError
from pinets.data.formats.shards import read_shards
from pinets.data.samples import Splits
from pinets.data.sets.cifar import read_cifar10, read_cifar100
from pinets.data.sets.folders import read_image_folder, read_labelled_pictures, read_pictures
from pinets.data.sets.imagenet import read_imagenet, read_tiny_imagenet
from pinets.data.sets.mnist import IDX_FILES, read_fashion_mnist, read_mnist
from pinets.data.sets.yaleb import read_yaleb

__all__ = ["DATA_SETS", "LOCK", "DataSet", "load"]

LOCK = ".pinets.lock"  # in the data folder: held during a download


@dataclass(frozen=True)
class DataSet:
    """How to get one dataset.

    Args:
        summary: One line that says what it is.
        read: Reads the folder as :class:`Splits`, and takes the dataset's options. A reader that belongs to a task is
            named ``"module:function"`` and imported when it is needed: datasets do not depend on tasks.
        folders: Names that its folder may have; an archive is unpacked to the first. ``"."`` is the data folder itself.
        archive: An archive of the folder, to download.
        files: The files of the folder, to download one by one.
        by_hand: What to do if nothing can be downloaded.
        marker: A folder inside that must exist.
    """

    summary: str
    read: Callable[..., Splits[Any]] | str
    folders: tuple[str, ...]
    archive: Remote | None = None
    files: tuple[Remote, ...] = ()
    by_hand: str = ""
    marker: str = "."

    @property
    def reader(self) -> Callable[..., Splits[Any]]:
        """The function that reads the folder."""
        if not isinstance(self.read, str):
            return self.read
        module, _, name = self.read.partition(":")
        return getattr(import_module(module), name)

    @property
    def options(self) -> list[str]:
        """The options of the reader, such as ``validation``, or the ``size`` of images."""
        return list(inspect.signature(self.reader).parameters)[1:]


_TORONTO = "https://www.cs.toronto.edu/~kriz"
_ZALANDO = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist", "http://yann.lecun.com/exdb/mnist")  # the second often fails
_TENSORFLOW = "http://download.tensorflow.org/data"


def _idx_files(hosts: tuple[str, ...], *md5: str) -> tuple[Remote, ...]:
    return tuple(
        Remote(tuple(f"{host}/{name}.gz" for host in hosts), f"md5:{digest}")
        for name, digest in zip(IDX_FILES, md5, strict=True)
    )


DATA_SETS = {
    "cifar10": DataSet(
        "CIFAR-10: 60,000 colour images of 32x32, 10 classes",
        read_cifar10,
        ("cifar-10-batches-bin", "cifar-10-batches-py"),
        archive=Remote((f"{_TORONTO}/cifar-10-binary.tar.gz",), "md5:c32a1d4ab5d03f1284b67883e8d87530"),
    ),
    "cifar100": DataSet(
        "CIFAR-100: 60,000 colour images of 32x32, 100 classes",
        read_cifar100,
        ("cifar-100-binary", "cifar-100-python"),
        archive=Remote((f"{_TORONTO}/cifar-100-binary.tar.gz",), "md5:03b5dce01913d631647c71ecec9e9cb8"),
    ),
    "fashion_mnist": DataSet(
        "Fashion-MNIST: 70,000 grey images of 28x28, 10 classes",
        read_fashion_mnist,
        ("fashion-mnist", "FashionMNIST/raw"),
        files=_idx_files(
            (_ZALANDO,),
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    "mnist": DataSet(
        "MNIST: 70,000 grey images of 28x28, 10 digits",
        read_mnist,
        ("mnist", "MNIST/raw"),
        files=_idx_files(
            _MNIST,
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    "speech_commands": DataSet(
        "Speech Commands v0.02: 105,829 clips of 1 s, 35 words",
        "pinets.tasks.classification.speech.commands:read_speech_commands",
        ("speech_commands_v0.02", "SpeechCommands/speech_commands_v0.02"),
        archive=Remote(
            (f"{_TENSORFLOW}/speech_commands_v0.02.tar.gz",),
            "sha256:af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
        ),
    ),
    "speech_commands_test12": DataSet(
        "Speech Commands v0.02, the 12-class test set divided by speaker: 4,890 clips of 1 s",
        "pinets.tasks.classification.speech.commands:read_speech_commands_test12",
        ("speech_commands_test_set_v0.02",),
        archive=Remote(
            (f"{_TENSORFLOW}/speech_commands_test_set_v0.02.tar.gz",),
            "sha256:cc2a00c1147c2254e9be3fa0f779d8c17421dc349b86366567a8edfa9acd51df",
        ),
    ),
    "tiny_imagenet": DataSet(
        "Tiny ImageNet: 110,000 colour images of 64x64, 200 classes",
        read_tiny_imagenet,
        ("tiny-imagenet-200", "tiny-imagenet-50c"),
        archive=Remote(("http://cs231n.stanford.edu/tiny-imagenet-200.zip",), "md5:90528d7ca1a48142e341f4ef8d21d0de"),
    ),
    "imagenet": DataSet(
        "ImageNet (ILSVRC 2012): 1.33 million colour images, 1000 classes",
        read_imagenet,
        ("imagenet", "ILSVRC2012", "."),
        by_hand="its licence allows no automatic download: get ILSVRC 2012 from https://image-net.org, "
        "and put the training images in train/<class>, the validation images in val/<class>",
        marker="train",
    ),
    "yaleb": DataSet(
        "Extended Yale B, cropped: 2,414 grey faces of 38 people under 64 lights",
        read_yaleb,
        ("yaleb/CroppedYale", "CroppedYale"),
        by_hand="get the cropped Extended Yale B, and put its folder CroppedYale there",
    ),
    "lfwcrop": DataSet(
        "LFWcrop: 13,233 colour faces of 64x64, without labels",
        read_pictures,
        ("lfwcrop",),
        by_hand="get LFWcrop in colour, and put its images, in any folders, into lfwcrop there",
    ),
    "ffhq": DataSet(
        "FFHQ: 70,000 colour faces, without labels",
        read_pictures,
        ("ffhq", "ffhq256"),
        by_hand="get FFHQ's images from https://github.com/NVlabs/ffhq-dataset, and put them into ffhq there",
    ),
    "pictures": DataSet(
        "Your own images, in any folders, without labels",
        read_pictures,
        (".",),
        by_hand="put the images there",
    ),
    "coma": DataSet(
        "COMA: 20,466 faces of 12 people in 12 expressions, 5,023 vertices",
        "pinets.tasks.meshes.readers:read_coma",
        ("COMA_data", "coma"),
        by_hand="its licence allows no automatic download: get it from https://coma.is.tue.mpg.de, and unpack the "
        "subjects' folders there",
    ),
    "dfaust": DataSet(
        "DFAUST: 41,000 bodies of 10 people in motion, 6,890 vertices",
        "pinets.tasks.meshes.readers:read_dfaust",
        ("dfaust", "DFAUST"),
        by_hand="its licence allows no automatic download: get registrations_f.hdf5 and registrations_m.hdf5 from "
        "https://dfaust.is.tue.mpg.de",
    ),
    "mesh_faces": DataSet(
        "Your own faces in centimetres: train.npy, test.npy, template.obj",
        "pinets.tasks.meshes.readers:read_face_arrays",
        ("meshes/faces",),
        by_hand="put train.npy and test.npy, each (N, V, 3), and template.obj there",
    ),
    "mesh_bodies": DataSet(
        "Your own bodies in metres: train.npy, test.npy, template.obj",
        "pinets.tasks.meshes.readers:read_body_arrays",
        ("meshes/bodies",),
        by_hand="put train.npy and test.npy, each (N, V, 3), and template.obj there",
    ),
    "mesh_motions": DataSet(
        "Your own bodies in motion in metres, sequences of 60 frames: train.npy, test.npy, template.obj",
        "pinets.tasks.meshes.readers:read_motion_arrays",
        ("meshes/motions",),
        by_hand="put train.npy and test.npy, each (N, V, 3), sequence after sequence, and template.obj there",
    ),
    "mesh_heads": DataSet(
        "Your own heads in motion in centimetres, sequences of 60 frames: train.npy, test.npy, template.obj",
        "pinets.tasks.meshes.readers:read_head_arrays",
        ("meshes/heads",),
        by_hand="put train.npy and test.npy, each (N, V, 3), sequence after sequence, and template.obj there",
    ),
    "mesh_folder": DataSet(
        "Your own shapes of one topology, one mesh file for each: train/*, test/*",
        "pinets.tasks.meshes.readers:read_mesh_folder",
        (".",),
        by_hand="put the meshes in train/ and test/, and give that folder's parent",
        marker="train",
    ),
    "image_folder": DataSet(
        "Your own images: train/<class>/*, val/<class>/*, test/<class>/*",
        read_image_folder,
        (".",),
        by_hand="put the images of each class in a folder, train/<class>, and give that folder's parent",
    ),
    "labelled_pictures": DataSet(
        "Your own images in the same folders, each scaled whole and decoded once",
        read_labelled_pictures,
        (".",),
        by_hand="put the images of each class in a folder, <class>, and give that folder's parent",
    ),
    "sound_folder": DataSet(
        "Your own sounds: <class>/*.wav, or train/<class>/*.wav and test/<class>/*.wav",
        "pinets.tasks.classification.speech.audio:read_sound_folder",
        (".",),
        by_hand="put the sounds of each class in a folder, <class>, and give that folder's parent",
    ),
    "shards": DataSet(
        "Your own WebDataset shards: train-*.tar, validation-*.tar, test-*.tar",
        read_shards,
        (".",),
        by_hand="put the shards, train-000000.tar and so on, there; pinets.data.write_shards makes them",
    ),
}


def load(
    name: str, data_dir: PathLike | None = None, *, download: bool = True, fetch: Fetch = fetch, **options: Any
) -> Splits[Any]:
    """Load a dataset: its training, validation and test samples.

    Args:
        name: One of :data:`DATA_SETS`.
        data_dir: The data folder; ``$PINETS_DATA`` or the user's cache if left out.
        download: Whether to download a dataset that is missing.
        fetch: Downloads an address to a file; for tests, or a proxy of your own.
        options: The dataset's options, such as ``validation`` (the share held out), ``seed``, or ``size`` of images.

    Example:
        >>> load("cifar11")
        Traceback (most recent call last):
        ValueError: there is no data set 'cifar11'; did you mean 'cifar10'?
    """
    if name not in DATA_SETS:
        raise ValueError(f"there is no data set {name!r}{did_you_mean(name, DATA_SETS)}")
    data_set = DATA_SETS[name]
    for option in options:
        if option not in data_set.options:
            raise TypeError(f"{name} has no option {option!r}{did_you_mean(option, data_set.options)}")
    if not 0 < options.get("validation", 0.1) < 1:
        raise ValueError(f"validation must lie between 0 and 1, got {options['validation']}")
    with nullcontext() if download else offline():
        folder = _locate(name, data_set, data_folder(data_dir), fetch)
    try:
        return data_set.reader(folder, **options)
    except TooFewSamplesError as error:
        raise TooFewSamplesError(f"{folder}: {error}") from error
    except (DataError, MissingDataError) as error:
        if data_dir is not None or data_set.folders != (".",):
            raise
        told = f"{error}; {name} are data of your own: name their folder, or {folder} is taken"
        raise MissingDataError(told) from error


def _locate(name: str, data_set: DataSet, root: Path, fetch: Fetch) -> Path:
    """The folder of a dataset, downloaded if it is missing; of several processes one downloads, and the others wait."""
    folder, complete = _look(data_set, root)
    if complete:
        return folder
    if not data_set.archive and not data_set.files:
        raise MissingDataError(_what_to_do(name, data_set, root, folder))
    brought = data_set.archive is not None and (folder.parent / data_set.archive.name).exists()
    if is_offline() and not brought:  # before the lock, which is a file in the data folder
        raise MissingDataError(_what_to_do(name, data_set, root, folder, "downloading was not allowed"))
    try:
        with made_folder(root, LOCK), FileLock(root / LOCK):
            folder, complete = _look(data_set, root)  # another process may have been here
            if data_set.archive and not complete:
                obtain_folder(data_set.archive, folder, fetch)
            for remote in _missing(data_set, folder):
                obtain_file(remote, folder, fetch)
    except (OSError, DataError) as error:
        raise MissingDataError(_what_to_do(name, data_set, root, folder, str(error))) from error
    return folder


def _look(data_set: DataSet, root: Path) -> tuple[Path, bool]:
    """The folder of a dataset, whether it exists or not, and whether it is complete."""
    found = [root / folder for folder in data_set.folders if (root / folder / data_set.marker).is_dir()]
    folder = found[0] if found else root / data_set.folders[0]
    return folder, bool(found) and not _missing(data_set, folder)


def _missing(data_set: DataSet, folder: Path) -> list[Remote]:
    """The files that are missing, compressed and plain."""
    return [
        remote
        for remote in data_set.files
        if not any((folder / name).exists() for name in (remote.name, remote.name.removesuffix(".gz")))
    ]


def _what_to_do(name: str, data_set: DataSet, root: Path, folder: Path, reason: str = "") -> str:
    lines = [f"{name} is not in {root}" + (f" ({reason})" if reason else "")]
    if data_set.archive:
        lines.append(f"put {data_set.archive} into {root}, or what is in it into {folder}")
    elif data_set.files:
        lines += [f"put these files into {folder}:", *map(str, data_set.files)]
    else:
        lines.append(data_set.by_hand)
    lines.append("or name another data folder, in the call or by PINETS_DATA")
    return "\n".join(lines)
