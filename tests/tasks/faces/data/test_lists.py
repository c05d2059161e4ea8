"""MegaFace's lists."""

from __future__ import annotations

import json

import pytest

from pinets.data import DataError
from pinets.tasks.faces.data import keep, parse_pairs, read_ijb, read_image_list, read_noises


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


def test_lists_that_are_nested_too_deeply_are_named(tmp_path):
    (tmp_path / "list.json").write_text('{"path": ' + "[" * 200_000)
    with pytest.raises(DataError, match=r"list\.json is not valid JSON"):
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
