"""``pinets eval faces``, on files in the official formats made here."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from pinets.cli import main
from pinets.tasks import get_recipe
from pinets.tasks.faces.data import RFW_SUBSETS
from pinets.tasks.faces.results import load_results

GENERATOR = np.random.default_rng(0)


def picture():
    buffer = io.BytesIO()
    Image.fromarray(GENERATOR.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(buffer, format="PNG")
    return buffer.getvalue()


def write_pack(folder, pairs=40):
    """A pack, and embeddings that tell its pairs apart but for some."""
    same = np.arange(pairs) % 4 < 2
    first = GENERATOR.normal(size=(pairs, 8))
    second = np.where(same[:, None], first, GENERATOR.normal(size=(pairs, 8))) + 0.8 * GENERATOR.normal(size=(pairs, 8))
    (folder / "lfw.bin").write_bytes(pickle.dumps(([picture() for _ in range(2 * pairs)], same.tolist())))
    rows = np.stack([first, second], 1).reshape(-1, 8)
    np.save(folder / "good.npy", rows)
    np.save(folder / "blind.npy", np.ones((2 * pairs, 8)))
    return folder


def test_pairs_of_a_pack(tmp_path, capsys):
    write_pack(tmp_path)
    command = ["eval", "faces", "pairs", "--pack", str(tmp_path / "lfw.bin"), "--out", str(tmp_path / "out")]
    assert main([*command, "--embeddings", str(tmp_path / "good.npy"), "--name", "ResNet50"]) == 0
    shown = capsys.readouterr().out
    assert "mirror images: as in the embeddings given" in shown
    assert main([*command, "--embeddings", str(tmp_path / "blind.npy")]) == 0
    good, blind = sorted(load_results(tmp_path / "out"), key=lambda result: -result.figures["accuracy"])
    assert (good.model, blind.model, good.data) == ("ResNet50", "blind", "LFW")
    assert 0.7 < good.figures["accuracy"] <= 1
    assert blind.figures["accuracy"] == 0.5
    assert blind.figures["FAR=0.1"] == 0.0
    page = (tmp_path / "out" / "report.html").read_text()
    for words in ("ResNet50", "blind", "false accept rate", "data:image/png;base64", "Hardest pairs of LFW"):
        assert words in page
    assert not re.search("(src|href)=.?http", page)  # nothing comes from elsewhere


def test_embeddings_of_mirror_images_are_added(tmp_path):
    write_pack(tmp_path)
    rows = np.load(tmp_path / "good.npy")
    np.save(tmp_path / "half.npy", rows / 2)
    command = ["eval", "faces", "pairs", "--pack", str(tmp_path / "lfw.bin"), "--out", str(tmp_path / "out")]
    files = ["--embeddings", str(tmp_path / "half.npy"), "--flipped", str(tmp_path / "half.npy"), "--name", "twice"]
    assert main([*command, *files]) == 0
    assert main([*command, "--embeddings", str(tmp_path / "good.npy"), "--name", "once"]) == 0
    once, twice = load_results(tmp_path / "out")
    assert once.figures == twice.figures
    assert twice.settings["mirror images"] == "added"


def test_rates_finer_than_the_list_are_told(tmp_path, capsys):
    """Of 20 impostors none may be accepted at one in a thousand: that is no figure at that rate."""
    write_pack(tmp_path)
    command = ["eval", "faces", "pairs", "--pack", str(tmp_path / "lfw.bin"), "--out", str(tmp_path / "out")]
    assert main([*command, "--embeddings", str(tmp_path / "good.npy")]) == 0
    cells = dict(re.findall(r"FAR=(\S+) +(.*)", capsys.readouterr().out))
    remark = "(at no false accept, 20 impostors)"
    assert {rate: remark in cell for rate, cell in cells.items()} == {"0.001": True, "0.01": True, "0.1": False}
    assert remark in (tmp_path / "out" / "report.html").read_text()


def write_ijb(folder, subjects=20):
    """Two galleries of ten subjects, three probes of each, two images in each template, in IJB-C's files."""
    meta = folder / "meta"
    meta.mkdir()
    centres = GENERATOR.normal(size=(subjects, 16))
    images, rows, templates = [], [], []
    for template in range(4 * subjects):
        for image in range(2):
            images.append((f"{len(images)}.jpg", template + 1, image if template % 3 else 0))
            rows.append(centres[template % subjects] + 0.7 * GENERATOR.normal(size=16))
        templates.append((template + 1, template % subjects))
    lines = {
        "ijbc_face_tid_mid.txt": [f"{name} {template} {medium}" for name, template, medium in images],
        "ijbc_name_5pts_score.txt": [f"{name} {'0 ' * 10}0.9" for name, _, _ in images],
        "ijbc_template_pair_label.txt": [
            f"{gallery} {probe} {int(a == b)}"
            for gallery, a in templates[:subjects]
            for probe, b in templates[subjects:]
        ],
        "ijbc_1N_gallery_G1.csv": ["TEMPLATE_ID,SUBJECT_ID", *(f"{t},{s}" for t, s in templates[: subjects // 2])],
        "ijbc_1N_gallery_G2.csv": [
            "TEMPLATE_ID,SUBJECT_ID",
            *(f"{t},{s}" for t, s in templates[subjects // 2 : subjects]),
        ],
        "ijbc_1N_probe_mixed.csv": ["TEMPLATE_ID,SUBJECT_ID", *(f"{t},{s}" for t, s in templates[subjects:])],
    }
    for name, text in lines.items():
        (meta / name).write_text("\n".join(text) + "\n")
    np.save(folder / "ijbc.npy", np.array(rows, dtype=np.float32))
    return folder


def test_ijb_by_both_conventions(tmp_path, capsys):
    write_ijb(tmp_path)
    command = ["eval", "faces", "ijb", str(tmp_path / "meta"), "--embeddings", str(tmp_path / "ijbc.npy")]
    assert main([*command, "--out", str(tmp_path / "out"), "--name", "net"]) == 0
    shown = capsys.readouterr().out
    assert "weighed by detection yes" in shown
    by_protocol = {result.protocol: result for result in load_results(tmp_path / "out")}
    assert set(by_protocol) == {
        "1:1 verification",
        "1:N identification, separate galleries",
        "1:N identification, combined galleries",
    }
    one = by_protocol["1:1 verification"]
    assert one.data == "IJB-C"
    assert list(one.figures) == ["FAR=1e-06", "FAR=1e-05", "FAR=0.0001", "FAR=0.001", "FAR=0.01", "FAR=0.1"]
    assert one.figures["FAR=0.1"] > 0.8
    assert set(one.remarks) == {"FAR=1e-06", "FAR=1e-05", "FAR=0.0001"}  # finer than 1,140 impostors
    separate = by_protocol["1:N identification, separate galleries"]
    assert separate.remarks == {"FPIR=0.01": "at no false positive, 30 searches"}
    for name in ("separate", "combined"):
        figures = by_protocol[f"1:N identification, {name} galleries"].figures
        assert list(figures) == ["FPIR=0.01", "FPIR=0.1", "rank 1", "rank 5", "rank 10"]
        assert figures["rank 1"] <= figures["rank 5"] <= figures["rank 10"]
        assert name in shown
    # half as many to be confused with
    ranks = [
        by_protocol[f"1:N identification, {name} galleries"].figures["rank 1"] for name in ("separate", "combined")
    ]
    assert ranks[0] >= ranks[1]
    assert main([*command, "--out", str(tmp_path / "plain"), "--no-detection", "--normalize", "--no-media"]) == 0
    assert "normalised first yes, weighed by detection no, frames averaged first no" in capsys.readouterr().out


def write_megaface(folder):
    centres = GENERATOR.normal(size=(6, 16))
    people = np.repeat(np.arange(6), 5)
    rows = centres[people] + 0.2 * GENERATOR.normal(size=(30, 16))
    rows[7] = centres[0]  # a wrong label: person 1's third image shows person 0
    np.save(folder / "facescrub.npy", rows)
    names = [f"Person_{person}/Person_{person}_{number}.png" for person in range(6) for number in range(5)]
    (folder / "facescrub.json").write_text(
        json.dumps({"path": names, "id": [name.partition("/")[0] for name in names]})
    )
    distractors = GENERATOR.normal(size=(500, 16))
    distractors[123] = centres[2]  # a probe's person among the distractors
    np.save(folder / "megaface.npy", distractors)
    (folder / "megaface.txt").write_text("\n".join(f"1/{number}/0.jpg" for number in range(500)))
    (folder / "facescrub_noises.txt").write_text("# wrong\nPerson_1_2.png\n")
    (folder / "megaface_noises.txt").write_text("# wrong\n9\t1/123/0.jpg\n")
    return folder


def megaface_command(folder):
    command = ["eval", "faces", "megaface", "--out", str(folder / "out"), "--ranks", "10"]
    for kind, name in (("probe", "facescrub"), ("distractor", "megaface")):
        listed = folder / f"{name}{'.json' if kind == 'probe' else '.txt'}"
        command += [f"--{kind}s", str(folder / f"{name}.npy"), f"--{kind}-list", str(listed)]
    return command


@pytest.mark.parametrize("kind, listed", [("probe", "facescrub.json"), ("distractor", "megaface.txt")])
def test_noises_that_leave_nobody_are_told(tmp_path, capsys, kind, listed):
    write_megaface(tmp_path)
    names = [f"Person_{number // 5}_{number % 5}.png" for number in range(30)]
    names += [f"1/{number}/0.jpg" for number in range(500)]
    (tmp_path / "noises.txt").write_text("\n".join(names))
    assert main([*megaface_command(tmp_path), f"--{kind}-noises", str(tmp_path / "noises.txt")]) == 2
    count = {"probe": 30, "distractor": 500}[kind]
    assert f"noises.txt names all {count} images of {tmp_path / listed}: none is left" in capsys.readouterr().err


def test_megaface_without_its_noises(tmp_path):
    write_megaface(tmp_path)
    command = megaface_command(tmp_path)
    assert main([*command, "--name", "noisy"]) == 0
    noises = [
        word for kind, name in (("probe", "facescrub"), ("distractor", "megaface"))
        for word in (f"--{kind}-noises", str(tmp_path / f"{name}_noises.txt"))
    ]  # fmt: skip
    assert main([*command, *noises, "--name", "clean"]) == 0
    clean, noisy = load_results(tmp_path / "out")
    assert clean.figures["rank 1"] == 1.0
    assert noisy.figures["rank 1"] < 0.9
    assert clean.settings["probes left out as noise"] == clean.settings["distractors left out as noise"] == "1"
    page = (tmp_path / "out" / "report.html").read_text()
    assert "CMC, FaceScrub" in page
    assert "ROC, FaceScrub" in page


def write_yaleb(folder):
    lights = ("A+000E+00", "A+005E+10", "A-020E-10", "A+035E-20", "A-070E+00", "A+110E+65")
    rows = []
    for person in range(4):
        home = folder / "CroppedYale" / f"yaleB{person + 1:02d}"
        home.mkdir(parents=True)
        for light in sorted(lights):
            (home / f"{home.name}_P00{light}.pgm").write_bytes(b"P5 4 4 255\n" + bytes(16))
            rows.append(np.eye(4)[person] if "+110" not in light else np.ones(4))
    np.save(folder / "yaleb.npy", np.array(rows))
    return folder


def test_yaleb_by_light(tmp_path):
    write_yaleb(tmp_path)
    files = ["--embeddings", str(tmp_path / "yaleb.npy"), "--out", str(tmp_path / "out")]
    assert main(["eval", "faces", "yaleb", str(tmp_path), *files]) == 0
    (result,) = load_results(tmp_path / "out")
    expected = {"all": 0.75, "subset 2": 1.0, "subset 3": 1.0, "subset 4": 1.0, "subset 5": 0.0}
    assert result.figures == expected


def write_people(folder, people=10):
    """A list of pairs, and images of people that are the same for each."""
    lines = [str(people)]
    for person in range(people):
        own = picture()
        (folder / "lfw" / f"P{person}").mkdir(parents=True)
        for number in (1, 2):
            (folder / "lfw" / f"P{person}" / f"P{person}_000{number}.png").write_bytes(own)
        lines.append(f"P{person}\t1\t2")
    lines += [f"P{person}\t1\tP{(person + 1) % people}\t1" for person in range(people)]
    (folder / "pairs.txt").write_text("\n".join(lines))


@pytest.mark.parametrize("flip", [True, False])
def test_a_run_embeds_the_images_itself(tmp_path, monkeypatch, flip):
    """With the network of a run, here one that averages columns, images of one person that are alike are found."""

    class Columns(torch.nn.Module):
        def forward(self, images):
            assert images.shape[1:] == (3, 16, 16)  # as the run was trained
            assert images.abs().max() <= 1
            return images.mean(dim=(1, 2))

    run = SimpleNamespace(network=Columns, recipe=get_recipe("ms1m_arcface_resnet50", "full", ["data.size=16"]))
    monkeypatch.setattr("pinets.tasks.faces.evaluation.TrainedRun", lambda path: run)
    write_people(tmp_path)
    command = ["eval", "faces", "pairs", "--list", str(tmp_path / "pairs.txt"), "--images", str(tmp_path / "lfw")]
    command += ["--run", "run", "--name", "columns", "--out", str(tmp_path / "out"), *([] if flip else ["--no-flip"])]
    assert main(command) == 0
    (result,) = load_results(tmp_path / "out")
    assert result.figures["FAR=0.1"] == 1.0
    assert result.settings["mirror images"] == ("added" if flip else "not used")


@pytest.fixture
def trained_on_lfw(tmp_path, monkeypatch):
    """A command that scores a run which saw P8 and P9: in two pairs of one person and three of two."""
    run = SimpleNamespace(network=torch.nn.Flatten, recipe=get_recipe("lfw_iresnet", "small", ["data.size=16"]))
    monkeypatch.setattr("pinets.tasks.faces.evaluation.TrainedRun", lambda path: run)
    write_people(tmp_path)
    (tmp_path / "data" / "lfw").mkdir(parents=True)
    (tmp_path / "data" / "lfw" / "pairsDevTrain.txt").write_text("P8\t1\t2\nP8\t1\tP9\t1\n")
    command = ["eval", "faces", "pairs", "--run", "run", "--name", "flat", "--out", str(tmp_path / "out")]
    return [*command, "--data", str(tmp_path / "data")]


def test_people_seen_in_training_are_refused(tmp_path, trained_on_lfw, capsys):
    command = [*trained_on_lfw, "--list", str(tmp_path / "pairs.txt"), "--images", str(tmp_path / "lfw")]
    assert main(command) == 2
    assert "people of LFW that run was trained on are in 5 of 20 pairs; evaluate it on" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*command, "--allow-seen"]) == 0
    (result,) = load_results(tmp_path / "out")
    assert result.settings["people seen in training"] == "in 5 of 20 pairs"
    (tmp_path / "data" / "lfw" / "pairsDevTrain.txt").write_text("Q1\t1\t2\nQ1\t1\tQ2\t1\n")
    assert main(command) == 0
    (result,) = load_results(tmp_path / "out")
    assert "people seen in training" not in result.settings


def test_where_nobody_knows_who_was_seen_it_is_refused_too(tmp_path, trained_on_lfw, capsys):
    for name in ("lfw", "calfw", "CPLFW_112"):
        assert main([*trained_on_lfw, "--pack", f"{name}.bin"]) == 2
        assert "in an unknown number of pairs (packs name nobody)" in capsys.readouterr().err
    other_people = (write_pack(tmp_path) / "lfw.bin").rename(tmp_path / "cfp_fp.bin")
    assert main([*trained_on_lfw, "--pack", str(other_people)]) == 0
    (tmp_path / "data" / "lfw" / "pairsDevTrain.txt").unlink()
    command = [*trained_on_lfw, "--list", str(tmp_path / "pairs.txt"), "--images", str(tmp_path / "lfw")]
    assert main(command) == 2
    assert "in an unknown number of pairs (LFW is not in" in capsys.readouterr().err


def test_embeddings_are_scored_without_images(tmp_path):
    """A list alone says which pairs are of one person; only the sheet of the hardest needs images."""
    write_people(tmp_path)
    np.save(tmp_path / "lfw.npy", np.eye(20)[[n // 2 * 2 if n < 20 else n % 20 for n in range(40)]])
    command = [
        "eval",
        "faces",
        "pairs",
        "--list",
        str(tmp_path / "pairs.txt"),
        "--embeddings",
        str(tmp_path / "lfw.npy"),
    ]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    (result,) = load_results(tmp_path / "out")
    assert (result.data, result.figures["accuracy"], result.pictures) == ("pairs", 1.0, {})
    assert main([*command, "--images", str(tmp_path / "lfw"), "--out", str(tmp_path / "out")]) == 0
    assert load_results(tmp_path / "out")[0].pictures


def test_rfw_is_scored_without_images(tmp_path):
    (tmp_path / "rows").mkdir()
    for name in RFW_SUBSETS:
        folder = tmp_path / "txts" / name
        folder.mkdir(parents=True)
        pairs = [f"m.{number}\t1\t2\nm.{number}\t1\tm.x\t1\n" for number in range(10)]
        (folder / f"{name}_pairs.txt").write_text("".join(pairs))
        np.save(tmp_path / "rows" / f"{name}.npy", np.eye(3)[[0, 0, 1, 2] * 10])
    command = ["eval", "faces", "rfw", str(tmp_path), "--embeddings", str(tmp_path / "rows"), "--name", "net"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    results = load_results(tmp_path / "out")
    assert {result.data: result.figures["accuracy"] for result in results} == dict.fromkeys(RFW_SUBSETS, 1.0)
    assert not list((tmp_path / "out").glob("*.png"))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["pairs", "--embeddings", "x.npy"], "give --pack FILE, or --list FILE with --images DIR"),
        (["pairs", "--list", "x.txt", "--run", "run"], "--run needs images: name their folder by --images"),
        (["pairs", "--pack", "x.bin", "--images", "lfw", "--run", "run"], "--images is for --list"),
        (["pairs", "--pack", "x.bin", "--embeddings", "x.npy", "--no-flip"], "--no-flip is for --run: --embeddings"),
        (["pairs", "--pack", "x.bin", "--run", "run", "--flipped", "x.npy"], "--flipped is for --embeddings: --run"),
        (["pairs", "--pack", "x.bin", "--embeddings", "x.npy", "--allow-seen"], "--allow-seen are for --run"),
        (["rfw", "RFW", "--embeddings", "x", "--no-flip"], "--no-flip is for --run: --embeddings"),
        (["ijb", "meta", "--run", "run", "--flipped", "x.npy"], "--flipped is for --embeddings: --run"),
        (["ijb", "meta", "--embeddings", "x.npy", "--images", "x"], "--images is for --run: --embeddings"),
        (["yaleb", "data", "--embeddings", "x.npy", "--no-flip"], "--no-flip is for --run: --embeddings"),
        (["pairs", "--pack", "lfw.bin"], "one of the arguments --run --embeddings is required"),
        (["pair", "--pack", "lfw.bin"], "did you mean 'pairs'?"),
        (["pairs", "--pack", "lfw.bin", "--embedings", "x"], "did you mean '--embeddings'?"),
    ],
)
def test_wrong_usage_is_told(arguments, message, capsys):
    assert main(["eval", "faces", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_rows_that_do_not_fit_the_list_are_told(tmp_path, capsys):
    write_pack(tmp_path)
    np.save(tmp_path / "few.npy", np.ones((3, 8)))
    command = ["eval", "faces", "pairs", "--pack", str(tmp_path / "lfw.bin"), "--embeddings", str(tmp_path / "few.npy")]
    assert main([*command, "--out", str(tmp_path / "out")]) == 2
    assert "has 3 rows, the list needs 80" in capsys.readouterr().err


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def test_bad_files_are_told_in_a_sentence(tmp_path, capsys):
    """A pack that would run a command, embeddings that are no numbers, cut short, or pickled: exit code 1."""
    write_pack(tmp_path)
    rows = np.load(tmp_path / "good.npy")
    files = {"nan": np.where(np.arange(len(rows))[:, None] == 5, np.nan, rows), "objects": rows.astype(object)}
    for name, array in files.items():
        np.save(tmp_path / f"{name}.npy", array, allow_pickle=True)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "good.npy").read_bytes()[:-1])
    (tmp_path / "evil.bin").write_bytes(pickle.dumps(([Malicious(tmp_path / "was-run"), picture()], [True])))
    for pack, name, message in (
        ("evil", "good", "evil.bin: refused, it is not a pickle of plain arrays: it asks for"),
        ("lfw", "nan", "embeddings must be finite: 1 of 80 rows are not, the first is row 5"),
        ("lfw", "objects", "objects.npy: is not a .npy file of plain numbers"),
        ("lfw", "cut", "cut.npy: is not a .npy file of plain numbers"),
    ):
        command = ["eval", "faces", "pairs", "--pack", str(tmp_path / f"{pack}.bin"), "--out", str(tmp_path / "out")]
        assert main([*command, "--embeddings", str(tmp_path / f"{name}.npy")]) == 1
        told = capsys.readouterr().err
        assert message in told
        assert "Traceback" not in told
    assert not (tmp_path / "was-run").exists()
    assert not (tmp_path / "out").exists()


def test_embeddings_of_any_numbers_count_without_pictures_too(tmp_path):
    """Small whole numbers must not wrap as mirror images are added; other files and broken images do not matter."""
    write_pack(tmp_path)
    images, same = pickle.loads((tmp_path / "lfw.bin").read_bytes())
    (tmp_path / "lfw.bin").write_bytes(pickle.dumps(([b"no image"] * len(images), same)))
    rows = np.clip(np.load(tmp_path / "good.npy") * 30, -127, 127).astype(np.int8)
    np.save(tmp_path / "whole.npy", rows)
    np.save(tmp_path / "real.npy", (2 * rows.astype(">f8")))  # in the other order of bytes
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "else.json").write_text("[1]")
    (tmp_path / "out" / "broken.json").write_text("{")
    command = ["eval", "faces", "pairs", "--pack", str(tmp_path / "lfw.bin"), "--out", str(tmp_path / "out")]
    whole = str(tmp_path / "whole.npy")
    assert main([*command, "--embeddings", whole, "--flipped", whole]) == 0
    assert main([*command, "--embeddings", str(tmp_path / "real.npy")]) == 0
    real, added = load_results(tmp_path / "out")
    assert (real.model, added.model) == ("real", "whole")
    assert real.figures == added.figures
    assert real.figures["accuracy"] > 0.7


def test_a_run_that_embeds_no_faces_is_refused(tmp_path, tiny_run, capsys):
    run, _ = tiny_run
    pack = write_pack(tmp_path) / "lfw.bin"
    assert main(["eval", "faces", "pairs", "--pack", str(pack), "--run", str(run), "--out", str(tmp_path)]) == 2
    assert "a run of mnist_ccp4, which embeds no faces" in capsys.readouterr().err


def test_help_shows_examples(capsys):
    for words in ([], ["pairs"], ["ijb"], ["megaface"], ["rfw"], ["yaleb"]):
        assert main(["eval", "faces", *words, "--help"]) == 0
        assert "pinets eval faces" in capsys.readouterr().out
    assert main(["eval", "--help"]) == 0
    assert "pinets eval faces --help" in " ".join(capsys.readouterr().out.split())


def test_a_folder_named_faces_can_still_be_evaluated(capsys):
    assert main(["eval", "./faces"]) == 1
    assert "is not a run" in capsys.readouterr().err


def test_embeddings_that_do_not_fit_the_list_of_ijb_are_named(tmp_path, capsys):
    write_ijb(tmp_path)
    rows = np.load(tmp_path / "ijbc.npy")
    np.save(tmp_path / "few.npy", rows[:-3])
    command = ["eval", "faces", "ijb", str(tmp_path / "meta"), "--embeddings", str(tmp_path / "few.npy")]
    assert main([*command, "--out", str(tmp_path / "out")]) == 2
    assert f"few.npy has {len(rows) - 3} rows, the list needs {len(rows)}" in capsys.readouterr().err
