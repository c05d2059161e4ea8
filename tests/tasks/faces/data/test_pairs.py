"""Lists in the official formats, made here."""

from __future__ import annotations

import io
import os
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from pinets.data import DataError, MissingDataError
from pinets.tasks.faces.data import RFW_SUBSETS, open_pack, open_pairs, open_rfw, parse_pairs


def picture(gray, size=8, kind="PNG"):
    buffer = io.BytesIO()
    Image.new("RGB", (size, size), (gray, gray, gray)).save(buffer, format=kind)
    return buffer.getvalue()


def write_people(folder, people, ending=".jpg"):
    for name, count in people.items():
        (folder / name).mkdir(parents=True)
        for number in range(1, count + 1):
            (folder / name / f"{name}_{number:04d}{ending}").write_bytes(picture(10 * number))
    return folder


def read(pairs):
    return pairs.faces.read(torch.arange(len(pairs.faces)), torch.empty(len(pairs.faces), 0))


LISTS = {
    "pairs.txt": "2\t1\nAnn\t1\t2\nAnn\t1\tBob\t1\nBob\t1\t3\nBob\t2\tCid\t1\n",
    "pairsDevTest.txt": "2\nAnn\t1\t2\nBob\t1\t3\nAnn\t1\tBob\t1\nBob\t2\tCid\t1\n",
    "African_pairs.txt": "Ann\t1\t2\nAnn\t1\tBob\t1\nBob\t1\t3\nBob\t2\tCid\t1\n",
}


@pytest.mark.parametrize("name", LISTS)
def test_all_three_forms_of_lists(tmp_path, name):
    (tmp_path / name).write_text(LISTS[name])
    images = write_people(tmp_path / "images", {"Ann": 2, "Bob": 3, "Cid": 1})
    listed = parse_pairs(tmp_path / name)
    assert set(listed) == {
        (("Ann", 1), ("Ann", 2)),
        (("Bob", 1), ("Bob", 3)),
        (("Ann", 1), ("Bob", 1)),
        (("Bob", 2), ("Cid", 1)),
    }
    pairs = open_pairs(tmp_path / name, images, size=4)
    for (first, second), (a, b), same in zip(listed, pairs.pairs.tolist(), pairs.same.tolist(), strict=True):
        for (person, number), place in ((first, a), (second, b)):
            assert pairs.faces.paths[place].endswith(f"{person}_{number:04d}.jpg")
            assert pairs.faces.classes[pairs.faces.labels[place]] == person
        assert same == (first[0] == second[0])
    assert len(pairs.faces) == 6  # each image once
    assert read(pairs).shape == (6, 3, 4, 4)


@pytest.mark.parametrize(
    "text, message",
    [
        ("1\nAnn\t1\t2\n", "announces 2 pairs and has 1"),
        ("1\nAnn\t1\t2\nAnn\t1\n", "line 3: expected NAME N N"),
        ("1\nAnn\t1\tx\nAnn\t1\tBob\t1\n", "line 2: expected NAME N N"),
        ("Ann\t1\tAnn\t2\n", "line 1: expected NAME N N, or NAME N NAME N of two people"),
        ("", "names no pairs"),
    ],
)
def test_a_broken_list_is_told_by_its_line(tmp_path, text, message):
    (tmp_path / "pairs.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        parse_pairs(tmp_path / "pairs.txt")


def test_missing_files_are_named(tmp_path):
    with pytest.raises(MissingDataError, match=r"pairs\.txt is missing"):
        parse_pairs(tmp_path / "pairs.txt")
    (tmp_path / "pairs.txt").write_text(LISTS["pairs.txt"])
    images = write_people(tmp_path / "images", {"Ann": 2, "Bob": 2, "Cid": 1})
    with pytest.raises(MissingDataError, match=r"Bob_0003\.jpg is missing .*pairs\.txt names it"):
        open_pairs(tmp_path / "pairs.txt", images, size=4)


@pytest.mark.parametrize("root", ["RFW", "RFW/test"])
def test_rfw_has_four_subsets(tmp_path, root):
    for name in RFW_SUBSETS:
        folder = tmp_path / root / "txts" / name
        folder.mkdir(parents=True)
        (folder / f"{name}_pairs.txt").write_text("m.1\t1\t2\nm.1\t1\tm.2\t1\n")
        write_people(tmp_path / root / "data" / name, {"m.1": 2, "m.2": 1}, ".png")
    found = open_rfw(tmp_path / "RFW", size=8)
    assert list(found) == ["Caucasian", "Indian", "Asian", "African"]
    assert found["African"].same.tolist() == [True, False]
    assert "/African/" in found["African"].faces.paths[0]


def write_pack(path, content, **options):
    path.write_bytes(pickle.dumps(content, **options))
    return path


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize(
    "wrap", [bytes, lambda encoded: np.frombuffer(encoded, dtype=np.uint8)], ids=["bytes", "array"]
)
def test_a_pack_holds_two_images_for_each_pair(tmp_path, protocol, wrap):
    images = [wrap(picture(gray)) for gray in (0, 50, 100, 150)]
    pairs = open_pack(write_pack(tmp_path / "lfw.bin", (images, [True, False]), protocol=protocol), size=8)
    assert pairs.same.tolist() == [True, False]
    assert pairs.pairs.tolist() == [[0, 1], [2, 3]]
    assert read(pairs)[:, 0, 0, 0].tolist() == [0, 50, 100, 150]
    assert pairs.faces.subset(torch.tensor([3, 1])).read(torch.tensor([0]), torch.empty(1, 0))[0, 0, 0, 0] == 150


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("where", ["image", "answer", "whole"])
def test_a_malicious_pack_is_refused_and_not_run(tmp_path, where):
    evil = Malicious(tmp_path / "was-run")
    content = {
        "image": ([evil, picture(0)], [True]),
        "answer": ([picture(0), picture(1)], [evil]),
        "whole": evil,
    }[where]
    with pytest.raises(DataError, match=r"evil\.bin: refused.*it asks for (posix|nt)\.system"):
        open_pack(write_pack(tmp_path / "evil.bin", content))
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(
    "code",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cbuiltins\ngetattr\n(S'x'\nS'upper'\ntR.",
        b"cpinets.data.pickles\nload_arrays\n(tR.",
        b"cnumpy\nload\n(S'x'\ntR.",
    ],
)
def test_other_names_are_refused_too(tmp_path, code):
    (tmp_path / "evil.bin").write_bytes(code)
    with pytest.raises(DataError, match="refused"):
        open_pack(tmp_path / "evil.bin")


@pytest.mark.parametrize(
    "content, message",
    [
        (([b"a"], [True]), "1 pairs need 2 images, but there are 1"),
        (([], []), "0 pairs need 0 images"),
        (([b"a", b"b"], ["yes"]), "must be true or false"),
        (([b"a", 3], [True]), "image 1 must be bytes, got int"),
        ({"a": 1}, "expected a list of images"),
        (([b"a", b"b"], 1), r"lfw\.bin: the answers must be a list, got int"),
        ((3, [True]), r"lfw\.bin: the images must be a list, got int"),
        ((b"ab", [True]), r"lfw\.bin: the images must be a list, got bytes"),
        (([b"a", b"b"], np.array([[True, False]])), "must be true or false"),
    ],
)
def test_a_pack_of_another_shape_is_told(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        open_pack(write_pack(tmp_path / "lfw.bin", content))


def test_a_damaged_pack_is_told(tmp_path):
    whole = pickle.dumps(([picture(0), picture(1)], [True]))
    (tmp_path / "cut.bin").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="damaged or cut short"):
        open_pack(tmp_path / "cut.bin")
    bad = open_pack(write_pack(tmp_path / "bad.bin", ([picture(0), b"no image"], [True])))
    with pytest.raises(DataError, match=r"bad\.bin, image 1: cannot be decoded"):
        read(bad)
