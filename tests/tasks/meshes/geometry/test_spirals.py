from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pinets.tasks.meshes.geometry import Mesh, MeshError, fit_length, ordered_neighbours, spiral_length, spiral_lists
from pinets.tasks.meshes.geometry.spirals import geodesic_distances


def neighbour_sets(mesh):
    found = [set() for _ in range(len(mesh.vertices))]
    for face in mesh.faces.tolist():
        for vertex in face:
            found[vertex] |= set(face) - {vertex}
    return found


def ring_sets(mesh, hops):
    """All vertices at most so many edges away."""
    near = neighbour_sets(mesh)
    reached = [{vertex} for vertex in range(len(near))]
    for _ in range(hops):
        reached = [set().union(now, *(near[other] for other in now)) for now in reached]
    return reached


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_a_spiral_holds_each_vertex_within_its_hops_once(zoo, hops):
    for name, mesh in zoo.items():
        for vertex, (spiral, reached) in enumerate(
            zip(spiral_lists(mesh, hops=hops), ring_sets(mesh, hops), strict=True)
        ):
            assert spiral[0] == vertex
            assert len(set(spiral)) == len(spiral), name
            assert set(spiral) == reached, name


def test_rings_come_one_after_the_other(ball):
    inner = spiral_lists(ball, hops=1)
    for small, large in zip(inner, spiral_lists(ball, hops=2), strict=True):
        assert large[: len(small)] == small


def test_neighbours_on_a_closed_surface_are_a_cycle_seen_from_outside(ball):
    """Consecutive neighbours share a face with the vertex, and go counter-clockwise about the outward direction."""
    faces = {tuple(face[turn:] + face[:turn]) for face in ball.faces.tolist() for turn in range(3)}
    for vertex, around in enumerate(ordered_neighbours(ball)):
        for one, other in zip(around, around[1:] + around[:1], strict=True):
            assert (vertex, one, other) in faces


def test_the_outer_ring_turns_the_same_way(sheet):
    """In the middle of a flat grid, the angles of a ring grow, wherever it begins."""
    flat = Mesh(sheet.vertices * torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64), sheet.faces)
    centre = 27
    spiral = spiral_lists(flat, hops=2)[centre]
    first = len(spiral_lists(flat, hops=1)[centre])
    for ring in (spiral[1:first], spiral[first:]):
        offsets = flat.vertices[ring] - flat.vertices[centre]
        angles = torch.atan2(offsets[:, 1], offsets[:, 0])
        turns = torch.remainder(angles.roll(-1) - angles, 2 * torch.pi)
        if turns.sum() > 2 * torch.pi + 1e-6:
            turns = 2 * torch.pi - turns  # clockwise, if the faces are
        assert turns.sum().item() == pytest.approx(2 * torch.pi)


def test_spirals_begin_towards_the_reference(ball):
    distance = geodesic_distances(ball, [17])
    near = neighbour_sets(ball)
    for vertex, spiral in enumerate(spiral_lists(ball, references=[17])):
        assert distance[spiral[1]] == min(distance[other] for other in near[vertex])


def test_distances_along_the_mesh_satisfy_every_edge(zoo):
    """Dijkstra's condition: zero at the references, and nowhere more than the neighbour and the edge between."""
    mesh = zoo["two parts"]
    distance = geodesic_distances(mesh, [3])
    assert distance[3] == 0
    assert distance[64] == 0  # the part without a reference takes its lowest vertex
    assert torch.isfinite(distance).all()
    for vertex, others in enumerate(neighbour_sets(mesh)):
        through = [distance[other] + (mesh.vertices[other] - mesh.vertices[vertex]).norm() for other in others]
        assert distance[vertex] <= min(through) + 1e-9
        assert distance[vertex] == 0 or distance[vertex] >= min(through) - 1e-9


def test_lengths_are_cut_padded_and_dilated():
    lists = [[0, 1, 2, 3, 4], [1, 0], [2], [3, 0, 4], [4]]
    assert fit_length(lists, 4).tolist() == [[0, 1, 2, 3], [1, 0, 5, 5], [2, 5, 5, 5], [3, 0, 4, 5], [4, 5, 5, 5]]
    assert fit_length(lists, 4, dilation=2)[:, 1].tolist() == [2, 5, 5, 4, 5]
    lengths = torch.tensor([5.0, 2.0, 1.0, 3.0, 1.0])
    assert spiral_length(lists) == int(lengths.mean() + 2 * ((lengths - lengths.mean()) ** 2).mean().sqrt())


def test_wrong_values_are_refused(ball):
    with pytest.raises(ValueError, match="hops must be at least 1, got 0"):
        spiral_lists(ball, hops=0)
    with pytest.raises(MeshError, match="no vertex 642: vertices are numbered from 0 to 641"):
        spiral_lists(ball, references=[642])
    with pytest.raises(ValueError, match="at least 1, got 0 and 1"):
        fit_length([[0]], 0)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_soup_of_triangles_has_spirals(data):
    """Whatever the faces are: no crash, each neighbour once, the same answer again."""
    vertices = data.draw(st.integers(1, 9))
    faces = data.draw(st.lists(st.lists(st.integers(0, vertices - 1), min_size=3, max_size=3), max_size=12))
    points = torch.randn(vertices, 3, generator=torch.Generator().manual_seed(vertices))
    mesh = Mesh(points, torch.tensor(faces, dtype=torch.int64).reshape(-1, 3))
    for around, near in zip(ordered_neighbours(mesh), neighbour_sets(mesh), strict=True):
        assert len(around) == len(near)
        assert set(around) == near
    spirals = spiral_lists(mesh, hops=2)
    assert [set(spiral) for spiral in spirals] == ring_sets(mesh, 2)
    assert spirals == spiral_lists(mesh, hops=2)
