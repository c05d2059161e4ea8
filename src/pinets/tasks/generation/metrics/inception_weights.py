"""Find, download and check the weights of the Inception network."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pinets._files import user_cache
from pinets._storage import checksum
from pinets.data.download import Fetch, Remote, data_folder, fetch, obtain_file
from pinets.data.errors import DataError, MissingDataError
from pinets.tasks.generation.metrics.inception import CLASSES, Inception, fold_batch_norm

__all__ = ["OFFICIAL", "find_weights", "load_inception"]

FOLDER = "inception"
OFFICIAL = Remote(
    (
        "https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/pt_inception-2015-12-05-6726825d.pth",
        "https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/weights-inception-2015-12-05-6726825d.pth",
    ),
    "sha256:6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2",
)
WITHOUT_CLASSES = "inception-2015-12-05.pth"  # the same network without its last layer: all but the Inception score
# checksum of all tensors but the last layer's, whatever the format of the file
CONTENT = "27a396bcc4f1cb63c428420918ccb9036c557a1d7baf7e19d8e15175654c5788"


def load_inception(
    path: str | Path | None = None,
    *,
    num_features: int = 2048,
    data_dir: str | Path | None = None,
    fetch: Fetch = fetch,
) -> Inception:
    """The Inception network with its weights, ready to extract features: evaluation mode, batch norm folded in.

    Args:
        path: A file of weights; that of :func:`find_weights` if left out.
        num_features: Which layer's features, see :class:`pinets.tasks.generation.metrics.inception.Inception`.
        data_dir: A data folder to look into before ``$PINETS_DATA`` and the user's cache.
        fetch: What downloads.
    """
    file = find_weights(data_dir, fetch) if path is None else Path(path)
    state = _read(file)
    has_classes = "fc.weight" in state
    network = Inception(num_features, nn.Linear(2048, CLASSES) if has_classes else None)
    # some files lack torch's counters of batches, which the network does not use
    network.load_state_dict({key: state.get(key, own) for key, own in network.state_dict().items()})
    network.eval().requires_grad_(False)
    return fold_batch_norm(network).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def find_weights(data_dir: str | Path | None = None, fetch: Fetch = fetch) -> Path:
    """The file of weights in ``inception/`` of the given folder, of ``$PINETS_DATA`` or of the user's cache.

    If there is none it is downloaded to one of the latter two: the given folder may be one of somebody's images.
    """
    anywhere = dict.fromkeys([data_folder(data_dir), data_folder(), user_cache("data")])
    folders = [folder / FOLDER for folder in anywhere]
    for name in (*_official_names(), WITHOUT_CLASSES):
        for folder in folders:
            if (folder / name).is_file():
                return folder / name
    target = data_folder() / FOLDER
    try:
        return obtain_file(OFFICIAL, target, fetch)
    except (OSError, DataError) as error:
        raise MissingDataError(
            f"the weights of the Inception network are not in {' or '.join(map(str, folders))}; put {OFFICIAL} there "
            f"({error})"
        ) from error


def _read(path: Path) -> Mapping[str, Tensor]:
    """The weights in a file, checked."""
    if not path.is_file():
        raise MissingDataError(f"there is no file {path}")
    found = checksum(path)
    official = OFFICIAL.checksum.removeprefix("sha256:")
    if path.name in _official_names() and found != official:
        raise DataError(
            f"{path}: it is damaged or another file: its sha256 is {found}, and that of the official file of this "
            f"name is {official}; delete it, or put {OFFICIAL} in its place"
        )
    content: Any = None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many types for damaged files
        raise DataError(
            f"{path}: cannot be read as weights; its sha256 is {found}; put {OFFICIAL} in its place"
        ) from error
    if found != official and _digest(content) != CONTENT:
        raise DataError(
            f"{path}: these are not the weights of TensorFlow's Inception network of 2015-12-05: its sha256 is "
            f"{found}, that of the official file is {official}, and its tensors are other ones; put {OFFICIAL} "
            "in its place"
        )
    return content  # type: ignore[no-any-return]


def _official_names() -> tuple[str, ...]:
    return tuple(url.rpartition("/")[2] for url in OFFICIAL.urls)


def _digest(content: Any) -> str | None:
    """SHA-256 of the tensors' names, shapes and values, without the last layer and torch's counters of batches."""
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        return None
    digest = hashlib.sha256()
    for key in sorted(content):
        if not key.startswith("fc.") and not key.endswith("num_batches_tracked"):
            value = content[key].contiguous()
            digest.update(f"{key} {tuple(value.shape)} {value.dtype}".encode())
            digest.update(memoryview(value.numpy()).cast("B") if value.numel() else b"")
    return digest.hexdigest()
