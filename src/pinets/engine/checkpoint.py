"""Checkpoints: folders of safetensors and JSON that are complete and undamaged, or refused.

``checkpoints/step-00000120/`` holds ``shared.safetensors`` (networks, optimizers: the same on every process),
``process-K.safetensors`` and ``process-K.json`` for the state of each process (random generators, position in the data,
shards) and ``checkpoint.json`` with the rest and the checksums of all files. The folder is written under a temporary
name, flushed to the disk and renamed, so that it exists whole or not at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from pinets._files import flush_folder
from pinets._storage import checksum, difference, digest, read_json, read_tensors, write_json, write_tensors

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Checkpoint", "CheckpointError", "Checkpoints", "pack", "unpack"]

_FORMAT = "pinets checkpoint, version 1"
_INDEX = "checkpoint.json"
_SHARED = "shared.safetensors"
_TEMPORARY = ".tmp-"
_KEPT = 2  # checkpoints per run: the older one serves if the newest is damaged


class CheckpointError(ValueError):
    """A checkpoint that cannot be used or written; the message names the file."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are complete and undamaged."""

    folder: Path
    step: int
    processes: int
    shared: dict[str, Any]

    @property
    def file(self) -> Path:
        """The file of the networks."""
        return self.folder / _SHARED

    def require_fits(self, name: str, network: nn.Module) -> None:
        """Raise a :class:`CheckpointError` that names the first tensor in which a network differs from the saved."""
        saved = self.shared["networks"]
        if name not in saved:
            raise CheckpointError(f"{self.file} has the networks {sorted(saved)}, and no {name!r}")
        if found := difference(network.state_dict(), saved[name]):
            raise CheckpointError(f"{self.file} is of another model: {name}.{found}")

    def local(self, process: int) -> dict[str, Any]:
        """The state of one process."""
        file = self.folder / f"process-{process}.json"
        with _well_formed(file):
            return unpack(read_json(file), read_tensors(file.with_suffix(".safetensors"))[0])


class Checkpoints:
    """The checkpoints of one run, of which the newest two stay.

    Args:
        folder: Where they are; all processes see it.
        owner: Checksum of the recipe; checkpoints of another recipe are refused.
    """

    def __init__(self, folder: Path, owner: str) -> None:
        self.folder, self.owner = folder, owner

    def save(self, step: int, shared: Mapping[str, Any], local: Mapping[str, Any], accelerator: Accelerator) -> Path:
        """Write a checkpoint from all processes; if that fails, those that exist stay as they were."""
        final = self.folder / f"step-{step:08d}"
        temporary = self.folder / f"{_TEMPORARY}{final.name}"
        try:
            if accelerator.is_main_process:
                self.folder.mkdir(parents=True, exist_ok=True)
                for left_by_a_killed_process in self.folder.glob(f"{_TEMPORARY}*"):
                    shutil.rmtree(left_by_a_killed_process)
                temporary.mkdir()
            accelerator.wait_for_everyone()
            process = f"process-{accelerator.process_index}"
            write_json(temporary / f"{process}.json", _save_tensors(temporary / f"{process}.safetensors", local))
            if accelerator.is_main_process:
                skeleton = _save_tensors(temporary / _SHARED, shared)
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                content = {
                    "format": _FORMAT,
                    "owner": self.owner,
                    "step": step,
                    "processes": accelerator.num_processes,
                    "files": {path.name: checksum(path) for path in sorted(temporary.iterdir())},
                    "shared": skeleton,
                }
                write_json(temporary / _INDEX, {"sha256": digest(content), "content": content})
                if final.exists():  # one that was refused when the run was resumed
                    shutil.rmtree(final)
                os.replace(temporary, final)
                flush_folder(self.folder)
                self._remove_old()
        except Exception as error:
            if accelerator.is_main_process:
                shutil.rmtree(temporary, ignore_errors=True)
            raise CheckpointError(
                f"cannot write the checkpoint {final}: {error}; {self.last_good()}; free some space and resume"
            ) from error
        accelerator.wait_for_everyone()
        return final

    def newest(
        self, accepts: Callable[[Checkpoint], None] = lambda _: None, refused: Callable[[str], None] = lambda _: None
    ) -> Checkpoint | None:
        """The newest checkpoint that is undamaged and that ``accepts`` raises no :class:`CheckpointError` for.

        Args:
            accepts: Checks the content, beyond the files themselves.
            refused: Called with the reason for each checkpoint that is passed over.

        Returns:
            ``None`` if there are no checkpoints. If there are some and none can be used, that is an error.
        """
        reasons = []
        for folder in reversed(self.folders()):
            try:
                checkpoint = self.read(folder)
                accepts(checkpoint)
            except (CheckpointError, OSError) as error:
                reasons.append(str(error))
                refused(str(error))
                continue
            return checkpoint
        if reasons:
            raise CheckpointError("none of the checkpoints can be used: " + "; ".join(reasons))
        return None

    def folders(self) -> list[Path]:
        """All checkpoints, oldest first, whatever their state."""
        return sorted(self.folder.glob("step-*"))

    def read(self, folder: Path) -> Checkpoint:
        """Read a checkpoint; a :class:`CheckpointError` names the file that is missing or damaged."""
        index = folder / _INDEX
        if not index.is_file():
            raise CheckpointError(f"{index} is missing")
        try:
            document = read_json(index)
            content, expected = document["content"], document["sha256"]
            known = content["format"] == _FORMAT
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{index} is not a checkpoint of pinets: {error}") from error
        if not known:
            raise CheckpointError(f"{index} is of another format, {content['format']!r} instead of {_FORMAT!r}")
        if digest(content) != expected:
            raise CheckpointError(f"{index} was changed after it was written: its checksum differs")
        if content.get("owner") != self.owner:
            raise CheckpointError(f"{index} belongs to another recipe")
        with _well_formed(index):
            files = {folder / name: expected for name, expected in content["files"].items()}
        for path, expected in files.items():
            if not path.is_file():
                raise CheckpointError(f"{path} is missing")
            if checksum(path) != expected:
                raise CheckpointError(f"{path} is truncated or was changed: its checksum differs")
        with _well_formed(index):
            shared = unpack(content["shared"], read_tensors(folder / _SHARED)[0])
            step, processes = int(content["step"]), int(content["processes"])
            if not all(isinstance(network, dict) for network in shared["networks"].values()):
                raise ValueError("its networks are no state dicts")
            return Checkpoint(folder, step, processes, shared)

    def _remove_old(self) -> None:
        for folder in self.folders()[:-_KEPT]:
            # renamed first: a removal that is interrupted must not leave half a checkpoint under a valid name
            doomed = self.folder / f"{_TEMPORARY}{folder.name}"
            os.replace(folder, doomed)
            shutil.rmtree(doomed)

    def last_good(self) -> str:
        """The newest checkpoint, for an error message."""
        folders = self.folders()
        return f"the last good checkpoint is {folders[-1]}" if folders else "there is no checkpoint yet"


@contextmanager
def _well_formed(file: Path) -> Iterator[None]:
    """Turn errors from malformed content into a :class:`CheckpointError` that names the file."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise CheckpointError(f"{file} is malformed, though its checksum is right: {error!r}") from error


def _save_tensors(path: Path, state: Mapping[str, Any]) -> Any:
    """Write the tensors of a state and return its skeleton."""
    skeleton, tensors = pack(dict(state))
    write_tensors(path, tensors)
    return skeleton


# ------------------------------------------------------------------------------------- nested states, without pickle

_TENSOR, _TUPLE, _ITEMS = "tensor:", "tuple:", "items:"  # a dictionary with one such key stands for something else


def pack(state: Any) -> tuple[Any, dict[str, Tensor]]:
    """Split a nested state into a JSON skeleton and named tensors.

    >>> import torch
    >>> skeleton, tensors = pack({"lr": 0.1, "moments": (torch.zeros(2), 3)})
    >>> skeleton
    {'lr': 0.1, 'moments': {'tuple:': [{'tensor:': 'state.moments.0'}, 3]}}
    >>> sorted(tensors)
    ['state.moments.0']
    >>> unpack(skeleton, tensors)
    {'lr': 0.1, 'moments': (tensor([0., 0.]), 3)}
    """
    tensors: dict[str, Tensor] = {}

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            while path in tensors:  # {"a": {"b": t}, "a.b": t}
                path += "'"
            # a copy of its own: safetensors refuses tensors that share memory, and the run goes on meanwhile
            tensors[path] = value.detach().to("cpu", copy=True).contiguous()
            return {_TENSOR: path}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, dict):
            if all(isinstance(key, str) and not key.endswith(":") for key in value):
                return {key: walk(item, f"{path}.{key}") for key, item in value.items()}
            return {_ITEMS: [[walk(key, path), walk(item, f"{path}.{key}")] for key, item in value.items()]}
        if isinstance(value, tuple):
            return {_TUPLE: [walk(item, f"{path}.{index}") for index, item in enumerate(value)]}
        if isinstance(value, list):
            return [walk(item, f"{path}.{index}") for index, item in enumerate(value)]
        raise TypeError(f"{path} is a {type(value).__name__}; a state holds tensors, numbers, strings and containers")

    return walk(state, "state"), tensors


def unpack(skeleton: Any, tensors: dict[str, Tensor]) -> Any:
    """The inverse of :func:`pack`."""
    if isinstance(skeleton, list):
        return [unpack(item, tensors) for item in skeleton]
    if not isinstance(skeleton, dict):
        return skeleton
    if len(skeleton) == 1:
        ((key, value),) = skeleton.items()
        if key == _TENSOR:
            return tensors[value]
        if key == _TUPLE:
            return tuple(unpack(item, tensors) for item in value)
        if key == _ITEMS:
            return {unpack(name, tensors): unpack(item, tensors) for name, item in value}
    return {key: unpack(value, tensors) for key, value in skeleton.items()}
