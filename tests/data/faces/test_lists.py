"""IJB's and MegaFace's lists, Yale B's lights, and embeddings from files."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from pinets.data import DataError, MissingDataError
from pinets.data.faces import (
    keep,
    light_subset,
    open_embeddings,
    open_yaleb,
    parse_pairs,
    read_ijb,
    read_image_list,
    read_noises,
    write_features,
)

IJBC = {
    "ijbc_face_tid_mid.txt": "1.jpg 10 100\n2.jpg 10 100\n3.jpg 20 7\n4.jpg 30 8\n",
    "ijbc_name_5pts_score.txt": "".join(f"{n}.jpg {' '.join(['1.5'] * 10)} 0.{n}\n" for n in range(1, 5)),
    "ijbc_template_pair_label.txt": "10 20 1\n10 30 0\n",
    "ijbc_1N_gallery_G1.csv": "TEMPLATE_ID,SUBJECT_ID,FILENAME\n10,1,a.jpg\n10,1,b.jpg\n",
    "ijbc_1N_gallery_G2.csv": "TEMPLATE_ID,SUBJECT_ID,FILENAME\n30,2,c.jpg\n",
    "ijbc_1N_probe_mixed.csv": "TEMPLATE_ID,SUBJECT_ID,FILENAME\n20,1,d.jpg\n",
}


def write(folder, files):
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_ijb_meta_files(tmp_path):
    meta = read_ijb(write(tmp_path / "meta", IJBC))
    assert meta.images == ("1.jpg", "2.jpg", "3.jpg", "4.jpg")
    assert meta.templates.tolist() == [10, 10, 20, 30]
    assert meta.media.tolist() == [100, 100, 7, 8]
    assert meta.detection.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert (meta.pairs.first.tolist(), meta.pairs.second.tolist()) == ([10, 10], [20, 30])
    assert meta.pairs.same.tolist() == [True, False]
    assert [(g.templates.tolist(), g.subjects.tolist()) for g in meta.galleries] == [([10], [1]), ([30], [2])]
    assert (meta.probes.templates.tolist(), meta.probes.subjects.tolist()) == ([20], [1])


def test_ijbb_names_its_galleries_otherwise(tmp_path):
    renamed = {name.replace("ijbc", "ijbb").replace("_G", "_S"): text for name, text in IJBC.items()}
    assert len(read_ijb(write(tmp_path / "meta", renamed)).galleries) == 2


def test_what_is_not_there_is_none(tmp_path):
    meta = read_ijb(write(tmp_path / "meta", {"ijbc_face_tid_mid.txt": IJBC["ijbc_face_tid_mid.txt"]}))
    assert (meta.detection, meta.pairs, meta.galleries, meta.probes) == (None, None, (), None)
    with pytest.raises(MissingDataError, match="must hold one file NAME_face_tid_mid"):
        read_ijb(tmp_path)


@pytest.mark.parametrize("name", IJBC)
def test_blank_lines_at_the_end_do_not_matter(tmp_path, name):
    meta, same = (
        read_ijb(write(tmp_path / end.encode().hex(), {**IJBC, name: IJBC[name] + end})) for end in ("\n", " \n")
    )
    assert meta.images == same.images
    assert meta.templates.tolist() == same.templates.tolist() == [10, 10, 20, 30]


@pytest.mark.parametrize("part", ["G", "S"])
def test_galleries_come_in_twos(tmp_path, part):
    files = {name.replace("_G", f"_{part}"): text for name, text in IJBC.items()}
    del files[f"ijbc_1N_gallery_{part}2.csv"]
    with pytest.raises(MissingDataError, match=rf"ijbc_1N_gallery_{part}2\.csv is missing: 1:N needs both galleries"):
        read_ijb(write(tmp_path / "meta", files))


@pytest.mark.parametrize("score", ["nan", "inf", "-0.5"])
def test_a_detection_score_is_finite_and_not_negative(tmp_path, score):
    name = "ijbc_name_5pts_score.txt"
    files = {**IJBC, name: IJBC[name].replace("0.3\n", f"{score}\n")}
    with pytest.raises(DataError, match=rf"{name}, line 3: .* must be finite and not negative, got '{score}'"):
        read_ijb(write(tmp_path / "meta", files))


@pytest.mark.parametrize(
    "name, text, message",
    [
        (
            "ijbc_1N_probe_mixed.csv",
            "T,S\n20,7\n",
            "1 templates show subjects that are in neither gallery, the first is 7",
        ),
        ("ijbc_face_tid_mid.txt", "1.jpg 10\n", "line 1: expected 3 columns"),
        ("ijbc_face_tid_mid.txt", "1.jpg ten 3\n", "line 1: expected a number, got 'ten'"),
        ("ijbc_name_5pts_score.txt", f"1.jpg {'1 ' * 10}0.5\n", "the same images in the same order"),
        ("ijbc_template_pair_label.txt", "10 20 2\n", "two templates and 1 or 0"),
        ("ijbc_template_pair_label.txt", "10 20 a\n", "could not convert"),
        ("ijbc_template_pair_label.txt", "10 99 0\n", "1 templates have no images, the first is 99"),
        ("ijbc_1N_gallery_G1.csv", "T,S\n10,1\n10,2\n", "line 3: template 10 is of subject 2, and of 1 before"),
        ("ijbc_1N_gallery_G1.csv", "T,S\n", "names no templates"),
    ],
)
def test_broken_meta_files_are_told(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        read_ijb(write(tmp_path / "meta", {**IJBC, name: text}))


def test_megaface_lists_as_json_and_text(tmp_path):
    listed = {"path": ["Ann/1.png", "Bob/1.png", "Ann/2.png"], "id": ["Ann", "Bob", "Ann"]}
    (tmp_path / "list.json").write_text(json.dumps(listed))
    (tmp_path / "list.txt").write_text("\n".join(listed["path"]) + "\n")
    (tmp_path / "paths.json").write_text(json.dumps({"path": listed["path"]}))
    for name in ("list.json", "list.txt", "paths.json"):
        images = read_image_list(tmp_path / name)
        assert (list(images.paths), images.people.tolist()) == (listed["path"], [0, 1, 0])
    (tmp_path / "bad.json").write_text(json.dumps({"path": ["a"], "id": ["x", "y"]}))
    with pytest.raises(DataError, match="names 1 images and 2 people"):
        read_image_list(tmp_path / "bad.json")


@pytest.mark.parametrize(
    "content, message",
    [
        ({"path": [1, 2]}, "'path' must be a list of texts, got 1"),
        ({"path": "a.jpg"}, "'path' must be a list, got str"),
        ({"path": ["a.jpg"], "id": [["Ann"]]}, r"'id' must be a list of texts, got \['Ann'\]"),
    ],
)
def test_megaface_lists_hold_texts(tmp_path, content, message):
    (tmp_path / "list.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=rf"list\.json: {message}"):
        read_image_list(tmp_path / "list.json")


@pytest.mark.parametrize("read", [parse_pairs, read_image_list, read_noises, lambda path: read_ijb(path.parent)])
def test_lists_that_are_no_text_are_named(tmp_path, read):
    path = tmp_path / "ijbc_face_tid_mid.txt"
    path.write_bytes(b"\x93NUMPY\xff")
    with pytest.raises(DataError, match=rf"{path.name}: must be text in UTF-8, but byte 0 is none"):
        read(path)


def test_noises_are_left_out(tmp_path):
    (tmp_path / "noises.txt").write_text("# comment\n17\t363/4851/2.jpg\nAnn_2.png\n")
    noises = read_noises(tmp_path / "noises.txt")
    assert noises == {"363/4851/2.jpg", "Ann_2.png"}
    (tmp_path / "list.txt").write_text("Ann/Ann_1.png\nAnn/Ann_2.png\nx/363/4851/2.jpg\n9/4851/2.jpg\n")
    images = read_image_list(tmp_path / "list.txt")
    assert keep(images, noises).tolist() == [0, 3]
    assert keep(images, frozenset()).tolist() == [0, 1, 2, 3]


def write_feature(path, values, header=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<4i", *(header or (len(values), 1, 4, 5))) + struct.pack(f"<{len(values)}f", *values))


def test_features_of_megafaces_tools_become_one_file(tmp_path):
    for number, name in enumerate(("a/1.jpg", "b/2.jpg")):
        write_feature(tmp_path / f"{name}_net.bin", [number, 2.0, 3.0])
    write_features(tmp_path, ["b/2.jpg", "a/1.jpg"], "_net.bin", tmp_path / "all.npy")
    assert open_embeddings(tmp_path / "all.npy").tolist() == [[1, 2, 3], [0, 2, 3]]
    write_feature(tmp_path / "c.jpg_net.bin", [1.0, 2.0])
    with pytest.raises(DataError, match="has 2 values, the first has 3"):
        write_features(tmp_path, ["a/1.jpg", "c.jpg"], "_net.bin", tmp_path / "all.npy")
    write_feature(tmp_path / "d.jpg_net.bin", [1.0], header=(1, 1, 8, 6))
    with pytest.raises(DataError, match="expected a column of float32"):
        write_features(tmp_path, ["d.jpg"], "_net.bin", tmp_path / "all.npy")


@pytest.mark.parametrize("error", [MissingDataError("gone"), KeyboardInterrupt()])
def test_features_that_are_not_complete_leave_no_file(tmp_path, monkeypatch, error):
    """Half a matrix would look like a whole one, with rows of zeros."""

    def read(path):
        if path.name == "b.jpg_net.bin":
            raise error
        return bytes(12)

    monkeypatch.setattr("pinets.data.faces.megaface._read_feature", read)
    with pytest.raises(type(error)):
        write_features(tmp_path, ["a.jpg", "b.jpg"], "_net.bin", tmp_path / "all.npy")
    assert not list(tmp_path.iterdir())
    write_features(tmp_path, ["a.jpg"], "_net.bin", tmp_path / "all.npy")
    before = (tmp_path / "all.npy").read_bytes()
    with pytest.raises(type(error)):
        write_features(tmp_path, ["a.jpg", "b.jpg"], "_net.bin", tmp_path / "all.npy")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


class Malicious:
    def __reduce__(self):
        return os.system, ("exit 1",)


def test_embeddings_are_matrices_of_numbers(tmp_path):
    np.save(tmp_path / "good.npy", np.eye(3, dtype=np.float16))
    assert open_embeddings(tmp_path / "good.npy").shape == (3, 3)
    np.save(tmp_path / "evil.npy", np.array([[Malicious()]], dtype=object), allow_pickle=True)
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    (tmp_path / "no.npy").write_bytes(b"not an array")
    for name in ("evil", "flat", "text", "no"):
        with pytest.raises(DataError, match=f"{name}.npy"):
            open_embeddings(tmp_path / f"{name}.npy")
    with pytest.raises(MissingDataError, match=r"gone\.npy is missing"):
        open_embeddings(tmp_path / "gone.npy")


def test_yaleb_is_divided_by_the_angle_of_the_light(tmp_path):
    folder = tmp_path / "CroppedYale" / "yaleB01"
    folder.mkdir(parents=True)
    for light in ("A+000E+00", "A-020E-10", "A+035E-20", "A-070E+00", "A+110E+65"):
        (folder / f"yaleB01_P00{light}.pgm").write_bytes(b"P5 2 2 255\n" + bytes(4))
    (folder / "yaleB01_P00_Ambient.pgm").write_bytes(b"P5 2 2 255\n" + bytes(4))
    found = open_yaleb(tmp_path, size=2)
    by_name = {Path(path).stem[-9:]: subset for path, subset in zip(found.faces.paths, found.subsets, strict=True)}
    expected = {"A+000E+00": 1, "A-020E-10": 2, "A+035E-20": 3, "A-070E+00": 4, "A+110E+65": 5}
    assert {name: int(subset) for name, subset in by_name.items()} == expected
    with pytest.raises(MissingDataError, match="Extended Yale B is not in"):
        open_yaleb(tmp_path / "CroppedYale" / "yaleB01", size=2)


def test_limits_belong_to_the_inner_subset():
    assert [light_subset(angle, 0) for angle in (12, 25, 52, 77, 78)] == [1, 2, 3, 4, 5]


DATA = Path(os.environ.get("PINETS_DATA") or "/nowhere")


@pytest.mark.skipif(not (DATA / "yaleb").is_dir(), reason="PINETS_DATA does not hold yaleb")
def test_the_real_lights_are_divided_as_in_the_literature():
    found = open_yaleb(DATA, size=8)
    assert torch.bincount(found.subsets[found.faces.labels == 0])[1:].tolist() == [7, 12, 12, 14, 19]
    assert len(found.faces) == 2414


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ijbc_1N_probe_mixed.csv", "20,1,d.jpg\n", "line 1: expected the names of the columns, got '20,1,d.jpg'"),
        ("ijbc_1N_probe_mixed.csv", "T,S\n10,1\n20,1\n", "1 templates are probes and in a gallery, the first is 10"),
        ("ijbc_1N_gallery_G2.csv", "T,S\n30,1\n", "1 subjects are in both galleries, the first is 1"),
        ("ijbc_template_pair_label.txt", "10 20 1\n10 30 0\n20 10 0\n", "labelled 1 and 0, the first is 10 with 20"),
    ],
)
def test_mistakes_that_would_change_the_rates_are_refused(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        read_ijb(write(tmp_path / "meta", IJBC | {name: text}))


def test_galleries_need_probes(tmp_path):
    without = {name: text for name, text in IJBC.items() if "probe" not in name}
    with pytest.raises(MissingDataError, match=r"ijbc_1N_probe_mixed\.csv is missing: 1:N needs probes"):
        read_ijb(write(tmp_path / "meta", without))
