"""Checkpoints: a folder of safetensors and JSON that is either complete and unharmed or refused.

``checkpoints/step-00000120/`` holds ``shared.safetensors`` (networks, optimisers: the same on every process), one
``process-K.safetensors`` and ``process-K.json`` for what each process has for itself (random generators, data position,
shards) and ``checkpoint.json``, which has the rest and the checksum of everything. The folder is written under another
name, flushed to the disk and renamed, so that it exists whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from pinets._extras import require
from pinets.train.files import checksum, flush_folder, flush_to_disk, read_json, write_json
from pinets.train.state import pack, unpack

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Checkpoint", "CheckpointError", "Checkpoints"]

_FORMAT = "pinets checkpoint, version 1"
_INDEX = "checkpoint.json"
_SHARED = "shared.safetensors"
_TEMPORARY = ".tmp-"


class CheckpointError(ValueError):
    """A checkpoint that cannot be used, or not be written; the message names the file."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are all there and unharmed."""

    folder: Path
    step: int
    processes: int
    shared: dict[str, Any]

    @property
    def file(self) -> Path:
        """Where the networks are."""
        return self.folder / _SHARED

    def require_fits(self, name: str, network: nn.Module) -> None:
        """Refuse to load a network of this checkpoint into another one, by file and tensor."""
        saved = self.shared["networks"]
        if name not in saved:
            raise CheckpointError(f"{self.file} has the networks {sorted(saved)}, and no {name!r}")
        theirs = {key: tuple(tensor.shape) for key, tensor in saved[name].items()}
        ours = {key: tuple(tensor.shape) for key, tensor in network.state_dict().items()}
        differing = [key for key in [*ours, *theirs] if ours.get(key) != theirs.get(key)]
        if differing:
            key = differing[0]
            raise CheckpointError(
                f"{self.file} is of another model: {name}.{key} is {theirs.get(key, 'missing')} there and "
                f"{ours.get(key, 'missing')} here"
            )

    def local(self, process: int) -> dict[str, Any]:
        """What the given process had for itself."""
        name = f"process-{process}"
        return unpack(read_json(self.folder / f"{name}.json"), _load_tensors(self.folder / f"{name}.safetensors"))


class Checkpoints:
    """The checkpoints of one run, of which the newest ``keep`` stay.

    Args:
        folder: Where they are; shared by all processes.
        owner: Whose they are (a checksum of the recipe); others' are refused.
        keep: How many stay: more than one, so that there is another if the newest is harmed.
    """

    def __init__(self, folder: Path, owner: str, keep: int = 2) -> None:
        self.folder, self.owner, self.keep = folder, owner, keep

    def save(self, step: int, shared: Mapping[str, Any], local: Mapping[str, Any], accelerator: Accelerator) -> Path:
        """Write a checkpoint from all processes; what is on the disk already stays whole if that fails."""
        final = self.folder / f"step-{step:08d}"
        temporary = self.folder / f"{_TEMPORARY}{final.name}"
        try:
            if accelerator.is_main_process:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._remove_leftovers()
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
                write_json(temporary / _INDEX, {"sha256": _digest(content), "content": content})
                if final.exists():  # one that was refused when the run was resumed
                    shutil.rmtree(final)
                os.replace(temporary, final)
                flush_folder(self.folder)
                self._remove_old()
        except Exception as error:
            if accelerator.is_main_process:
                shutil.rmtree(temporary, ignore_errors=True)
            raise CheckpointError(
                f"cannot write the checkpoint {final}: {error}; {self._what_is_left()}, free some space and resume"
            ) from error
        accelerator.wait_for_everyone()
        return final

    def newest(
        self, accepts: Callable[[Checkpoint], None] = lambda _: None, refused: Callable[[str], None] = lambda _: None
    ) -> Checkpoint | None:
        """The newest checkpoint that is unharmed and that ``accepts`` raises no :class:`CheckpointError` for.

        Args:
            accepts: A look at the content, beyond the files themselves.
            refused: Told why, for each checkpoint that is passed over.

        Returns:
            ``None`` if there has never been a checkpoint. Where there are some and none can be used, an error.
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
        """Read a checkpoint, or raise a :class:`CheckpointError` that names the file that is wrong."""
        index = folder / _INDEX
        if not index.is_file():
            raise CheckpointError(f"{index} is missing")
        try:
            document = read_json(index)
            content, digest = document["content"], document["sha256"]
            known = content["format"] == _FORMAT
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{index} is not a checkpoint of pinets: {error}") from error
        if not known:
            raise CheckpointError(f"{index} is of another format, {content['format']!r} instead of {_FORMAT!r}")
        if _digest(content) != digest:
            raise CheckpointError(f"{index} was changed after it was written: its checksum differs")
        if content["owner"] != self.owner:
            raise CheckpointError(f"{index} belongs to another recipe")
        for name, expected in content["files"].items():
            path = folder / name
            if not path.is_file():
                raise CheckpointError(f"{path} is missing")
            if checksum(path) != expected:
                raise CheckpointError(f"{path} is truncated or was changed: its checksum differs")
        shared = unpack(content["shared"], _load_tensors(folder / _SHARED))
        return Checkpoint(folder, content["step"], content["processes"], shared)

    def _remove_leftovers(self) -> None:
        """What a killed process left half-written, or half-removed."""
        for path in self.folder.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(path)

    def _remove_old(self) -> None:
        for folder in self.folders()[: -self.keep]:
            # renamed first: a removal that is interrupted must not leave half a checkpoint under a valid name
            doomed = self.folder / f"{_TEMPORARY}{folder.name}"
            os.replace(folder, doomed)
            shutil.rmtree(doomed)

    def _what_is_left(self) -> str:
        existing = self.folders()
        return f"the previous one, {existing[-1]}, is intact" if existing else "there is none before it"


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _save_tensors(path: Path, state: Mapping[str, Any]) -> Any:
    """Write the tensors of a state and return its skeleton."""
    skeleton, tensors = pack(dict(state), prefix="state")
    require("safetensors.torch", extra="train").save_file(tensors, path)
    flush_to_disk(path)
    return skeleton


def _load_tensors(path: Path) -> dict[str, Tensor]:
    return require("safetensors.torch", extra="train").load_file(path)
