"""Read sets of shapes: arrays, folders of meshes, COMA's folders and DFAUST's HDF5 files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pinets._extras import require
from pinets._files import PathLike
from pinets.data.errors import DataError
from pinets.data.formats.npy import open_array
from pinets.data.samples import Splits
from pinets.operators.mesh import Mesh, MeshError
from pinets.tasks.meshes.geometry.files import SUFFIXES, read_mesh
from pinets.tasks.meshes.mesh_set import MeshSet, mesh_splits, require_finite

__all__ = [
    "read_coma",
    "read_dfaust",
    "read_mesh_arrays",
    "read_mesh_folder",
    "read_shapes",
]


def read_shapes(path: PathLike) -> Tensor:
    """The shapes of a ``.npy`` file, or of a folder of meshes in the order of their names: float32, (N, V, 3)."""
    path = Path(path)
    if path.is_dir():
        return _read_all(_mesh_files(path))
    array = open_array(path)
    if array.ndim != 3 or array.shape[-1] != 3 or array.dtype.kind != "f":
        raise DataError(f"{path}: shapes must be numbers (N, V, 3), got {array.shape} {array.dtype}")
    shapes = torch.from_numpy(np.array(array, dtype=np.float32))
    require_finite(shapes, path)
    return shapes


def _mesh_files(folder: Path) -> list[Path]:
    """The meshes in a folder, in the order of their names."""
    files = sorted(
        file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")
    )
    if not files:
        raise DataError(f"{folder} has no mesh: no file that ends in {', '.join(SUFFIXES)}")
    return files


def _read_parts(
    parts: Mapping[str, Sequence[Path]],
    folder: Path,
    millimetres: float,
    validation: float = 0.1,
    sequence: int | None = None,
) -> Splits[MeshSet]:
    """Files of one topology as three parts; where the validation has none, a fraction of the training shapes."""
    for name in ("train", "test"):
        if not parts[name]:
            raise DataError(f"{folder}: of {sum(map(len, parts.values()))} shapes none is left for {name}")
    first = parts["train"][0]
    shapes = {name: _read_all(files, first) for name, files in parts.items() if files}
    held = shapes.get("validation", validation)
    return mesh_splits(shapes["train"], shapes["test"], _read(first), millimetres, validation=held, sequence=sequence)


def _read_all(files: Sequence[Path], like: Path | None = None) -> Tensor:
    """The shapes of files that have the same faces as one of them, or another file."""
    like = files[0] if like is None else like
    first = _read(like)
    shapes = torch.empty(len(files), *first.vertices.shape)
    for number, file in enumerate(files):
        mesh = _read(file)
        _require_alike(mesh, first, file, like)
        shapes[number] = mesh.vertices
    return shapes


def _require_alike(mesh: Mesh, first: Mesh, source: object, first_source: object) -> None:
    rule = "all shapes of a set must have the same faces"
    if mesh.vertices.shape != first.vertices.shape or mesh.faces.shape != first.faces.shape:
        raise DataError(f"{source} has {mesh}, but {first_source} has {first}: {rule}")
    if len(other := (mesh.faces != first.faces).any(dim=1).nonzero()):
        number = int(other[0])
        found, expected = mesh.faces[number].tolist(), first.faces[number].tolist()
        raise DataError(f"{source}: face {number} is {found}, but in {first_source} {expected}: {rule}")


def _read(file: Path) -> Mesh:
    try:
        return read_mesh(file)
    except MeshError as error:
        raise DataError(str(error)) from error


def read_mesh_arrays(
    folder: Path, *, validation: float = 0.1, millimetres: float = 1.0, sequence: int | None = None
) -> Splits[MeshSet]:
    """``train.npy``, ``test.npy``, perhaps ``validation.npy``, and ``template.obj`` (or another format).

    Args:
        folder: Where they are.
        validation: The fraction of the training shapes to hold out, where there is no ``validation.npy``.
        millimetres: How many of them the unit of the positions has.
        sequence: Frames in a sequence of training shapes; whole sequences are held out then, else the last shapes.
    """
    templates = [folder / f"template{suffix}" for suffix in SUFFIXES if (folder / f"template{suffix}").is_file()]
    if not templates:
        raise DataError(f"{folder} has no template: a mesh with the faces, as template.obj")
    template = _read(templates[0])

    def part(name: str) -> Tensor:
        shapes = read_shapes(folder / f"{name}.npy")
        if shapes.shape[1] != len(template.vertices):
            raise DataError(
                f"{folder / name}.npy: its shapes have {shapes.shape[1]} vertices, but the template has "
                f"{len(template.vertices)}"
            )
        return shapes

    held: float | Tensor = part("validation") if (folder / "validation.npy").is_file() else validation
    return mesh_splits(part("train"), part("test"), template, millimetres, validation=held, sequence=sequence)


read_face_arrays = partial(read_mesh_arrays, millimetres=10.0)  # positions in centimetres
read_body_arrays = partial(read_mesh_arrays, millimetres=1000.0)  # positions in metres
read_motion_arrays = partial(read_mesh_arrays, millimetres=1000.0, sequence=60)  # sequences of sixty frames, in metres
read_head_arrays = partial(read_mesh_arrays, millimetres=10.0, sequence=60)  # the same in centimetres


def read_mesh_folder(
    folder: Path, *, validation: float = 0.1, millimetres: float = 1.0, sequence: int | None = None
) -> Splits[MeshSet]:
    """``train/`` and ``test/`` with one mesh file for each shape, all of one topology; perhaps ``validation/``.

    Args:
        folder: Where they are.
        validation: The fraction of the training shapes to hold out, where there is no ``validation/``.
        millimetres: How many of them the unit of the positions has.
        sequence: Frames in a sequence of training shapes, in the order of the files' names; whole sequences are held
            out then, else the last shapes.
    """
    for name in ("train", "test"):
        if not (folder / name).is_dir():
            raise DataError(f"{folder} has no folder {name}")
    names = [name for name in ("train", "validation", "test") if (folder / name).is_dir()]
    parts = {name: _mesh_files(folder / name) for name in names}
    return _read_parts(parts, folder, millimetres, validation, sequence)


def read_coma(folder: Path, *, split: str = "interpolation") -> Splits[MeshSet]:
    """COMA: ``SUBJECT/EXPRESSION/EXPRESSION.000001.ply``, in metres.

    Args:
        folder: Where the subjects are.
        split: ``"interpolation"``, published as "sliced": of each hundred frames, counted through all sequences in the
            order of their names, the first ten are the test. Or the name of an expression
            (``"extrapolation:bareteeth"``): all of it is the test. Of each hundred of the frames the second ten are the
            validation, which is not published.
    """
    kind, _, expression = split.partition(":")
    sequences = {path: sorted(path.glob("*.ply")) for path in sorted(folder.glob("*/*")) if path.is_dir()}
    sequences = {path: files for path, files in sequences.items() if files}
    names = {path.name for path in sequences}
    if not sequences:
        raise DataError(f"{folder} has no sequence: no SUBJECT/EXPRESSION/*.ply")
    if split != "interpolation" and (kind != "extrapolation" or expression not in names):
        raise DataError(
            f"split must be interpolation, or extrapolation:NAME with one of {', '.join(sorted(names))}; got {split!r}"
        )
    parts: dict[str, list[Path]] = {"train": [], "validation": [], "test": []}
    counted = 0
    for path, files in sequences.items():
        if kind == "extrapolation" and path.name == expression:
            parts["test"] += files
            continue
        for file in files:
            place, counted = counted % 100, counted + 1
            part = "test" if kind == "interpolation" and place < 10 else "validation" if 10 <= place < 20 else "train"
            parts[part].append(file)
    return _read_parts(parts, folder, 1000.0)


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
                subjects: dict[str, list[str]] = {}
                for name in sorted(name for name in file if name != "faces"):
                    subjects.setdefault(name.partition("_")[0], []).append(name)
                for sequences in subjects.values():
                    last = ["validation", "test"] if len(sequences) > 2 else []
                    for name, part in zip(sequences, ["train"] * (len(sequences) - len(last)) + last, strict=True):
                        array = np.asarray(file[name], dtype=np.float32)
                        if array.ndim != 3 or array.shape[1] != 3 or array.shape[2] == 0:
                            raise DataError(f"sequence {name} must be (V, 3, frames), got {array.shape}")
                        shapes = torch.from_numpy(array).permute(2, 0, 1).contiguous()
                        require_finite(shapes, f"sequence {name}")
                        mesh = Mesh(shapes[0].double(), faces)
                        template = mesh if template is None else template
                        _require_alike(mesh, template, f"sequence {name}", files[0])
                        parts[part].append(shapes)
        except (OSError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise DataError(f"{path} cannot be read as DFAUST's registrations: {error}") from error
    arrays = {name: torch.cat(shapes) for name, shapes in parts.items() if shapes}
    if template is None or len(arrays) < 3:
        raise DataError(f"{folder}: a subject needs at least three sequences, one for each part")
    return mesh_splits(arrays["train"], arrays["test"], template, 1000.0, validation=arrays["validation"])
