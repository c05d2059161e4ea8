from __future__ import annotations

import pytest
import torch

from pinets.tasks.meshes.geometry import (
    Hierarchy,
    HierarchyPlan,
    Mesh,
    MeshError,
    barycentric,
    build_hierarchy,
    cached_hierarchy,
    collapse,
)

trimesh = pytest.importorskip("trimesh")

TOO_SMALL = ("book", "bow tie", "no faces", "one point")
THREE = {"factors": (4, 4), "hops": (1, 1, 1), "dilation": (1, 1, 1)}


def nearest_on_triangle(point, corners):
    """The nearest point of one triangle by trying its inside, its edges and its corners."""
    a, b, c = corners
    edges = torch.stack([b - a, c - a], 1)
    weights = torch.linalg.lstsq(edges, (point - a)[:, None]).solution.flatten()
    candidates = [a, b, c]
    if weights.min() >= 0 and weights.sum() <= 1:
        candidates.append(a + edges @ weights)
    for start, end in ((a, b), (b, c), (c, a)):
        along = end - start
        share = ((point - start) @ along / (along @ along)).clamp(0, 1)
        candidates.append(start + share * along)
    return min((point - candidate).norm().item() for candidate in candidates)


def test_projection_finds_the_nearest_point_of_all_faces(sheet):
    generator = torch.Generator().manual_seed(0)
    points = 8 * torch.rand(40, 3, generator=generator, dtype=torch.float64) - torch.tensor([0.0, 8.0, 4.0])
    indices, weights = barycentric(points, sheet)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(40, dtype=torch.float64))
    projected = (sheet.vertices[indices] * weights[:, :, None]).sum(1)
    for point, place in zip(points, projected, strict=True):
        best = min(nearest_on_triangle(point, sheet.vertices[face]) for face in sheet.faces)
        assert (point - place).norm().item() == pytest.approx(best, abs=1e-9)


def test_a_vertex_of_the_mesh_is_projected_onto_itself(zoo):
    for mesh in zoo.values():
        indices, weights = barycentric(mesh.vertices, mesh)
        projected = (mesh.vertices[indices] * weights[:, :, None]).sum(1)
        torch.testing.assert_close(projected, mesh.vertices, rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [641, 400, 161, 40])
def test_a_collapsed_mesh_has_vertices_of_the_first(ball, count):
    kept, coarse = collapse(ball, count)
    assert len(kept) == count
    assert (kept.diff() > 0).all()
    torch.testing.assert_close(coarse.vertices, ball.vertices[kept], rtol=0, atol=0)
    assert coarse.faces.unique().numel() == count  # none is left without a face
    closed = trimesh.Trimesh(coarse.vertices.numpy(), coarse.faces.numpy(), process=False)
    assert closed.is_watertight
    assert closed.volume > 0.7 * trimesh.Trimesh(ball.vertices.numpy(), ball.faces.numpy(), process=False).volume


def test_collapsing_does_not_depend_on_the_unit(ball):
    kept, _ = collapse(ball, 100)
    for factor in (1e-3, 1e4):
        again, _ = collapse(Mesh(ball.vertices * factor + 5 * factor, ball.faces), 100)
        assert len(set(kept.tolist()) & set(again.tolist())) >= 90  # but for ties and rounding


def test_vertices_in_no_face_go_first(zoo):
    kept, coarse = collapse(zoo["loose vertices"], 66)
    assert kept.tolist() == list(range(66))
    assert len(coarse.faces) == len(zoo["sheet"].faces)
    kept, _ = collapse(zoo["loose vertices"], 30)
    assert kept.max() < 64


def test_what_cannot_be_reduced_is_said(zoo):
    kept, coarse = collapse(zoo["bow tie"], 1)
    assert (len(kept), len(coarse.faces)) == (1, 0)
    with pytest.raises(ValueError, match="between 1 and the number of vertices, 5; got 6"):
        collapse(zoo["bow tie"], 6)
    plan = HierarchyPlan(**THREE)
    with pytest.raises(MeshError, match="has no face left at 10 vertices; ask for fewer levels"):
        build_hierarchy(zoo["no faces"], plan)


def hierarchy_or_reason(mesh, plan):
    try:
        return build_hierarchy(mesh, plan), ""
    except MeshError as error:
        return None, str(error)


def test_every_kind_of_mesh_gets_a_hierarchy_or_a_reason(zoo):
    plan = HierarchyPlan(factors=(2, 2), hops=(1, 1, 1), dilation=(1, 1, 1))
    for name, mesh in zoo.items():
        hierarchy, reason = hierarchy_or_reason(mesh, plan)
        if hierarchy is None:
            assert name in TOO_SMALL
            assert "ask for fewer levels" in reason
            continue
        assert hierarchy.sizes == plan.sizes(len(mesh.vertices)), name
        for level in hierarchy.levels:
            size = len(level.mesh.vertices)
            assert level.spirals[:, 0].tolist() == list(range(size))
            assert level.spirals.max() <= size


def test_sampling_down_and_up_gives_nearly_the_same_surface(ball):
    hierarchy = build_hierarchy(ball, HierarchyPlan(**THREE))
    for number, (kept, (indices, weights)) in enumerate(zip(hierarchy.down, hierarchy.up, strict=True)):
        fine, coarse = hierarchy.levels[number : number + 2]
        torch.testing.assert_close(coarse.mesh.vertices, fine.mesh.vertices[kept])
        torch.testing.assert_close(weights.sum(1), torch.ones(len(indices)))
        back = (coarse.mesh.vertices[indices] * weights[:, :, None].double()).sum(1)
        torch.testing.assert_close(back[kept], coarse.mesh.vertices)  # what is kept comes back exactly
        assert (back - fine.mesh.vertices).norm(dim=1).mean() < 0.2


def test_the_published_sizes():
    assert HierarchyPlan().sizes(5023) == (5023, 1256, 314, 79, 20)
    assert HierarchyPlan().sizes(6890) == (6890, 1723, 431, 108, 27)


@pytest.mark.parametrize(
    "values, message",
    [
        ({"hops": (1, 1)}, "hops must give a number from 1 on for each of 5 levels"),
        ({"lengths": (9, 9, 9, 9, 0)}, "lengths must give a number from 1 on"),
        ({"factors": (1, 4, 4, 4)}, "factors must be at least 2"),
    ],
)
def test_bad_plans_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        HierarchyPlan(**values).check()


def test_files_keep_everything(ball, tmp_path):
    plan = HierarchyPlan(**THREE)
    made, path = cached_hierarchy(ball, plan, tmp_path)
    again, same = cached_hierarchy(ball, plan, tmp_path)
    assert (same, again.digest(), again.sizes, again.lengths) == (path, made.digest(), made.sizes, made.lengths)
    assert again.levels[1].mesh.vertices.equal(made.levels[1].mesh.vertices)
    path.write_bytes(path.read_bytes()[:100])  # damaged: made again
    assert cached_hierarchy(ball, plan, tmp_path)[0].digest() == made.digest()
    moved = Mesh(ball.vertices + 1e-9, ball.faces)
    other = HierarchyPlan(**THREE, references=(5,))
    paths = {
        cached_hierarchy(mesh, values, tmp_path)[1] for mesh, values in ((ball, plan), (moved, plan), (ball, other))
    }
    assert len(paths) == 3
    (tmp_path / "x").write_bytes(b"nothing")
    with pytest.raises(MeshError, match="is not a hierarchy of meshes"):
        Hierarchy.load(tmp_path / "x")


def test_blank_hierarchies_have_the_sizes_asked_for():
    blank = Hierarchy.blank((40, 10), (5, 4))
    assert (blank.sizes, blank.lengths) == ((40, 10), (5, 4))
    assert blank.digest() != Hierarchy.blank((40, 10), (5, 5)).digest()
