from __future__ import annotations

import pytest
import torch

from pinets.tasks.meshes.geometry import Mesh

trimesh = pytest.importorskip("trimesh")


def as_mesh(found):
    return Mesh(torch.tensor(found.vertices, dtype=torch.float64), torch.tensor(found.faces, dtype=torch.int64))


@pytest.fixture(scope="session")
def ball():
    """A closed surface of 642 vertices, with its vertices at unequal distances."""
    mesh = as_mesh(trimesh.creation.icosphere(subdivisions=3))
    return Mesh(mesh.vertices * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), mesh.faces)


@pytest.fixture(scope="session")
def sheet():
    """An open surface: a grid of 8 x 8 vertices."""
    number = torch.arange(64).view(8, 8)
    a, b, c, d = (part.flatten() for part in (number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]))
    faces = torch.cat([torch.stack([a, b, c], 1), torch.stack([b, d, c], 1)])
    x, y = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="xy")
    height = torch.sin(x + 0.5 * y)
    return Mesh(torch.stack([x, -y, height], -1).reshape(64, 3).double(), faces)


@pytest.fixture(scope="session")
def zoo(ball, sheet):
    """Meshes of all kinds of bad manners, by name."""
    line = torch.arange(30.0, dtype=torch.float64).view(10, 3)
    book = torch.tensor([[0, 1, 2], [0, 1, 3], [0, 1, 4]])  # three faces at one edge
    bow_tie = torch.tensor([[0, 1, 2], [0, 3, 4]])  # two faces that share a vertex
    two = Mesh(torch.cat([sheet.vertices, sheet.vertices + 20]), torch.cat([sheet.faces, sheet.faces + 64]))
    turned = Mesh(sheet.vertices, torch.cat([sheet.faces[:30], sheet.faces[30:].flip(1)]))  # half of it inside out
    return {
        "ball": ball,
        "sheet": sheet,
        "book": Mesh(line[:5].sin(), book),
        "bow tie": Mesh(line[:5].sin(), bow_tie),
        "two parts": two,
        "turned": turned,
        "loose vertices": Mesh(torch.cat([sheet.vertices, line]), sheet.faces),
        "no faces": Mesh(line, torch.empty(0, 3, dtype=torch.int64)),
        "twice": Mesh(sheet.vertices, torch.cat([sheet.faces, sheet.faces])),
        "one point": Mesh(torch.zeros(64, 3, dtype=torch.float64), sheet.faces),
    }
