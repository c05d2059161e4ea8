from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from pinets import tasks as recipes
from pinets.cli import main
from pinets.engine import compiling
from pinets.engine.run import ChangedRecipeError, RunExistsError, RunFolder
from pinets.engine.running import require_comparable

TINY = [
    *("model.width=8", "channels_last=no", "epochs=2", "batch=20", "data.validation=0.2", "optimizer.lr=0.05"),
    "checkpoint_every=2",
]


@pytest.fixture
def tiny():
    return recipes.get_recipe("cifar10_resnet18", "small", TINY)


def test_a_recipe_trains_and_its_folder_says_all(tiny, cifar, tmp_path):
    result = recipes.train(tiny, tmp_path / "runs", data_dir=cifar)
    run = RunFolder(tmp_path / "runs" / "cifar10_resnet18-small" / "seed-0")
    assert run.result() == json.loads(json.dumps(result))
    assert result["steps"] == 2 * (160 // 20)  # 200 images, a fifth held out
    assert 0 <= result["test"]["accuracy"] <= 1
    assert recipes.recipe_from_json(run.recipe()) == tiny
    assert [row["epoch"] for row in run.metrics("validation")] == [1, 2]


def test_the_same_seed_gives_the_same_and_another_another(tiny, cifar, tmp_path):
    losses = [
        recipes.train(replace(tiny, seed=seed), tmp_path / str(n), data_dir=cifar)["test"]["loss"]
        for n, seed in enumerate((0, 0, 1))
    ]
    assert losses[0] == losses[1] != losses[2]


def test_evaluate_finds_the_same_again(tiny, cifar, tmp_path):
    result = recipes.train(tiny, tmp_path, data_dir=cifar)
    folder = recipes.run_folder(tiny, tmp_path).path
    assert recipes.evaluate(folder, data_dir=cifar) == result["test"]
    assert recipes.evaluate(folder, "validation", data_dir=cifar) == result["validation"]


def test_evaluation_builds_networks_and_data_alone(tiny, cifar, tmp_path, monkeypatch):
    result = recipes.train(tiny, tmp_path, data_dir=cifar)
    monkeypatch.setattr(type(tiny), "prepare_training", lambda *_: pytest.fail("prepared to train"))
    for value in (type(tiny.optimizer), type(tiny.schedule)):
        for method in {"build", "attach"} & set(dir(value)):
            monkeypatch.setattr(value, method, lambda *_, **__: pytest.fail("made an optimizer or a schedule"))
    assert recipes.evaluate(recipes.run_folder(tiny, tmp_path).path, data_dir=cifar) == result["test"]


def test_a_run_is_neither_overwritten_nor_mixed(tiny, cifar, tmp_path):
    first = recipes.train(tiny, tmp_path, data_dir=cifar)
    with pytest.raises(FileExistsError, match="already holds a run"):
        recipes.train(tiny, tmp_path, data_dir=cifar)
    changed = recipes.set_values(tiny, ["optimizer.lr=0.01"])
    with pytest.raises(ChangedRecipeError, match=r"optimizer\.lr was 0\.05 and is now 0\.01"):
        recipes.train(changed, tmp_path, data_dir=cifar, resume=True)
    assert recipes.train(tiny, tmp_path, data_dir=cifar, resume=True) == json.loads(json.dumps(first))


def test_a_run_that_died_before_its_first_checkpoint_blocks_nothing(tiny, cifar, tmp_path, monkeypatch):
    def die(*_, **__):
        raise RuntimeError("a bad value")

    for resume in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr("pinets.engine.running.fit", die)
            with pytest.raises(RuntimeError, match="a bad value"):
                recipes.train(replace(tiny, epochs=5), tmp_path / str(resume), data_dir=cifar)
        assert recipes.train(tiny, tmp_path / str(resume), data_dir=cifar, resume=resume)["epochs"] == 2
        assert recipes.recipe_from_json(recipes.run_folder(tiny, tmp_path / str(resume)).recipe()) == tiny


def test_missing_data_leaves_no_folder(tiny, tmp_path):
    (tmp_path / "nothing" / "cifar-10-batches-bin").mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match=r"cifar-10-batches-bin"):
        recipes.train(tiny, tmp_path / "runs", data_dir=tmp_path / "nothing")
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(torch.accelerator.is_available(), reason="there is a GPU, which computes in fp16")
def test_a_precision_that_would_not_be_used_is_refused(tiny, cifar, tmp_path):
    with pytest.raises(ValueError, match="precision is fp16, which needs a GPU"):
        recipes.train(replace(tiny, precision="fp16"), tmp_path / "runs", data_dir=cifar)
    assert not (tmp_path / "runs").exists()


def test_classes_must_be_those_of_the_data(tiny, cifar, tmp_path):
    wrong = recipes.set_values(tiny, ["data.classes=7"])
    with pytest.raises(ValueError, match=r"data\.classes is 7, but cifar10 has 10 classes"):
        recipes.train(wrong, tmp_path, data_dir=cifar)


def test_a_limit_takes_evenly_from_all_classes(tiny, cifar):
    limited = recipes.set_values(tiny, ["data.limit=50"])
    labels = limited.data.load(cifar).splits.train.labels
    assert torch.bincount(labels).tolist() == [5] * 10


def test_a_limit_is_exact(tiny, cifar):
    labels = recipes.set_values(tiny, ["data.limit=56"]).data.load(cifar).splits.train.labels
    assert sorted(torch.bincount(labels).tolist()) == [5] * 4 + [6] * 6


def test_compiling_does_not_make_another_run(tiny, cifar, tmp_path, monkeypatch):
    compiled = []

    def compile_networks(task, accelerator):  # no code is generated, which takes long
        compiled.append(list(task.networks))
        return compiling.compile_networks(task, accelerator, backend="eager")

    monkeypatch.setattr("pinets.engine.running.compile_networks", compile_networks)
    fewer = recipes.set_values(tiny, ["epochs=1"])
    folder = recipes.run_folder(fewer, tmp_path)
    eager = recipes.train(fewer, tmp_path / "eager", data_dir=cifar)
    recipes.train(fewer, tmp_path, data_dir=cifar)
    folder.result_file.unlink()  # as if it had been interrupted
    shutil.rmtree(folder.checkpoints_folder / "step-00000008")
    words = [word for change in [*TINY, "epochs=1"] for word in ("--set", change)]
    command = ["train", "cifar10_resnet18", "--scale", "small", *words, "--data", str(cifar), "--out", str(tmp_path)]
    assert main([*command, "--resume", "--compile"]) == 0
    assert compiled == [["model"]]
    assert folder.result()["test"] == pytest.approx(eager["test"], rel=1e-3)
    assert main(["eval", str(folder.path), "--compile"]) == 0
    assert len(compiled) == 2


def test_compare_trains_each_seed_once(tiny, cifar, tmp_path, monkeypatch):
    other = recipes.get_recipe("cifar10_prodpoly_resnet18", "small", TINY)
    runs = recipes.compare([tiny, other], 2, tmp_path, data_dir=cifar)
    assert [[run.result()["seed"] for run in group] for group in runs] == [[0, 1], [0, 1]]
    monkeypatch.setattr("pinets.engine.running.fit", lambda *_, **__: pytest.fail("trained again"))
    assert [[run.path for run in group] for group in recipes.compare([tiny, other], 2, tmp_path, data_dir=cifar)] == [
        [run.path for run in group] for group in runs
    ]
    last = runs[1][1]
    last.data_file.write_text(last.data_file.read_text().replace(last.checksums()["fingerprint"], "of others"))
    with pytest.warns(UserWarning, match=f"{last.path} was trained on other samples than {runs[0][0].path}"):
        recipes.compare([tiny, other], 2, tmp_path, data_dir=cifar)


def test_the_seeds_of_a_recipe_are_summed_up(cifar, tmp_path, capsys):
    words = [word for change in [*TINY, "epochs=1"] for word in ("--set", change)]
    command = ["train", "cifar10_resnet18", "--scale", "small", *words, "--data", str(cifar), "--out", str(tmp_path)]
    assert main([*command, "--seeds", "2"]) == 0
    first, second, header, row = capsys.readouterr().out.splitlines()
    assert "seed-0: test loss" in first
    assert "seed-1: test loss" in second
    assert header.split()[:2] == ["recipe", "runs"]
    assert row.split()[:2] == ["cifar10_resnet18-small", "2"]
    assert "±" in row
    assert main([*command, "--resume"]) == 0
    assert "±" not in capsys.readouterr().out  # one run has no deviation


def test_variants_of_one_recipe_are_compared_in_folders_of_their_own(cifar, tmp_path, capsys):
    words = [word for change in [*TINY, "epochs=1"] for word in ("--set", change)]
    names = ["cifar10_resnet18", "cifar10_resnet18:optimizer.lr=0.01", "cifar10_resnet18:optimizer.lr=0.01:clip=1"]
    command = ["compare", *names, "--scale", "small", "--seeds", "1", *words, "--data", str(cifar)]
    assert main([*command, "--out", str(tmp_path)]) == 0
    folders = [
        "cifar10_resnet18-small",
        "cifar10_resnet18-optimizer.lr=0.01-small",
        "cifar10_resnet18-optimizer.lr=0.01-clip=1-small",
    ]
    found = [RunFolder(tmp_path / folder / "seed-0").recipe() for folder in folders]
    assert [(one["optimizer"]["lr"], one["clip"]) for one in found] == [(0.05, None), (0.01, None), (0.01, 1.0)]
    table = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table[1:4]] == folders


def test_the_names_of_variants_are_names_of_folders():
    def name(*changes):
        return recipes.get_recipe(":".join(["coma_spiral", *changes])).name

    assert name("clip=1") == "coma_spiral-clip=1"
    assert name("data.split=extrapolation:mouth_up").startswith("coma_spiral-data.split=extrapolation_mouth_up-")
    assert name("data.split=extrapolation:mouth_up") != name("data.split=extrapolation/mouth_up")
    assert len(name(f"data.split={'x' * 300}")) < 120
    with pytest.raises(recipes.RecipeError, match="seed cannot distinguish variants"):
        name("seed=3")
    with pytest.raises(recipes.RecipeError, match="not changed alone"):
        name("scale=small")


def test_only_what_is_comparable_is_compared(tiny, cifar, tmp_path):
    longer = recipes.get_recipe("cifar10_prodpoly_resnet18", "small", [*TINY, "epochs=3"])
    with pytest.raises(ValueError, match=r"cannot be compared.*epochs is 2 and 3"):
        recipes.compare([tiny, longer], 1, tmp_path, data_dir=cifar)
    with pytest.raises(ValueError, match="both have this name, and so the same run folders"):
        recipes.compare([tiny, tiny], 1, tmp_path, data_dir=cifar)
    with pytest.raises(ValueError, match="at least two"):
        recipes.compare([tiny], 1, tmp_path, data_dir=cifar)
    other = recipes.get_recipe("cifar10_prodpoly_resnet18", "small", [*TINY, "seed=3"])
    with pytest.raises(ValueError, match=r"the seeds to compare are 0 to 1, and cifar10_prodpoly_resnet18 has seed=3"):
        recipes.compare([tiny, other], 2, tmp_path, data_dir=cifar)


@pytest.mark.parametrize(
    "change", ["steps_per_epoch=7", "discriminator_steps=2", "generator_batch=7", "metric=fid5k", "precision=bf16"]
)
def test_generators_are_compared_with_the_same_budget_and_measure(change):
    first, second = (recipes.get_recipe(f"fashion_{kind}", "small") for kind in ("ccp", "ncp"))
    require_comparable(first, second)
    with pytest.raises(ValueError, match=rf"cannot be compared.*{change.partition('=')[0]} is"):
        require_comparable(first, recipes.set_values(second, [change]))


def test_a_layer_that_would_crash_torch_is_refused(tiny, cifar, tmp_path):
    narrow = recipes.set_values(tiny, ["channels_last=yes"])
    with pytest.raises(ValueError, match=r"layer2\.0\.\S+ is a strided 1x1 convolution of 8 channels.*=no"):
        recipes.train(narrow, tmp_path, data_dir=cifar)
    assert recipes.train(recipes.set_values(narrow, ["channels_last=no", "epochs=1"]), tmp_path, data_dir=cifar)


def test_a_run_from_before_a_key_existed_goes_on(tiny, cifar, tmp_path):
    first = recipes.train(tiny, tmp_path, data_dir=cifar)
    file = recipes.run_folder(tiny, tmp_path).recipe_file
    values = json.loads(file.read_text())
    assert values["data"].pop("limit") is None
    file.write_text(json.dumps(values))
    assert recipes.train(tiny, tmp_path, data_dir=cifar, resume=True) == json.loads(json.dumps(first))


def test_a_run_that_another_process_made_meanwhile_stays_as_it_is(tiny, cifar, tmp_path, monkeypatch):
    """Both find an empty folder; while this process reads its data, the other one trains to the end."""
    words = [word for change in [*TINY, "epochs=1"] for word in ("--set", change)]
    command = [sys.executable, "-m", "pinets.cli", "train", "cifar10_resnet18", "--scale", "small", *words]
    fewer = recipes.set_values(tiny, ["epochs=1"])
    run, load, written = recipes.run_folder(fewer, tmp_path), type(fewer).load, {}

    def load_while_the_other_trains(recipe, data_dir):
        subprocess.run([*command, "--data", str(cifar), "--out", str(tmp_path)], check=True, capture_output=True)
        written.update({path: path.read_bytes() for path in (run.result_file, run.metrics_file)})
        return load(recipe, data_dir)

    monkeypatch.setattr(type(fewer), "load", load_while_the_other_trains)
    with pytest.raises(RunExistsError, match="already holds a run"):
        recipes.train(fewer, tmp_path, data_dir=cifar)
    assert written == {path: path.read_bytes() for path in (run.result_file, run.metrics_file)}


@pytest.mark.slow  # the loop itself is killed at many points in tests/engine/test_resume.py
def test_killed_from_outside_and_resumed_on_the_command_line(cifar, tmp_path):
    """The whole way, as a user goes it: start, kill -9 at some moment, resume, and compare with a run left alone."""
    changes = [word for change in [*TINY, "epochs=6"] for word in ("--set", change)]
    command = [sys.executable, "-m", "pinets.cli", "train", "cifar10_prodpoly_resnet18", "--scale", "small", *changes]
    command += ["--data", str(cifar)]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    victim = subprocess.Popen([*command, "--out", str(killed)], stderr=subprocess.DEVNULL)
    folder = killed / "cifar10_prodpoly_resnet18-small" / "seed-0"
    deadline = time.monotonic() + 120
    while not list((folder / "checkpoints").glob("step-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    assert victim.wait() == -signal.SIGKILL
    assert not (folder / "result.json").exists()
    subprocess.run([*command, "--out", str(killed), "--resume"], check=True, capture_output=True)
    subprocess.run([*command, "--out", str(whole)], check=True, capture_output=True)
    found, expected = (
        load_file(
            out / "cifar10_prodpoly_resnet18-small" / "seed-0" / "checkpoints" / "step-00000048" / "shared.safetensors"
        )
        for out in (killed, whole)
    )
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
