"""Pictures of shapes: what is seen, and how often it moves."""

from __future__ import annotations

import io

import pytest
import torch

from pinets.report import drawing_png
from pinets.tasks.meshes.drawing import _largest, animate_shapes, draw_shapes

image = pytest.importorskip("PIL.Image")
pytest.importorskip("matplotlib")

FACES = torch.tensor([[0, 1, 2], [3, 4, 5]])
# two triangles that cover each other, the first nearer
SHAPE = torch.tensor([[0.0, 0, 1], [1, 0, 1], [0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 1, 0]])


def test_what_is_nearer_hides_what_is_behind():
    errors = {"made": torch.tensor([0.0, 0, 0, 9, 9, 9])}
    near = image.open(io.BytesIO(drawing_png(draw_shapes({"made": SHAPE}, FACES, errors))))
    far = image.open(io.BytesIO(drawing_png(draw_shapes({"made": SHAPE}, FACES, {"made": 9 - errors["made"]}))))
    center = (near.width // 5, near.height * 3 // 4)
    violet, yellow = (picture.convert("RGB").getpixel(center) for picture in (near, far))
    assert violet[2] > violet[1]  # the lowest error
    assert yellow[0] > yellow[2]  # the highest one


def test_an_animation_has_a_picture_for_each_frame():
    frames = torch.stack([SHAPE, SHAPE + torch.tensor([0.0, 0.3, 0.0]), SHAPE])
    content = animate_shapes({"true": frames, "made": frames}, FACES, {"made": torch.rand(3, 6)})
    found = image.open(io.BytesIO(content))
    assert found.n_frames == 3
    assert found.info["loop"] == 0


def test_the_colour_scale_of_many_values_is_their_quantile():
    errors = torch.arange(17_000_000, dtype=torch.float32)  # more than torch.quantile takes
    assert _largest({"made": errors}) == pytest.approx(0.99 * (len(errors) - 1), rel=1e-6)
