"""Heads in motion, as ``docs/meshes/heads.py`` makes them from faces."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / "docs" / "meshes" / "heads.py"
PEOPLE, FRAMES = 8, 60


@pytest.fixture
def heads(tmp_path):
    """The training and test heads of people who do not change their expression, and the faces they are made from."""
    folder = tmp_path / "meshes" / "faces"
    folder.mkdir(parents=True)
    face = np.random.default_rng(0).uniform((-8, -12, 2), (8, 10, 13), (200, 3))
    people = face + np.arange(PEOPLE)[:, None, None] * 0.01
    np.save(folder / "train.npy", np.repeat(people, 50, axis=0).astype(np.float32))
    (folder / "template.obj").write_text("v 0 0 0\n")
    runpy.run_path(str(SCRIPT))["main"](tmp_path)
    target = tmp_path / "meshes" / "heads"
    assert (target / "template.obj").is_file()
    return np.load(target / "train.npy"), np.load(target / "test.npy"), people


def test_one_motion_of_each_person_is_the_test(heads):
    train, test, people = heads
    assert train.shape == (PEOPLE * 7 * FRAMES, 200, 3)
    assert test.shape == (PEOPLE * FRAMES, 200, 3)
    still = people[0, :, 1].argmin()  # a vertex of the neck tells who it is
    for number, person in enumerate(people):
        assert np.allclose(test[number * FRAMES : (number + 1) * FRAMES, still], person[still], atol=1e-5)


def test_the_neck_stays_and_the_head_turns_as_a_rigid_body(heads):
    _, test, people = heads
    height = people.mean(axis=0)[:, 1]
    head, neck = height > -7, height < -11
    assert head.sum() > 50
    assert neck.any()
    for number, person in enumerate(people):
        frames = test[number * FRAMES : (number + 1) * FRAMES].astype(np.float64)
        assert np.abs(frames[:, neck] - person[neck]).max() < 1e-5
        assert np.abs(frames[:, head] - person[head]).max() > 1  # centimetres
        before, after = (
            points[..., None, :, :] - points[..., :, None, :] for points in (person[head], frames[:, head])
        )
        assert np.abs(np.linalg.norm(after, axis=-1) - np.linalg.norm(before, axis=-1)).max() < 1e-4


def distances(points):
    """Between all points, (..., N, 3)."""
    return np.linalg.norm(points[..., None, :, :] - points[..., :, None, :], axis=-1)
