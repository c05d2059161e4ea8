from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinets.tasks.meshes.geometry import Mesh, MeshError, read_mesh, write_mesh
from pinets.tasks.meshes.geometry.files import SUFFIXES


@pytest.mark.parametrize("suffix", [suffix for suffix in SUFFIXES if suffix != ".stl"])
def test_what_is_written_is_read_in_the_same_order(sheet, tmp_path, suffix):
    path = tmp_path / f"sheet{suffix}"
    write_mesh(path, sheet.vertices, sheet.faces)
    again = read_mesh(path)
    torch.testing.assert_close(again.vertices, sheet.vertices, rtol=1e-6, atol=1e-6)
    assert again.faces.equal(sheet.faces)


def test_stl_vertices_at_one_place_are_one(sheet, tmp_path):
    write_mesh(tmp_path / "sheet.stl", sheet.vertices, sheet.faces)
    again = read_mesh(tmp_path / "sheet.stl")
    assert (len(again.vertices), len(again.faces)) == (len(sheet.vertices), len(sheet.faces))


def test_obj_keeps_unreferenced_and_equal_vertices(tmp_path):
    path = tmp_path / "some.obj"
    path.write_text("v 0 0 0\nv 0 0 0\nv 1 0 0\nv 9 9 9\nv 0 1 0\nvt 0 0\nf 1/1 3/1 5/1\nf 2 3 5\n")
    mesh = read_mesh(path)
    assert mesh.vertices.tolist() == [[0, 0, 0], [0, 0, 0], [1, 0, 0], [9, 9, 9], [0, 1, 0]]
    assert mesh.faces.tolist() == [[0, 2, 4], [1, 2, 4]]


_SEAM = """mtllib colours.mtl
v 0 0 0
v 1 0 0
v 2 0 0
v 0 1 0
v 1 1 0
v 2 1 0
v 9 9 9
vt 0 0
vt 1 0
vn 0 0 1
usemtl red
f 1/1/1 2/2/1 5/2/1
f 1/1/1 5/2/1 4/1/1
usemtl blue
f 2/1/1 3/2/1 6/2/1
f -6//1 -2//1 -3//1
"""


def test_obj_is_not_cut_where_texture_or_material_change(tmp_path):
    (tmp_path / "colours.mtl").write_text("newmtl red\nKd 1 0 0\nnewmtl blue\nKd 0 0 1\n")
    (tmp_path / "seam.obj").write_text(_SEAM)
    mesh = read_mesh(tmp_path / "seam.obj")
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [1, 1, 0], [2, 1, 0], [9, 9, 9]]
    assert mesh.faces.tolist() == [[0, 1, 4], [0, 4, 3], [1, 2, 5], [1, 5, 4]]


def test_ply_is_not_cut_where_the_texture_changes(tmp_path):
    header = (
        "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
        "element face 2\nproperty list uchar int vertex_indices\nproperty list uchar float texcoord\nend_header\n"
    )
    body = "0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2 6 0 0 1 0 1 1\n3 0 2 3 6 .5 .5 .6 .6 0 1\n"
    (tmp_path / "seam.ply").write_text(header + body)
    mesh = read_mesh(tmp_path / "seam.ply")
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3]]


def test_faces_with_more_corners_become_triangles(tmp_path):
    path = tmp_path / "square.off"
    path.write_text("OFF\n4 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n")
    assert len(read_mesh(path).faces) == 2


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.obj", "v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", "vertex 0 is .*1 are not finite"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", "a.obj: a face names a vertex that does not exist"),
        ("a.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 0 1 2\n", "a.obj: a face names a vertex that does not exist"),
        ("a.obj", "v 0 0 0\nv 1 0 0\n", "a.obj: there are no triangles in it"),
        ("a.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n", "a.off"),
        ("a.ply", "not a mesh", "cannot be read as a mesh"),
        ("a.obj", "", "a.obj"),
        ("a.txt", "v 0 0 0", r"meshes are read from \.obj"),
    ],
)
def test_bad_files_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(MeshError, match=message):
        read_mesh(path)


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_mesh(tmp_path / "none.obj")


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_files_give_a_mesh_or_a_mesh_error(tmp_path, data):
    """Bytes of a good file are changed, cut and repeated at random."""
    suffix = data.draw(st.sampled_from(SUFFIXES))
    good = tmp_path / f"good{suffix}"
    if not good.exists():
        corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
        write_mesh(good, corners, torch.tensor([[0, 1, 2], [0, 2, 3]]))
    content = bytearray(good.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(1, len(content)))]
    bad = tmp_path / f"bad{suffix}"
    bad.write_bytes(bytes(content))
    try:
        mesh = read_mesh(bad)
    except MeshError:
        return
    assert torch.isfinite(mesh.vertices).all()
    assert mesh.faces.numel() == 0 or int(mesh.faces.max()) < len(mesh.vertices)


@pytest.mark.parametrize(
    "vertices, faces, message",
    [
        (torch.zeros(3, 2), torch.zeros(1, 3).long(), r"\(V, 3\)"),
        (torch.zeros(3, 3).long(), torch.zeros(1, 3).long(), "must be floats"),
        (torch.zeros(3, 3), torch.zeros(1, 4).long(), r"\(F, 3\)"),
        (torch.zeros(3, 3), torch.zeros(1, 3), "int64"),
        (torch.zeros(0, 3), torch.zeros(0, 3).long(), "at least one vertex"),
        (torch.zeros(3, 3), torch.tensor([[0, 1, 2], [0, 1, 3]]), r"face 1 is \[0, 1, 3\].*from 0 to 2"),
        (torch.zeros(3, 3), torch.tensor([[0, -1, 2]]), r"face 0 is \[0, -1, 2\]"),
        (torch.tensor([[0.0, 0, 0], [0, float("inf"), 0]]), torch.zeros(0, 3).long(), "vertex 1 is .*1 are not finite"),
    ],
)
def test_what_is_no_mesh_is_refused(vertices, faces, message):
    with pytest.raises(MeshError, match=message):
        Mesh(vertices, faces)
