from __future__ import annotations

import json
import platform

import pytest
import torch

import pinets
from pinets._storage import read_json, write_json
from pinets.engine.run import ChangedRecipeError, RunFolder, changed_keys

RECIPE = {"kind": "toy", "optimizer": {"kind": "SGD", "lr": 0.1}, "epochs": 3}


@pytest.fixture
def run(tmp_path):
    made = RunFolder(tmp_path / "run")
    made.start(RECIPE, processes=1)
    return made


def test_a_run_that_has_come_to_something_is_never_overwritten(run):
    (run.checkpoints_folder / "step-00000001").mkdir(parents=True)
    with pytest.raises(FileExistsError, match="already holds a run: resume it"):
        run.start(RECIPE, processes=1)


def test_a_run_that_died_before_its_first_checkpoint_gives_way(run):
    run.metrics_file.write_text('{"split": "train", "step": 1, "epoch": 1}\n')
    run.pictures_folder.mkdir()
    (run.checkpoints_folder / ".tmp-step-00000001").mkdir(parents=True)  # half-written when it died
    run.start({**RECIPE, "epochs": 4}, processes=1)
    assert run.recipe()["epochs"] == 4
    assert run.metrics() == []
    assert not run.pictures_folder.exists()


def test_a_changed_recipe_is_refused_by_key_and_values(run):
    run.require_same_recipe(RECIPE)
    changed = {**RECIPE, "optimizer": {"kind": "SGD", "lr": 0.05}}
    with pytest.raises(ChangedRecipeError, match=r"optimizer\.lr was 0\.1 and is now 0\.05"):
        run.require_same_recipe(changed)


def test_keys_that_came_or_went_are_changes():
    assert changed_keys({"a": 1, "b": 2}, {"b": 2, "c": 3}) == [("a", 1, None), ("c", None, 3)]
    assert changed_keys({"a": {"b": 1}}, {"a": 1}) == [("a", {"b": 1}, 1)]


def test_the_environment_is_kept(run):
    content = read_json(run.environment_file)
    assert content["torch"] == torch.__version__
    assert content["python"] == platform.python_version()
    assert content["pinets"] == pinets.__version__
    assert content["processes"] == 1


def test_a_changed_environment_is_noticed(run):
    assert run.changed_environment(processes=1, recipe=RECIPE) == []
    assert run.changed_environment(1, {**RECIPE, "compile": True}) == [("compile", False, True)]
    content = read_json(run.environment_file)
    write_json(run.environment_file, {**content, "torch": "1.0", "commit": "another"})
    assert run.changed_environment(2, RECIPE) == [("torch", "1.0", torch.__version__), ("processes", 1, 2)]
    write_json(run.environment_file, {**content, "torch": "7" * 5000})  # more digits than Python converts
    assert run.changed_environment(1, RECIPE) == [("torch", "7" * 5000, torch.__version__)]


def test_a_folder_without_a_run_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not a run: it has no recipe\.json"):
        RunFolder(tmp_path).recipe()


def test_an_unfinished_run_says_so(run):
    with pytest.raises(FileNotFoundError, match="is not finished"):
        run.result()


def test_a_line_cut_short_is_left_out(run):
    run.metrics_file.write_text('{"split": "train", "step": 1, "epoch": 1}\n{"split": "tra')
    assert run.metrics() == [{"split": "train", "step": 1, "epoch": 1}]


@pytest.mark.parametrize(
    "line, told",
    [
        (b"garbage", "not valid JSON"),
        (b"\xff", "not valid JSON"),
        (b"[" * 200_000, "not valid JSON"),
        (b'{"step": 1}', "must have split, step"),
    ],
)
def test_a_damaged_line_of_the_log_is_named(run, line, told):
    run.metrics_file.write_bytes(b'{"split": "train", "step": 1, "epoch": 1}\n' + line + b"\n")
    with pytest.raises(ValueError, match=rf"metrics\.jsonl, line 2.*{told}"):
        run.metrics()


def test_two_processes_cannot_train_in_one_folder(run):
    with run.lock(), pytest.raises(RuntimeError, match="another process is training in"), RunFolder(run.path).lock():
        pytest.fail("both have the lock")
    with run.lock():
        pass


def test_damaged_notes_about_the_data_are_told_or_passed_over(run):
    write_json(run.data_file, {"folder": 5, "samples": 10})
    assert run.data_folder() is None
    with pytest.raises(ValueError, match="was started with other data: classes were None and are now"):
        run.require_same_data({"samples": 10, "classes": ["a"], "fingerprint": "0"})


def test_a_record_has_a_line_an_epoch_and_no_weights_or_paths(run, tmp_path):
    rows = [
        *({"split": "train", "step": step, "epoch": 1, "loss": 1 / step} for step in (1, 2, 3)),
        {"split": "validation", "step": 3, "epoch": 1, "loss": 0.5},
        {"split": "test", "step": 3, "epoch": 1, "loss": 0.4},
    ]
    run.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    record = RunFolder(tmp_path / "record")
    with pytest.raises(FileNotFoundError, match="is not finished"):
        run.write_record(record.path)
    assert not record.path.exists()
    (run.checkpoints_folder / "step-00000003").mkdir(parents=True)
    run.finish({"test": {"loss": 0.4}, "parameters": {"model": 1}, "seconds": 1.0})
    run.write_record(record.path)
    assert (record.recipe(), record.result(), record.metrics()) == (run.recipe(), run.result(), rows[2:])
    assert run.has_weights
    assert not record.has_weights
    assert "command" not in record.environment()
