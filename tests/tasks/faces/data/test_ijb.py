"""IJB's meta files."""

from __future__ import annotations

import pytest

from pinets.data import DataError, MissingDataError
from pinets.tasks.faces.data import read_ijb

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
