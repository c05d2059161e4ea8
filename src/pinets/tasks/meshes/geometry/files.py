"""Reading and writing meshes: OBJ, PLY, OFF, STL and glTF, through trimesh."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pinets._extras import require
from pinets._files import write_bytes
from pinets.operators.mesh import Mesh, MeshError

__all__ = ["SUFFIXES", "read_mesh", "write_mesh"]

SUFFIXES = (".obj", ".ply", ".off", ".stl", ".gltf", ".glb")


def read_mesh(path: str | Path) -> Mesh:
    """Read a triangle mesh, with its vertices in the order of the file.

    A scene of several parts becomes one mesh; faces with more corners are cut into triangles. STL repeats a vertex for
    every face and glTF may do so for every seam: vertices of STL at the same place become one.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise MeshError(f"{path}: meshes are read from {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        found = _load(path)
        if len(found.faces) == 0:
            raise MeshError("there are no triangles in it")
        if path.suffix.lower() == ".stl":
            found.merge_vertices()
        vertices, faces = (
            torch.tensor(found.vertices, dtype=torch.float64),
            torch.tensor(found.faces, dtype=torch.int64),
        )
        return Mesh(vertices.reshape(-1, 3), faces.reshape(-1, 3))
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from error
    except IndexError as error:  # a face out of range
        raise MeshError(f"{path}: a face names a vertex that does not exist ({error})") from error
    except Exception as error:  # trimesh raises many types for damaged files
        raise MeshError(f"{path} cannot be read as a mesh: {type(error).__name__}: {error}") from error


def _load(path: Path) -> Any:
    """What trimesh reads: every vertex of the file once and in its order, also where textures have seams."""
    trimesh = require("trimesh", extra="mesh")
    options = {"force": "mesh", "process": False, "maintain_order": True, "skip_materials": True, "fix_texture": False}
    if path.suffix.lower() != ".obj":
        return trimesh.load(path, **options)
    bare = _without_textures(path.read_text(encoding="utf-8", errors="replace"))
    return trimesh.load(io.StringIO(bare), file_type="obj", **options)


def _without_textures(text: str) -> str:
    """The positions and faces of an OBJ file alone: trimesh would cut the mesh where texture or material changes."""
    lines, count = [], 0
    for line in text.replace("\\\n", " ").splitlines():
        kind, *words = line.partition("#")[0].split() or [""]
        if kind == "v":
            count += 1
            lines.append(" ".join(["v", *words[:3]]))
        elif kind == "f":
            corners = [int(word.partition("/")[0]) for word in words]
            if any(corner == 0 or corner < -count for corner in corners):
                raise MeshError(
                    f"a face names a vertex that does not exist ({line.strip()}; the first is 1, the last -1)"
                )
            places = (corner if corner > 0 else count + 1 + corner for corner in corners)
            lines.append(" ".join(["f", *map(str, places)]))
    return "\n".join(lines)


def write_mesh(path: str | Path, vertices: Tensor, faces: Tensor, *, colors: Tensor | None = None) -> None:
    """Write a mesh in the format that the name ends in.

    Args:
        path: Ends in one of :data:`SUFFIXES`.
        vertices: (V, 3).
        faces: (F, 3).
        colors: The colours of the vertices: uint8, (V, 3); PLY, glTF and OBJ keep them.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise MeshError(f"{path}: meshes are written to {', '.join(SUFFIXES)}")
    trimesh = require("trimesh", extra="mesh")
    arrays: dict[str, Any] = {"vertices": vertices.detach().double().numpy(), "faces": faces.numpy()}
    if colors is not None:
        arrays["vertex_colors"] = colors.numpy()
    kind = path.suffix.lower()[1:]
    # by default glTF writes its numbers into a second file of a fixed name
    options = {"embed_buffers": True} if kind == "gltf" else {}
    content = trimesh.Trimesh(**arrays, process=False).export(file_type=kind, **options)
    if isinstance(content, dict):  # the files of a glTF: one, with its numbers embedded
        (content,) = content.values()
    write_bytes(path, content.encode() if isinstance(content, str) else content)
