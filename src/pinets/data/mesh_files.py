"""Sets of shapes on disk: arrays, folders of meshes, COMA's folders and DFAUST's HDF5 files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pinets._extras import require
from pinets.data.errors import DataError
from pinets.data.meshes import MeshSet, mesh_splits
from pinets.data.samples import Splits
from pinets.mesh.mesh import Mesh, MeshError
from pinets.mesh.reading import SUFFIXES, read_mesh

__all__ = [
    "read_coma",
    "read_dfaust",
    "read_mesh_arrays",
    "read_mesh_folder",
    "read_shapes",
]


def read_shapes(path: str | Path) -> Tensor:
    """The shapes of a ``.npy`` file, or of a folder of meshes in the order of their names: float32, (N, V, 3)."""
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        return _read_all(files, path)[0]
    try:
        array = np.lib.format.open_memmap(path, mode="r")  # refuses pickles
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as an array: {error}") from error
    if array.ndim != 3 or array.shape[-1] != 3 or array.dtype.kind != "f":
        raise DataError(f"{path}: shapes must be numbers (N, V, 3), got {array.shape} {array.dtype}")
    return torch.from_numpy(np.array(array, dtype=np.float32))


def _read_all(files: Sequence[Path], folder: Path) -> tuple[Tensor, Mesh]:
    """The shapes of files of one topology, and the first as a mesh."""
    if not files:
        raise DataError(f"{folder} has no mesh: no file that ends in {', '.join(SUFFIXES)}")
    first = _read(files[0])
    shapes = torch.empty(len(files), *first.vertices.shape)
    for number, file in enumerate(files):
        mesh = _read(file)
        if mesh.vertices.shape != first.vertices.shape or not torch.equal(mesh.faces, first.faces):
            raise DataError(
                f"{file} has {mesh}, but {files[0]} has {first}: all shapes of a set must have the same faces"
            )
        shapes[number] = mesh.vertices
    return shapes, first


def _read(file: Path) -> Mesh:
    try:
        return read_mesh(file)
    except MeshError as error:
        raise DataError(str(error)) from error


def read_mesh_arrays(folder: Path, *, validation: float = 0.1, millimetres: float = 1.0) -> Splits[MeshSet]:
    """``train.npy``, ``test.npy``, perhaps ``validation.npy``, and ``template.obj`` (or another format).

    Args:
        folder: Where they are.
        validation: The last fraction of the training shapes is held out, where there is no ``validation.npy``.
        millimetres: How many of them the unit of the positions has.
    """
    template = _read(_template(folder))
    own = folder / "validation.npy"
    held: float | Tensor = read_shapes(own) if own.is_file() else validation
    return mesh_splits(
        read_shapes(folder / "train.npy"), read_shapes(folder / "test.npy"), template, millimetres, validation=held
    )


def read_mesh_folder(folder: Path, *, validation: float = 0.1, millimetres: float = 1.0) -> Splits[MeshSet]:
    """``train/`` and ``test/`` with one mesh file for each shape, all of one topology; perhaps ``validation/``.

    Args:
        folder: Where they are.
        validation: The last fraction of the training shapes is held out, where there is no ``validation/``.
        millimetres: How many of them the unit of the positions has.
    """
    parts = {}
    for name in ("train", "test", "validation"):
        if name != "validation" or (folder / name).is_dir():
            if not (folder / name).is_dir():
                raise DataError(f"{folder} has no folder {name}")
            files = sorted(file for file in (folder / name).iterdir() if file.suffix.lower() in SUFFIXES)
            parts[name] = _read_all(files, folder / name)
    template = parts["train"][1]
    for name, (_, mesh) in parts.items():
        if not torch.equal(mesh.faces, template.faces):
            raise DataError(f"{folder / name} has other faces than {folder / 'train'}")
    held: float | Tensor = parts["validation"][0] if "validation" in parts else validation
    return mesh_splits(parts["train"][0], parts["test"][0], template, millimetres, validation=held)


def read_coma(folder: Path, *, split: str = "interpolation") -> Splits[MeshSet]:
    """COMA: ``SUBJECT/EXPRESSION/EXPRESSION.000001.ply``, in metres.

    Args:
        folder: Where the subjects are.
        split: ``"interpolation"``: of each hundred frames of a sequence the last ten are the test, and the ten before
            them the validation. Or the name of an expression (``"extrapolation:bareteeth"``): all of it is the test,
            and every tenth run of ten frames of the others the validation.
    """
    kind, _, expression = split.partition(":")
    sequences = {path: sorted(path.glob("*.ply")) for path in sorted(folder.glob("*/*")) if path.is_dir()}
    sequences = {path: files for path, files in sequences.items() if files}
    names = {path.name for path in sequences}
    if not sequences:
        raise DataError(f"{folder} has no sequence: no SUBJECT/EXPRESSION/*.ply")
    if kind not in ("interpolation", "extrapolation") or (kind == "extrapolation" and expression not in names):
        raise DataError(
            f"split must be interpolation, or extrapolation:NAME with one of {', '.join(sorted(names))}; got {split!r}"
        )
    parts: dict[str, list[Path]] = {"train": [], "validation": [], "test": []}
    for path, files in sequences.items():
        for frame, file in enumerate(files):
            if kind == "extrapolation" and path.name == expression:
                parts["test"].append(file)
            else:
                parts[_of_hundred(frame, kind)].append(file)
    found = {name: _read_all(files, folder) for name, files in parts.items()}
    template = found["train"][1]
    return mesh_splits(found["train"][0], found["test"][0], template, 1000.0, validation=found["validation"][0])


def _of_hundred(frame: int, kind: str) -> str:
    """The part that a frame belongs to, by its place in its hundred."""
    place = frame % 100
    if kind == "interpolation" and place >= 90:
        return "test"
    return "validation" if 80 <= place < 90 else "train"


def read_dfaust(folder: Path) -> Splits[MeshSet]:
    """DFAUST: ``registrations_f.hdf5`` and ``registrations_m.hdf5``, in metres.

    Each file has ``faces`` and, for every sequence ``SUBJECT_NAME``, an array (6890, 3, frames). The last sequence of
    each subject, by name, is the test, the one before it the validation; nothing is published about this.
    """
    h5py = require("h5py", extra="mesh")
    files = sorted(folder.glob("*.hdf5"))
    if not files:
        raise DataError(f"{folder} has no *.hdf5 file")
    parts: dict[str, list[Tensor]] = {"train": [], "validation": [], "test": []}
    template: Mesh | None = None
    for path in files:
        try:
            with h5py.File(path, "r") as file:
                faces = torch.from_numpy(np.asarray(file["faces"]).astype(np.int64))
                subjects = _by_subject(name for name in file if name != "faces")
                for sequences in subjects.values():
                    for name, part in zip(sequences, _last_two(len(sequences)), strict=True):
                        shapes = torch.from_numpy(np.asarray(file[name], dtype=np.float32)).permute(2, 0, 1)
                        parts[part].append(shapes.contiguous())
        except (OSError, KeyError, RuntimeError, ValueError) as error:
            raise DataError(f"{path} cannot be read as DFAUST's registrations: {error}") from error
        first = next(shapes[0] for shapes in [*parts["train"], *parts["test"]])
        if template is not None and not torch.equal(template.faces, faces):
            raise DataError(f"{path} has other faces than {files[0]}")
        template = Mesh(first.double(), faces)
    assert template is not None
    arrays = {name: torch.cat(shapes) for name, shapes in parts.items() if shapes}
    if len(arrays) < 3:
        raise DataError(f"{folder}: a subject needs at least three sequences, one for each part")
    return mesh_splits(arrays["train"], arrays["test"], template, 1000.0, validation=arrays["validation"])


def _by_subject(names: Iterable[str]) -> dict[str, list[str]]:
    subjects: dict[str, list[str]] = {}
    for name in sorted(names):
        subjects.setdefault(name.partition("_")[0], []).append(name)
    return subjects


def _last_two(count: int) -> list[str]:
    return (["train"] * count + ["validation", "test"])[-count:] if count > 2 else ["train"] * count


def _template(folder: Path) -> Path:
    found = [folder / f"template{suffix}" for suffix in SUFFIXES if (folder / f"template{suffix}").is_file()]
    if not found:
        raise DataError(f"{folder} has no template: a mesh with the faces, as template.obj")
    return found[0]
