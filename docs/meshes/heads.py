"""Make heads in motion from faces: ``python docs/meshes/heads.py DATA`` reads meshes/faces, writes meshes/heads there.

The faces are a linear model, for which PCA is the best code there is. Here eight of their people nod, shake and tilt
their heads while they change their expressions. The neck stays and the head turns, so positions are sines and cosines
of three angles. Of 64 sequences of 60 frames eight are the test, another motion of each person.
"""

import shutil
import sys
from pathlib import Path

import numpy as np

PEOPLE, FRAMES, FRAMES_OF_A_FACE = 8, 60, 50
NECK = np.array([0.0, -8.0, 2.0])  # in the centimetres of the faces: y is up, z to the front
MOTIONS = {  # the largest pitch, yaw and roll, in radians
    "nod": (0.6, 0.0, 0.0),
    "shake": (0.0, 1.0, 0.0),
    "tilt": (0.0, 0.0, 0.5),
    "circle": (0.5, 0.8, 0.0),
    "doubt": (0.2, 0.3, 0.5),
    "laugh": (0.6, 0.2, 0.3),
    "look around": (0.3, 1.0, 0.2),
    "stretch": (0.6, 0.8, 0.5),
}


def rotation(axis: int, angles: np.ndarray) -> np.ndarray:
    """Rotations (N, 3, 3) about a coordinate axis."""
    first, second = (axis + 1) % 3, (axis + 2) % 3
    made = np.zeros((len(angles), 3, 3))
    made[:, axis, axis] = 1
    made[:, first, first] = made[:, second, second] = np.cos(angles)
    made[:, second, first] = np.sin(angles)
    made[:, first, second] = -np.sin(angles)
    return made


def smooth_step(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """From 0 below ``low`` to 1 above ``high``."""
    share = np.clip((x - low) / (high - low), 0, 1)
    return share * share * (3 - 2 * share)


def turn(shapes: np.ndarray, turns: np.ndarray, joint: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Turn each shape (N, V, 3) about a joint, every vertex as far as its weight (V,) says."""
    turned = np.einsum("nij,nvj->nvi", turns, shapes - joint) + joint
    return shapes + weight[:, None] * (turned - shapes)


def sequence(faces: np.ndarray, rest: np.ndarray, limits: tuple[float, ...], rng: np.random.Generator) -> np.ndarray:
    """One motion of a person, whose expressions are ``faces``, (N, V, 3); ``rest`` is a face at rest, (V, 3)."""
    time = np.linspace(0, 1, FRAMES)
    phases, cycles = rng.uniform(0, 2 * np.pi, (3, 1)), rng.uniform(0.8, 1.6, (3, 1))
    waves = np.sin(2 * np.pi * cycles * time + phases) * rng.uniform(0.7, 1.1, (3, 1))
    pitch, yaw, roll = waves * np.array(limits)[:, None]
    when = (len(faces) - 1) * (0.5 + 0.5 * np.sin(2 * np.pi * rng.uniform(0.5, 1.0) * time + rng.uniform(0, 2 * np.pi)))
    before = np.minimum(when.astype(int), len(faces) - 2)
    share = (when - before)[:, None, None]
    shapes = (1 - share) * faces[before] + share * faces[before + 1]

    head = smooth_step(rest[:, 1], -11.0, -7.0)  # the neck stays
    turns = rotation(1, yaw) @ rotation(0, pitch) @ rotation(2, roll)
    return turn(shapes, turns, NECK, head).astype(np.float32)


def main(data: Path) -> None:
    source, target = data / "meshes" / "faces", data / "meshes" / "heads"
    people = np.load(source / "train.npy").astype(np.float64)
    people = people[: PEOPLE * FRAMES_OF_A_FACE].reshape(PEOPLE, FRAMES_OF_A_FACE, -1, 3)
    rest, rng = people.mean(axis=(0, 1)), np.random.default_rng(0)
    made = [sequence(faces, rest, limits, rng) for faces in people for limits in MOTIONS.values()]
    held = [(number // len(MOTIONS) + number) % 8 == 0 for number in range(len(made))]  # another motion of each person
    target.mkdir(parents=True, exist_ok=True)
    for name, wanted in (("train", False), ("test", True)):
        part = [one for one, test in zip(made, held, strict=True) if test == wanted]
        np.save(target / f"{name}.npy", np.concatenate(part))
    shutil.copy(source / "template.obj", target / "template.obj")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
