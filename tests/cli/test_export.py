from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch

from pinets import resolve, spec
from pinets.cli import main
from pinets.export import read_metadata
from pinets.tasks import get_recipe, to_json

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_numpy.py"
MODEL = "CCP(6, 3, rank=4, order=3)"


@pytest.mark.parametrize(("to", "name"), [("torch_export", "model.pt2"), ("safetensors", "model.safetensors")])
def test_a_model_becomes_a_file(to, name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", MODEL, "--to", to]) == 0
    assert f"{name}: a polynomial of degree 3, inputs 6" in capsys.readouterr().out
    assert read_metadata(tmp_path / name).model == MODEL


def test_safetensors_are_read_back(tmp_path):
    assert main(["export", MODEL, "--to", "safetensors", "--out", str(tmp_path / "m.safetensors")]) == 0
    torch.manual_seed(0)
    x, same = torch.randn(2, 6), spec.load(tmp_path / "m.safetensors")[0]
    torch.manual_seed(0)
    assert torch.equal(spec.build(MODEL)(x), same(x))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "onxx"], "unknown --to 'onxx'; did you mean 'onnx'"),
        (["--to", "onnx", "--out", "m.pt"], "must end in .onnx"),
        (["--to", "safetensors", "--fold"], "safetensors holds weights alone"),
    ],
)
def test_wrong_usage(words, message, capsys):
    assert main(["export", MODEL, *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_run_is_classified_without_torch_or_pinets(tiny_run, tmp_path, capsys):
    """From a run folder to a file, and that with the example, whose answer is the network's."""
    run, data = tiny_run
    assert main(["export", str(run), "--to", "onnx", "--data", str(data)]) == 0
    assert "a polynomial of degree 4, inputs 1x28x28" in capsys.readouterr().out
    metadata = read_metadata(run / "model.onnx")
    assert metadata.recipe["name"] == "mnist_ccp4"
    assert len(metadata.classes) == 10
    pixels = numpy.random.default_rng(0).integers(0, 256, (1, 28, 28))
    numpy.save(tmp_path / "image.npy", pixels)
    words = [str(run / "model.onnx"), str(tmp_path / "image.npy")]
    code = f"""
import runpy, sys
sys.modules["torch"] = sys.modules["pinets"] = None
sys.argv[1:] = {words!r}
runpy.run_path({str(EXAMPLE)!r}, run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    known = metadata.preprocessing
    x = (torch.from_numpy(pixels).float()[None] / known["maximum"] - known["mean"][0]) / known["std"][0]
    network = resolve(run, data_dir=data).network
    best = metadata.classes[int(network(x).argmax())]
    assert done.stdout.splitlines()[1].startswith(f"{best}: ")


def test_a_run_knows_its_classes_and_preprocessing_without_its_data(tiny_run, tmp_path, capsys):
    run, data = tiny_run
    out = tmp_path / "m.safetensors"
    assert main(["export", str(run), "--to", "safetensors", "--data", str(tmp_path), "--out", str(out)]) == 0
    assert capsys.readouterr().err == ""
    metadata, inputs = read_metadata(out), get_recipe("mnist_ccp4", "small").load(data).describe()
    assert (metadata.classes, metadata.preprocessing) == (inputs.classes, to_json(inputs.preprocessing))


def test_an_older_run_is_exported_without_its_data_too(tiny_run, tmp_path, capsys):
    run = shutil.copytree(tiny_run[0], tmp_path / "run")
    known = json.loads((run / "data.json").read_text())
    (run / "data.json").write_text(json.dumps({key: value for key, value in known.items() if key != "inputs"}))
    out = tmp_path / "m.safetensors"
    assert main(["export", str(run), "--to", "safetensors", "--data", str(tmp_path), "--out", str(out)]) == 0
    assert "without classes and preprocessing" in capsys.readouterr().err
    metadata = read_metadata(out)
    assert (metadata.classes, metadata.preprocessing, metadata.input_shape) == (None, None, (1, 28, 28))
    # the weights say which network they are for, so the other verbs take the file
    x = torch.randn(2, 1, 28, 28)
    with torch.no_grad():
        torch.testing.assert_close(spec.load(out)[0].eval()(x), resolve(run).network(x))
    assert main(["certify", str(out), "--input", "1,28,28"]) == 0
    assert "a polynomial of degree 4" in capsys.readouterr().out
    again = tmp_path / "again.safetensors"
    assert main(["export", str(out), "--input", "1,28,28", "--to", "safetensors", "--out", str(again)]) == 0
    assert read_metadata(again).model == metadata.model


def test_a_network_that_the_run_does_not_have(tiny_run):
    with pytest.raises(ValueError, match=r"there is no network 'modle'; did you mean 'model'.*has model"):
        resolve(tiny_run[0], network="modle")


def test_heights_and_widths_are_not_guessed(tmp_path, capsys):
    file = tmp_path / "net.onnx"
    words = ["export", "Sequential(Conv2d(3, 4, 3), Flatten())", "--to", "onnx", "--out", str(file)]
    assert main(words) == 2
    assert "say the size of an input, as --input 3,8,8: the file takes no other" in capsys.readouterr().err
    assert main([*words, "--input", "3,10,12"]) == 0
    assert "inputs 3x10x12" in capsys.readouterr().out
