"""View 1 of LFW, from lists and images written here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from pinets.data import DataError, MissingDataError
from pinets.tasks.faces.data.lfw import find_lfw, read_lfw_view1

PEOPLE = {f"Dev_{number}": 1 + number % 4 for number in range(20)} | {f"Test_{number}": 2 for number in range(6)}


def write_list(path, same, different):
    lines = [str(len(same)), *("\t".join(map(str, pair)) for pair in [*same, *different])]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path):
    """People with one to four images; the red of an image is its number, the green the number of the person."""
    root = tmp_path / "lfwcrop"
    for position, (name, count) in enumerate(PEOPLE.items()):
        (root / "lfw" / name).mkdir(parents=True)
        for number in range(1, count + 1):
            image = Image.new("RGB", (16, 16), (20 * number, 8 * position, 0))
            image.save(root / "lfw" / name / f"{name}_{number:04d}.jpg", quality=100, subsampling=0)
    names = [name for name in PEOPLE if name.startswith("Dev")]
    many = [name for name in names if PEOPLE[name] > 1]
    strangers = [(name, 1, names[(5 + position) % 20], 1) for position, name in enumerate(names[: len(many)])]
    write_list(root / "pairsDevTrain.txt", [(name, 1, 2) for name in many], strangers)
    strangers = [("Test_1", 2, "Test_2", 1), ("Test_3", 1, "Test_4", 2)]
    write_list(root / "pairsDevTest.txt", [("Test_0", 1, 2), ("Test_5", 2, 1)], strangers)
    return root


def person(faces, index):
    return faces.classes[faces.labels[index]]


def test_nobody_is_in_two_parts(folder):
    parts = read_lfw_view1(folder, size=16, validation=0.3)
    people = [set(part.classes) for part in (parts.train, parts.validation.faces, parts.test.faces)]
    assert [len(some) for some in people] == [14, 6, 6]
    assert people[2] == {name for name in PEOPLE if name.startswith("Test")}
    assert not people[0] & people[1]
    assert len(parts.train) == sum(PEOPLE[name] for name in people[0])


def test_the_pairs_are_those_of_the_list(folder):
    test = read_lfw_view1(folder, size=16).test
    assert test.same.tolist() == [True, True, False, False]
    number = (test.faces.images[:, 0, 8, 8] / 20).round().int().tolist()
    assert [[(person(test.faces, face), number[face]) for face in pair] for pair in test.pairs.tolist()] == [
        [("Test_0", 1), ("Test_0", 2)],
        [("Test_5", 2), ("Test_5", 1)],
        [("Test_1", 2), ("Test_2", 1)],
        [("Test_3", 1), ("Test_4", 2)],
    ]


def test_validation_pairs_are_of_people_held_out(folder):
    pairs = read_lfw_view1(folder, size=16, validation=0.5).validation
    for (first, second), same in zip(pairs.pairs.tolist(), pairs.same.tolist(), strict=True):
        assert first != second
        assert (person(pairs.faces, first) == person(pairs.faces, second)) == same
    assert int(pairs.same.sum()) * 2 == len(pairs)
    again = read_lfw_view1(folder, size=16, validation=0.5).validation
    assert torch.equal(again.pairs, pairs.pairs)


def test_people_with_few_images_can_be_left_out(folder):
    train = read_lfw_view1(folder, size=16, smallest=3).train
    assert {train.classes[label] for label in train.labels} == set(train.classes)
    assert {name: PEOPLE[name] for name in train.classes} == {
        name: int(count) for name, count in zip(train.classes, torch.bincount(train.labels), strict=True)
    }
    assert min(PEOPLE[name] for name in train.classes) == 3


def test_a_person_in_both_lists_is_refused(folder):
    write_list(folder / "pairsDevTest.txt", [("Dev_1", 1, 2)], [("Test_1", 2, "Test_2", 1)])
    with pytest.raises(DataError, match=r"Dev_1 is in the (training|validation) and in the test part"):
        read_lfw_view1(folder, size=16)


@pytest.mark.parametrize(
    "text, message",
    [
        ("1\nTest_0\t1\t2\n", "announces 2 pairs and has 1"),
        ("1\nTest_0\t1\t2\nTest_1 1 Test_2\n", "line 3: expected NAME"),
        ("1\nTest_0\t1\t9\nTest_1\t1\tTest_2\t1\n", "Test_0_0009.jpg is missing"),
    ],
)
def test_wrong_lists_are_named(folder, text, message):
    (folder / "pairsDevTest.txt").write_text(text)
    with pytest.raises((DataError, MissingDataError), match=message):
        read_lfw_view1(folder, size=16)


def test_where_it_is_looked_for(folder, tmp_path):
    assert find_lfw(tmp_path) == folder
    with pytest.raises(MissingDataError, match=r"LFW is not in .*pairsDevTrain\.txt"):
        find_lfw(tmp_path / "elsewhere")


ROOT = Path(os.environ.get("PINETS_DATA") or "/nowhere")


@pytest.mark.skipif(not (ROOT / "lfwcrop").is_dir(), reason="PINETS_DATA does not hold lfwcrop")
def test_the_real_lists():
    parts = read_lfw_view1(find_lfw(ROOT), size=64, validation=0.1)
    assert len(parts.train.classes) + len(parts.validation.faces.classes) == 2132
    assert len(parts.train) + len(parts.validation.faces) == 6685
    assert (len(parts.test), int(parts.test.same.sum())) == (1000, 500)
    assert len(parts.test.faces.classes) == 963
    assert parts.validation.same.float().mean() == 0.5


def test_one_person_alone_cannot_be_held_out(folder):
    """There would be no pair of two people to validate with."""
    names = ["Dev_2", "Dev_3"]  # with three and four images, so that either has pairs of one
    write_list(folder / "pairsDevTrain.txt", [(name, 1, 2) for name in names], [("Dev_2", 1, "Dev_3", 1)] * 2)
    with pytest.raises(DataError, match="one person alone is held out"):
        read_lfw_view1(folder, size=16, validation=0.5)
