from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from pinets.data import DataError, MissingDataError, load
from pinets.tasks.meshes.geometry import Mesh, write_mesh
from pinets.tasks.meshes.mesh_set import Standardize, mesh_splits, reduce_shapes
from pinets.tasks.meshes.readers import read_shapes

pytest.importorskip("trimesh")

CORNERS = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
FACES = torch.tensor([[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]])


def shapes(count, seed=0):
    return CORNERS + 0.1 * torch.randn(count, 4, 3, generator=torch.Generator().manual_seed(seed))


def write_arrays(folder, train, test):
    folder.mkdir(parents=True)
    np.save(folder / "train.npy", train.numpy())
    np.save(folder / "test.npy", test.numpy())
    write_mesh(folder / "template.obj", CORNERS, FACES)


def test_arrays_with_a_template(tmp_path):
    write_arrays(tmp_path / "meshes" / "faces", shapes(20), shapes(5, 1))
    splits = load("mesh_faces", tmp_path)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (18, 2, 5)
    assert splits.validation.shapes.equal(shapes(20)[18:])  # the last, not any
    assert splits.train.template.faces.equal(FACES)
    assert splits.train.millimetres == 10.0
    np.save(tmp_path / "meshes" / "faces" / "validation.npy", shapes(3, 2).numpy())
    splits = load("mesh_faces", tmp_path)
    assert (len(splits.train), len(splits.validation)) == (20, 3)


@pytest.mark.parametrize(
    "train, message",
    [
        (np.zeros((4, 5, 3), np.float32), r"train\.npy: its shapes have 5 vertices, but the template has 4"),
        (np.zeros((4, 4), np.float32), r"must be numbers \(N, V, 3\)"),
        (np.zeros((4, 4, 3), np.int64), r"must be numbers \(N, V, 3\)"),
        (np.full((4, 4, 3), np.nan, np.float32), r"train\.npy: shape 0 has vertices that are not finite, as 4 of 4"),
        (np.array([{}] * 4, dtype=object), "is not a .npy file of plain numbers"),
    ],
)
def test_bad_arrays_are_refused(tmp_path, train, message):
    folder = tmp_path / "meshes" / "faces"
    write_arrays(folder, shapes(4), shapes(2))
    np.save(folder / "train.npy", train, allow_pickle=True)
    with pytest.raises(DataError, match=message):
        load("mesh_faces", tmp_path)


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(MissingDataError, match=r"train\.npy and test\.npy, each \(N, V, 3\)"):
        load("mesh_bodies", tmp_path)
    write_arrays(tmp_path / "meshes" / "bodies", shapes(4), shapes(2))
    (tmp_path / "meshes" / "bodies" / "template.obj").unlink()
    with pytest.raises(DataError, match="has no template"):
        load("mesh_bodies", tmp_path)


def test_folders_of_meshes(tmp_path):
    for part, count in (("train", 10), ("test", 3)):
        (tmp_path / part).mkdir()
        for number, shape in enumerate(shapes(count)):
            write_mesh(tmp_path / part / f"{number:03}.ply", shape, FACES)
    splits = load("mesh_folder", tmp_path)
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (9, 1, 3)
    torch.testing.assert_close(splits.train.shapes, shapes(10)[:9])
    torch.testing.assert_close(read_shapes(tmp_path / "test"), shapes(3))
    write_mesh(tmp_path / "train" / "999.ply", CORNERS, FACES[:3])
    with pytest.raises(DataError, match=r"999\.ply has .*3 faces.*must have the same faces"):
        load("mesh_folder", tmp_path)
    (tmp_path / "train" / "999.ply").write_text("nothing")
    with pytest.raises(DataError, match=r"999\.ply cannot be read"):
        load("mesh_folder", tmp_path)


def write_coma(root, frames=100):
    """COMA's layout: a folder for each subject, in it one for each expression, in it the frames."""
    for subject in ("FaceTalk_1_TA", "FaceTalk_2_TA"):
        for expression in ("bareteeth", "cheeks_in"):
            folder = root / "COMA_data" / subject / expression
            folder.mkdir(parents=True)
            for frame in range(frames):
                lines = [f"v {x} {y} {frame}" for x, y, _ in CORNERS.tolist()]
                lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in FACES.tolist()]
                (folder / f"{expression}.{frame + 1:06}.ply").write_text(ply(lines))


def ply(lines):
    points = [line[2:] for line in lines if line.startswith("v")]
    faces = ["3 " + " ".join(str(int(word) - 1) for word in line.split()[1:]) for line in lines if line.startswith("f")]
    header = ["ply", "format ascii 1.0", f"element vertex {len(points)}"]
    header += [f"property float {axis}" for axis in "xyz"]
    header += [f"element face {len(faces)}", "property list uchar int vertex_indices", "end_header"]
    return "\n".join([*header, *points, *faces, ""])


def test_comas_splits(tmp_path):
    """As published: of each hundred of all frames the first ten, whichever sequence they are of."""
    write_coma(tmp_path, frames=50)
    splits = load("coma", tmp_path)
    frames = {name: getattr(splits, name).shapes[:, 0, 2].tolist() for name in ("train", "validation", "test")}
    assert frames["test"] == [*range(10)] * 2  # of the first sequence of each subject
    assert frames["validation"] == [*range(10, 20)] * 2
    assert frames["train"] == [*range(20, 50), *range(50)] * 2
    splits = load("coma", tmp_path, split="extrapolation:bareteeth")
    assert splits.test.shapes[:, 0, 2].tolist() == [*range(50)] * 2
    assert splits.validation.shapes[:, 0, 2].tolist() == [*range(10, 20)]
    assert splits.train.shapes[:, 0, 2].tolist() == [*range(10), *range(20, 50), *range(50)]
    for wrong in ("extrapolation:smile", "interpolation:bareteeth", "sliced"):
        with pytest.raises(DataError, match=rf"one of bareteeth, cheeks_in; got '{wrong}'"):
            load("coma", tmp_path, split=wrong)


def test_comas_parts_have_one_topology(tmp_path):
    write_coma(tmp_path, frames=20)
    other = tmp_path / "COMA_data" / "FaceTalk_2_TA" / "bareteeth" / "bareteeth.000001.ply"
    write_mesh(other, CORNERS, FACES[:, [1, 0, 2]])
    with pytest.raises(DataError, match=r"FaceTalk_2_TA/bareteeth/bareteeth\.000001\.ply: face 0 is .* the same faces"):
        load("coma", tmp_path, split="extrapolation:bareteeth")


def write_dfaust(folder, **sequences):
    h5py = pytest.importorskip("h5py")
    folder.mkdir(exist_ok=True)
    for sex, subject in (("f", "50004"), ("m", "50002")):
        with h5py.File(folder / f"registrations_{sex}.hdf5", "w") as file:
            file["faces"] = FACES.numpy().astype("uint32")
            for number, name in enumerate(("chicken_wings", "hips", "jumping_jacks", "knees")):
                array = (shapes(5) + number).permute(1, 2, 0).numpy()
                file[f"{subject}_{name}"] = sequences.get(name, array)


def test_dfausts_files(tmp_path):
    write_dfaust(tmp_path / "dfaust")
    splits = load("dfaust", tmp_path)
    torch.testing.assert_close(splits.test.shapes, (shapes(5) + 3).repeat(2, 1, 1))
    torch.testing.assert_close(splits.validation.shapes, (shapes(5) + 2).repeat(2, 1, 1))
    assert len(splits.train) == 20
    assert splits.train.millimetres == 1000.0
    (tmp_path / "dfaust" / "registrations_m.hdf5").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"registrations_m\.hdf5 cannot be read as DFAUST's registrations"):
        load("dfaust", tmp_path)


@pytest.mark.parametrize(
    "array, message",
    [
        (np.full((4, 3, 5), np.nan), "sequence 50004_hips: shape 0 has vertices that are not finite"),
        (np.zeros((4, 5)), r"sequence 50004_hips must be \(V, 3, frames\), got \(4, 5\)"),
        (np.zeros((5, 3, 5)), r"sequence 50004_hips has Mesh\(5 vertices, 4 faces\), but .*registrations_f\.hdf5 has"),
    ],
)
def test_bad_sequences_of_dfaust_are_named(tmp_path, array, message):
    write_dfaust(tmp_path / "dfaust", hips=array)
    with pytest.raises(DataError, match=rf"registrations_f\.hdf5 cannot be read as DFAUST's registrations: {message}"):
        load("dfaust", tmp_path)


def test_a_set_without_test_shapes_is_refused_before_training(tmp_path):
    write_arrays(tmp_path / "meshes" / "faces", shapes(10), shapes(0))
    with pytest.raises(DataError, match="there are no shapes for the test"):
        load("mesh_faces", tmp_path)


def test_standardizing_and_back():
    many = 5 + shapes(50) * torch.tensor([1.0, 2.0, 3.0])
    many[:, 2] = 7.0  # a vertex that never moves
    standard = Standardize.of(many)
    torch.testing.assert_close(standard.undo(standard(many)), many)
    moving = [0, 1, 3]
    torch.testing.assert_close(standard(many).mean(0), torch.zeros(4, 3), atol=1e-4, rtol=0)
    torch.testing.assert_close(standard(many).std(0)[moving], torch.ones(3, 3), atol=1e-3, rtol=0)
    with pytest.raises(DataError, match="at least two shapes, got 1"):
        Standardize.of(many[:1])


def test_reduced_shapes_keep_the_places_of_their_vertices():
    trimesh = pytest.importorskip("trimesh")
    ball = trimesh.creation.icosphere(subdivisions=2)
    template = Mesh(torch.tensor(ball.vertices), torch.tensor(ball.faces))
    many = template.vertices.float() * torch.rand(10, 162, 3, generator=torch.Generator().manual_seed(0))
    splits = reduce_shapes(mesh_splits(many[:8], many[8:], template, 1.0), 41)
    kept = [int((template.vertices - point).norm(dim=1).argmin()) for point in splits.train.template.vertices]
    assert splits.test.shapes.equal(many[8:, kept])


def test_whole_sequences_from_all_parts_of_the_training_shapes_are_held_out(tmp_path):
    """120 sequences of 60 frames, twelve of each person; each frame says of which sequence it is."""
    numbers = torch.arange(120).repeat_interleave(60)
    write_arrays(tmp_path / "meshes" / "motions", numbers.float()[:, None, None] + CORNERS, shapes(2))
    splits = load("mesh_motions", tmp_path)
    held = splits.validation.shapes[:, 0, 0].long()
    found, frames = held.unique(return_counts=True)
    assert frames.tolist() == [60] * 12
    assert len((found // 12).unique()) == 10  # of every person
    assert len((found % 12).unique()) >= 6  # not the same motion of everybody
    rest = splits.train.shapes[:, 0, 0].long()
    assert torch.cat([rest, held]).sort().values.equal(numbers)
    assert splits.train.millimetres == 1000.0


@pytest.mark.parametrize(
    "frames, error, message",
    [
        (7, DataError, "30 training shapes are no whole number of sequences of 7 frames"),
        (30, DataError, "nothing remains of 1 training sequences of 30 frames when 1 are held out"),
        (0, ValueError, "sequence must be at least 1, got 0"),
    ],
)
def test_sequences_that_do_not_fit_are_refused(tmp_path, frames, error, message):
    write_arrays(tmp_path / "meshes" / "motions", shapes(30), shapes(2))
    with pytest.raises(error, match=message):
        load("mesh_motions", tmp_path, sequence=frames)


def test_too_few_shapes_are_refused():
    template = Mesh(CORNERS, FACES)
    with pytest.raises(DataError, match="nothing remains of 1 training shapes"):
        mesh_splits(shapes(1), shapes(1), template, 1.0)
    with pytest.raises(ValueError, match=r"between 0 and 1, got 1\.5"):
        mesh_splits(shapes(5), shapes(1), template, 1.0, validation=1.5)
    with pytest.raises(DataError, match=r"millimetres must be positive, got 0\.0"):
        mesh_splits(shapes(5), shapes(1), template, 0.0)


@pytest.mark.skipif("PINETS_DATA" not in os.environ, reason="needs data sets in PINETS_DATA")
@pytest.mark.parametrize(
    "name, vertices, count", [("mesh_faces", 6706, 1600), ("mesh_bodies", 3400, 1600), ("mesh_motions", 3400, 6240)]
)
def test_real_shapes(name, vertices, count):
    try:
        splits = load(name, download=False)
    except MissingDataError:
        pytest.skip(f"{name} is not there")
    assert splits.train.shapes.shape[1:] == (vertices, 3)
    assert len(splits.train) + len(splits.validation) == count


def test_a_constant_coordinate_keeps_its_scale():
    shapes = torch.randn(1500, 4, 3) * 10
    shapes[:, 1] = 1000.1  # the sum of so many in float32 is off, which would look like a deviation
    standard = Standardize.of(shapes)
    assert standard.deviation[1].tolist() == [1, 1, 1]
    assert standard(shapes)[:, 1].abs().max() == 0
