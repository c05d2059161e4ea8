from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from torch import nn

from pinets import Resolved
from pinets import tasks as recipes
from pinets.cli import main
from pinets.cli.arguments import read_array
from pinets.cli.encrypt_service import _read_inputs
from pinets.data import DataError
from pinets.encrypted import Preparation
from pinets.prediction import Predictor

pytest.importorskip("tenseal")

MODEL = "CCP(5, 3, rank=4, order=2)"


@pytest.mark.filterwarnings("default:.*outside the range:pinets.encrypted.RangeWarning")
def test_the_steps_one_by_one_and_all_at_once(tmp_path, capsys):
    inputs = np.random.default_rng(0).uniform(-1, 1, (2, 5))
    np.save(str(tmp_path / "inputs.npy"), inputs)
    client, server = str(tmp_path / "client"), str(tmp_path / "server")
    asked, answered, scores = (str(tmp_path / name) for name in ("asked", "answered", "scores.npy"))
    steps = [
        ["plan", MODEL, "--packing", "latency", "--out", str(tmp_path)],
        ["keygen", "--client", client, "--server", server],
        ["encrypt", str(tmp_path / "inputs.npy"), "--client", client, "--out", asked],
        ["plan", MODEL, "--packing", "latency", "--out", str(tmp_path)],  # again, which must change nothing
        ["evaluate", asked, "--server", server, "--out", answered, "--workers", "1"],
        ["decrypt", answered, "--client", client, "--out", scores],
    ]
    for step in steps:
        assert main(["encrypt", *step]) == 0, capsys.readouterr().err
    from pinets import resolve

    model = resolve(MODEL).network.double()
    import torch

    np.testing.assert_allclose(read_array(scores), model(torch.from_numpy(inputs)).detach().numpy(), atol=1e-4)
    assert "128-bit secure" in capsys.readouterr().out
    check_other_plans(tmp_path, capsys)
    check_warnings(tmp_path, capsys)
    check_bad_files(tmp_path, capsys)
    assert main(["encrypt", "run", MODEL, "--packing", "latency", "--images", "2", "--json", "--range", "-1,1"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["trial"]["deviation"] < 1e-4
    assert told["plan"]["depth"] == 3


def check_other_plans(folder, capsys):
    """Where there are keys, no other plan is written, and nothing is before that is known."""
    before = (folder / "client" / "plan.json").read_bytes()
    assert main(["encrypt", "plan", MODEL, "--packing", "latency", "--range", "-2,2", "--out", str(folder)]) == 1
    assert "secret.key belongs to" in capsys.readouterr().err
    assert main(["encrypt", "run", MODEL, "--packing", "latency", "--images", "2", "--out", str(folder)]) == 1
    assert "secret.key exists" in capsys.readouterr().err
    assert (folder / "client" / "plan.json").read_bytes() == before


def check_warnings(folder, capsys):
    """Inputs outside the range are told of in one line, which says who tells it."""
    np.save(str(folder / "large.npy"), np.full((1, 5), 1.5))
    words = [str(folder / "large.npy"), "--client", str(folder / "client"), "--out", str(folder / "risky")]
    assert main(["encrypt", "encrypt", *words]) == 0
    told = capsys.readouterr().err
    assert told.startswith("pinets encrypt encrypt: warning: inputs from 1.5 to 1.5 are outside the range")
    assert told.count("\n") == 1


def check_bad_files(folder, capsys):
    """What users see of files that are damaged, or belong to other keys: a sentence, and exit code 1."""
    client, server = folder / "client", folder / "server"

    def refused(message, *words):
        assert main(["encrypt", *map(str, words), "--out", str(folder / "never")]) == 1
        told = capsys.readouterr().err
        assert message in told
        assert "Traceback" not in told
        assert not (folder / "never").exists()

    content = (folder / "answered").read_bytes()
    (folder / "cut").write_bytes(content[:-1000])
    refused("cut is truncated or was changed", "decrypt", folder / "cut", "--client", client)
    (folder / "changed").write_bytes(content[:5000] + bytes([content[5000] ^ 1]) + content[5001:])
    refused("changed is truncated or was changed", "decrypt", folder / "changed", "--client", client)
    refused("holds outputs, not inputs", "evaluate", folder / "answered", "--server", server)
    (client / "secret.key").rename(folder / "old.key")
    assert main(["encrypt", "keygen", "--client", str(client), "--server", str(folder / "other")]) == 0
    refused("belongs to other keys than the ones here", "decrypt", folder / "answered", "--client", client)
    insecure = json.loads((client / "plan.json").read_text())
    insecure["parameters"]["insecure"] = True
    (folder / "unsafe").mkdir()
    (folder / "unsafe" / "plan.json").write_text(json.dumps(insecure))
    assert main(["encrypt", "keygen", "--client", str(folder / "unsafe"), "--server", str(folder / "never")]) == 1
    assert "the plan is for tests and not secure" in capsys.readouterr().err


def test_inputs_to_plan_with_must_fit_the_network(tmp_path, capsys):
    np.save(str(tmp_path / "inputs.npy"), np.zeros((3, 4)))
    assert main(["encrypt", "plan", MODEL, "--calibrate", str(tmp_path / "inputs.npy")]) == 1
    assert "must have shape (5,) with a batch axis before it, got (3, 4)" in " ".join(capsys.readouterr().err.split())


def test_inputs_to_plan_with_come_from_one_place(tmp_path, tiny_run, capsys):
    np.save(str(tmp_path / "inputs.npy"), np.ones((3, 5)))
    words = ["encrypt", "plan", MODEL, "--range", "-2,2", "--calibrate", str(tmp_path / "inputs.npy")]
    assert main(words) == 2
    assert "--calibrate brings inputs to plan with" in capsys.readouterr().err
    assert main(["encrypt", "plan", str(tiny_run[0]), "--range", "-2,2"]) == 2
    assert "a run folder brings inputs to plan with" in capsys.readouterr().err


def test_outputs_that_are_all_zero_are_told_of(tmp_path, capsys):
    np.save(str(tmp_path / "zeros.npy"), np.zeros((3, 5)))
    model = "Sequential(Linear(5, 3, bias=False), PowerSum(2))"
    assert main(["encrypt", "plan", model, "--calibrate", str(tmp_path / "zeros.npy")]) == 1
    assert "network are all 0 on the calibration inputs" in capsys.readouterr().err


def test_a_model_with_typical_inputs_is_tried_on_these(tmp_path, monkeypatch):
    typical = np.linspace(3, 4, 20, dtype=np.float32).reshape(4, 5)
    np.save(str(tmp_path / "typical.npy"), typical)
    tried = []
    monkeypatch.setattr("pinets.encrypted.planner.measure_costs", lambda parameters: None)
    monkeypatch.setattr("pinets.encrypted.run_trial", lambda *given, **options: tried.append(given))
    main(["encrypt", "run", MODEL, "--calibrate", str(tmp_path / "typical.npy"), "--images", "6"])
    inputs = tried[0][3].numpy()
    assert inputs.shape == (6, 5)
    assert {row.tobytes() for row in inputs} <= {row.tobytes() for row in typical}


def test_an_estimator_is_planned_for_the_rows_it_was_fitted_to(tmp_path, monkeypatch):
    """They are far from -1 to 1, for which models without data are planned."""
    skops = pytest.importorskip("skops.io")
    from pinets.estimators import PolynomialNetRegressor

    rows = np.random.default_rng(0).uniform(1000, 2000, (30, 2))
    skops.dump(PolynomialNetRegressor(order=1).fit(rows, rows.sum(1)), tmp_path / "fitted.skops")
    planned = []

    def plan(source, **options):
        planned.append(source.calibration)
        raise RuntimeError("planning takes too long for a test")

    monkeypatch.setattr("pinets.encrypted.Source.plan", plan)
    assert main(["encrypt", "plan", str(tmp_path / "fitted.skops")]) == 1
    assert {*map(tuple, planned[0].tolist())} == {*map(tuple, rows.astype(np.float32).tolist())}


def test_trained_weights_with_typical_inputs_are_planned_without_their_dataset(tmp_path, monkeypatch, capsys):
    typical = np.random.default_rng(0).normal(size=(20, 1, 28, 28)).astype(np.float32)
    np.save(str(tmp_path / "typical.npy"), typical)
    planned = []

    def plan(source, **options):
        planned.append(source.calibration.numpy())
        raise RuntimeError("planning takes too long for a test")

    monkeypatch.setattr("pinets.encrypted.Source.plan", plan)
    words = ["encrypt", "plan", "mnist_ccp4", "--data", str(tmp_path), "--calibrate", str(tmp_path / "typical.npy")]
    assert main(words) == 1
    assert "too long for a test" in capsys.readouterr().err
    np.testing.assert_array_equal(planned[0], typical)


@pytest.mark.parametrize("words, packing", [([], "throughput"), (["--inputs", "1"], "latency")])
def test_a_run_is_planned_for_its_images_and_draws_as_many(words, packing, monkeypatch):
    tried = []
    monkeypatch.setattr("pinets.encrypted.planner.measure_costs", lambda parameters: None)
    monkeypatch.setattr("pinets.encrypted.run_trial", lambda *given, **options: tried.append(given))
    assert main(["encrypt", "run", MODEL, "--images", "3000", *words]) == 0
    ((plan, _, _, inputs, _),) = tried
    assert plan.packing == packing
    assert inputs.shape == (3000, 5)
    assert plan.low <= inputs.min() < inputs.max() <= plan.high


@pytest.mark.parametrize("action, given", [("encrypt", "images.npy"), ("decrypt", "answered")])
def test_keys_and_inputs_are_never_replaced(action, given, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "client").mkdir()
    for name in ("client/secret.key", given):
        with (tmp_path / name).open("wb") as file:
            np.save(file, np.zeros((1, 5)))
    before = (tmp_path / given).read_bytes()
    for out, message in (("client/secret.key", "beside the keys"), (f"client/../{given}", "what it is made from")):
        assert main(["encrypt", action, given, "--client", "client", "--out", out]) == 1
        assert message in capsys.readouterr().err
        assert (tmp_path / out).read_bytes() == before


def test_a_run_that_is_no_classifier_is_refused(monkeypatch, tmp_path, capsys):
    run = SimpleNamespace(recipe=recipes.get_recipe("fashion_ncp", "small"))
    monkeypatch.setattr("pinets._resolve.resolve", lambda path, data_dir: Resolved(path, nn.Identity(), run=run))
    assert main(["encrypt", "plan", str(tmp_path)]) == 2
    assert f"{tmp_path} is not the run of a classifier" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, code, message",
    [
        (["plan", "Sequential(Linear(4, 4), ReLU())"], 1, "replace it with pinets.PowerSum"),
        (["plan", MODEL, "--range", "1,-1"], 2, "the first number must be the smaller one"),
        (["plan", MODEL, "--range", "-1,-2"], 2, "the first number must be the smaller one"),
        (["plan", MODEL, "--range=-inf,inf"], 2, "numbers must be finite and at most 1e+38 in size, got '-inf,inf'"),
        (["plan", MODEL, "--range=0,nan"], 2, "the first number must be the smaller one"),
        (["plan", MODEL, "--range=0,1e300"], 2, "numbers must be finite and at most 1e+38"),
        (["plan", MODEL, "--ring", "5000"], 1, "the ring size must be one of 4096, 8192, 16384, 32768, got 5000"),
        (["plan", MODEL, "--precision", "0"], 1, "the precision must be positive, got 0.0"),
        (["plan", MODEL, "--ring", "4096", "--packing", "latency"], 1, "a ring of 8192 has room"),
        (["plan", MODEL, "--calibrate", "nowhere.npy"], 2, "there is no file nowhere.npy"),
        (["keygen", "--client", "nowhere", "--server", "nowhere"], 1, "there is no plan.json in nowhere"),
        (["serve", MODEL, "--port", "70000"], 2, "expected a port from 0 to 65535, got '70000'"),
        (["serve", MODEL, "--quota", "inf"], 2, "expected a positive number of gigabytes, got 'inf'"),
        (["predict", "http://[::1", "x.npy"], 1, "is http://... or https://..., got 'http://[::1': Invalid IPv6 URL"),
        (["predict", "http://here:70000", "x.npy"], 1, "or https://..., got 'http://here:70000': Port out of range"),
        (["plam"], 2, "did you mean 'plan'"),
    ],
)
def test_what_is_wrong_is_said(words, code, message, capsys):
    assert main(["encrypt", *words]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_read_as_by_predict(channels, tmp_path):
    """Photographs lie on their side with a note on how to turn them, and are not square."""
    photograph = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 6, 3), dtype=np.uint8))
    note = Image.Exif()
    note[0x0112] = 6  # turned by a quarter
    path = str(tmp_path / "photograph.png")
    photograph.save(path, exif=note)
    shape, (mean, std) = (channels, 4, 4), [(number,) * channels for number in (0.5, 0.25)]
    remote = SimpleNamespace(plan=SimpleNamespace(input_shape=shape), preparation=Preparation((), mean, std))
    known = {"kind": "Normalize", "mean": mean, "std": std, "maximum": 255.0}
    expected = Predictor(None, shape, None, known).read_images([path])
    np.testing.assert_allclose(_read_inputs(path, remote), expected, atol=1e-6)
    Image.fromarray(np.full((4, 4), 300, dtype=np.uint16)).save(path)
    with pytest.raises(DataError, match="must have 8 bits a channel"):
        _read_inputs(path, remote)


def test_arrays_are_numbers_and_nothing_else(tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"not a \.npy file of plain numbers"):
        read_array(str(path))
    np.save(path, np.array(["text"]))
    with pytest.raises(ValueError, match="must hold numbers"):
        read_array(str(path))
