"""``pinets eval`` of a folder of images."""

from __future__ import annotations

import json

import pytest
import torch

from pinets.cli import main
from pinets.data.formats.images import encode_png
from pinets.tasks.generation.metrics import evaluation
from pinets.tasks.generation.metrics.inception import Inception


def write(folder, count):
    folder.mkdir()
    for number in range(count):
        image = torch.randint(0, 256, (3, 8, 8), dtype=torch.uint8)
        (folder / f"{number}.png").write_bytes(encode_png(image))
    return str(folder)


@pytest.mark.filterwarnings("default:.*fewer than the 64 features:UserWarning")
def test_two_folders(tmp_path, monkeypatch, capsys):
    network = Inception(64).eval().requires_grad_(False)
    monkeypatch.setattr(evaluation, "load_inception", lambda data_dir: network)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    one, two = write(tmp_path / "one", 6), write(tmp_path / "two", 7)
    assert main(["eval", one, "--reference", two, "--samples", "5"]) == 0
    out, err = capsys.readouterr()
    assert "pinets eval: warning: 5 images (samples) are fewer than the 64 features: their covariance" in err
    assert "folders.py" not in err  # nobody asked where in the code it was
    found = json.loads(out)
    assert found["protocol"] == "fid5k with 5 samples"
    assert (found["samples"], found["reference"], found["reference_images"]) == (5, two, 7)
    assert found["values"]["fid"] > 0
    assert list((tmp_path / "cache" / "pinets" / "metrics").iterdir())


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["--reference", "cifar10", "--protocol", "fid_smal"], 2, "did you mean 'fid_small'?"),
        (["--reference", "cifar10", "--split", "test"], 2, "--split is for a run"),
        (["--samples", "5"], 2, "--samples and --pad are for a folder of images"),
        (["--reference", "cifar10"], 1, "fid5k takes 5,000 images, but"),
        (["--reference", "nowhere", "--samples", "2"], 1, "'nowhere' is neither a folder nor a data set"),
    ],
)
def test_wrong_usage_is_told(tmp_path, capsys, arguments, code, message):
    folder = write(tmp_path / "one", 2)
    assert main(["eval", folder, *arguments]) == code
    assert message in capsys.readouterr().err
