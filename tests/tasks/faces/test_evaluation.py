"""Evaluations called from Python; tests/cli/test_eval_faces.py runs every protocol on files."""

from __future__ import annotations

import numpy as np
import pytest

from pinets.tasks.faces import (
    EmbeddingFiles,
    FaceResult,
    ListedEmbeddings,
    MismatchError,
    evaluate_megaface,
    evaluate_pairs,
    light_table,
)


@pytest.fixture
def pairs(tmp_path):
    """Ten pairs of one person and ten of two, and embeddings that tell them apart."""
    listed = tmp_path / "pairs.txt"
    listed.write_text("".join(f"P{number}\t1\t2\nP{number}\t1\tQ\t1\n" for number in range(10)))
    np.save(tmp_path / "rows.npy", np.eye(3)[[0, 0, 1, 2] * 10])
    return listed


def test_nothing_is_written_without_a_folder(pairs):
    before = sorted(pairs.parent.iterdir())
    (result,) = evaluate_pairs(EmbeddingFiles(str(pairs.parent / "rows.npy")), listed=str(pairs))
    assert (result.model, result.figures["accuracy"], result.pictures) == ("rows", 1.0, {})
    assert sorted(pairs.parent.iterdir()) == before


def test_a_folder_gets_results_and_a_report(pairs, tmp_path):
    evaluate_pairs(EmbeddingFiles(tmp_path / "rows.npy", name="net"), listed=pairs, out=tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["net-Pairs-pairs.json", "report.html"]


def test_files_that_do_not_fit_are_named(pairs, tmp_path):
    np.save(tmp_path / "few.npy", np.ones((3, 3)))
    with pytest.raises(MismatchError, match=r"few.npy has 3 rows, the list needs 40"):
        evaluate_pairs(EmbeddingFiles(tmp_path / "few.npy"), listed=pairs)
    with pytest.raises(MismatchError, match=r"few.npy has shape \(3, 3\), and .*rows.npy \(40, 3\)"):
        evaluate_pairs(EmbeddingFiles(tmp_path / "rows.npy", tmp_path / "few.npy"), listed=pairs)
    with pytest.raises(ValueError, match="either a pack or a list"):
        evaluate_pairs(EmbeddingFiles(tmp_path / "rows.npy"))
    probes = ListedEmbeddings(tmp_path / "few.npy", pairs)
    with pytest.raises(MismatchError, match=r"pairs.txt names 20 images, the embeddings have 3 rows"):
        evaluate_megaface(probes, probes)


def test_a_table_of_lights_has_mean_and_deviation_over_seeds():
    seeds = [FaceResult("net", "", "", {"all": share}) for share in (0.5, 0.6)]
    assert light_table({"net": seeds}) == [["rank 1, %", "all"], ["net", "55.00 ± 7.07"]]
