"""The Inception network: its resizing, its folding, its weights; and the documented values where the weights are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pinets.data.download import Remote
from pinets.data.errors import DataError, MissingDataError
from pinets.tasks.generation.metrics import frechet_distance, inception_weights, kernel_distance
from pinets.tasks.generation.metrics.inception import Inception, Unit, fold_batch_norm, resize_like_tensorflow
from pinets.tasks.generation.metrics.inception_weights import find_weights, load_inception

ROOT = Path(os.environ.get("PINETS_DATA") or "/nowhere")
needs_weights = pytest.mark.skipif(not (ROOT / "inception").is_dir(), reason="PINETS_DATA does not hold inception")


@pytest.mark.parametrize("height, width, size", [(5, 7, 11), (32, 32, 59), (11, 9, 4), (1, 3, 6)])
def test_resizing_is_interpolation_at_old_over_new(height, width, size):
    """Pixel by pixel, as TensorFlow's documentation of the legacy kernel has it."""
    image = torch.rand(1, 1, height, width)
    found = resize_like_tensorflow(image, size)[0, 0]
    expected = torch.empty(size, size)
    for i in range(size):
        for j in range(size):
            y, x = i * height / size, j * width / size
            top, left = int(y), int(x)
            bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
            upper = image[0, 0, top, left] * (1 - (x - left)) + image[0, 0, top, right] * (x - left)
            lower = image[0, 0, bottom, left] * (1 - (x - left)) + image[0, 0, bottom, right] * (x - left)
            expected[i, j] = upper * (1 - (y - top)) + lower * (y - top)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert not torch.allclose(found, F.interpolate(image, (size, size), mode="bilinear")[0, 0], atol=1e-2)


def test_an_image_of_the_networks_size_is_left_alone():
    image = torch.rand(1, 3, 299, 299)
    assert resize_like_tensorflow(image, 299) is image


def test_the_number_of_parameters():
    """As published for Inception v3, 23,834,568 with 1000 classes and without the auxiliary classifier."""
    total = sum(parameter.numel() for parameter in Inception(2048).parameters())
    assert total + 1000 * 2049 == 23_834_568


def test_an_unknown_number_of_features_is_refused():
    with pytest.raises(ValueError, match="one of 64, 192, 768, 2048, got 100"):
        Inception(100)


def random_statistics(network):
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
            module.bias.data.normal_(0, 0.1)


def test_folding_batch_norm_keeps_the_function():
    network = Inception(192).eval().requires_grad_(False)
    random_statistics(network)
    images = torch.randint(0, 256, (2, 3, 40, 32), dtype=torch.uint8)
    before = network(images)
    folded = fold_batch_norm(network).to(memory_format=torch.channels_last)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    torch.testing.assert_close(folded(images), before, rtol=1e-4, atol=1e-5)
    assert before.std() > 1e-3


def test_average_pools_leave_out_the_padding():
    """What tells this network from torchvision's: at the border the mean is that of the pixels that exist."""
    network = Inception(2048)
    pool = network.get_submodule("Mixed_5b.pool")
    torch.testing.assert_close(pool(torch.ones(1, 1, 4, 4)), torch.ones(1, 1, 4, 4))
    assert isinstance(network.get_submodule("Mixed_7b.pool"), nn.AvgPool2d)
    assert isinstance(network.get_submodule("Mixed_7c.pool"), nn.MaxPool2d)
    assert network.get_submodule("Mixed_7c.branch1x1").bn.eps == 1e-3


def test_classes_need_the_last_layer():
    network = Inception(64)
    with pytest.raises(ValueError, match=r"no last layer \(fc\)"):
        network.log_probabilities(torch.zeros(1, 2048))
    network.fc = nn.Linear(2048, 1008)
    features = torch.randn(3, 2048)
    logits = features @ network.fc.weight.T  # without its bias
    torch.testing.assert_close(network.log_probabilities(features).exp(), logits.softmax(dim=1))


@pytest.fixture(scope="module")
def full_state():
    """All tensors of the network, random, with the last layer."""
    torch.manual_seed(1)
    return Inception(2048, nn.Linear(2048, 1008)).state_dict()


def test_weights_are_recognised_by_their_content(tmp_path, full_state, monkeypatch):
    monkeypatch.setattr(inception_weights, "CONTENT", inception_weights._digest(full_state))
    folder = tmp_path / "inception"
    folder.mkdir()
    without = {key: value for key, value in full_state.items() if not key.startswith("fc.")}
    torch.save(without, folder / "inception-2015-12-05.pth")
    network = load_inception(data_dir=tmp_path, num_features=64)
    assert network.fc is None
    assert not network.training
    images = torch.randint(0, 256, (1, 3, 32, 32), dtype=torch.uint8)
    plain = Inception(64)
    plain.load_state_dict({key: full_state[key] for key in plain.state_dict()})
    torch.testing.assert_close(network(images), plain.eval()(images), rtol=1e-4, atol=1e-5)

    torch.save(full_state, folder / "full.pth")
    assert load_inception(folder / "full.pth", num_features=64).fc.weight.equal(full_state["fc.weight"])

    without["Conv2d_1a_3x3.conv.weight"] = without["Conv2d_1a_3x3.conv.weight"] + 1e-3
    torch.save(without, folder / "changed.pth")
    with pytest.raises(DataError, match=r"changed\.pth: these are not the weights .* its sha256 is [0-9a-f]{64}, that"):
        load_inception(folder / "changed.pth")


def test_damaged_weights_are_named(tmp_path):
    (tmp_path / "inception").mkdir()
    path = tmp_path / "inception" / "pt_inception-2015-12-05-6726825d.pth"
    path.write_bytes(b"PK\x03\x04 not weights")
    with pytest.raises(DataError, match=rf"{path.name}: it is damaged .* sha256 is [0-9a-f]{{64}}, .* is 6726825d"):
        load_inception(data_dir=tmp_path)
    assert path.exists()
    other = path.rename(path.with_name("inception-2015-12-05.pth"))
    with pytest.raises(DataError, match=rf"{other.name}: cannot be read as weights; its sha256 is") as refused:
        load_inception(data_dir=tmp_path)
    assert "weights_only" not in str(refused.value)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Where weights may be: images of a user, $PINETS_DATA and the user's cache; none of them there yet."""
    monkeypatch.setenv("PINETS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "images", tmp_path / "data", tmp_path / "cache" / "pinets" / "data"


def test_weights_are_looked_for_beyond_the_given_folder(places):
    images, *others = places
    for place in reversed(others):
        (place / "inception").mkdir(parents=True)
        (place / "inception" / "inception-2015-12-05.pth").touch()
        assert find_weights(images) == place / "inception" / "inception-2015-12-05.pth"
    assert not images.exists()


def test_weights_are_downloaded_once_and_checked(places, tmp_path, monkeypatch):
    asked = []

    def fetch(url, target):
        asked.append(url)
        target.write_bytes(b"abc")

    with pytest.raises(MissingDataError, match=r"not in .*inception; put https://.* \(sha256:6726825d"):
        find_weights(tmp_path / "images", fetch)
    assert len(asked) == 2  # both addresses
    assert not list(tmp_path.iterdir())  # where nothing was found, nothing is left

    digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of abc
    monkeypatch.setattr(inception_weights, "OFFICIAL", Remote(("https://example.org/weights.pth",), digest))
    assert find_weights(tmp_path / "images", fetch).read_bytes() == b"abc"
    assert find_weights(tmp_path / "images", fetch) == tmp_path / "data" / "inception" / "weights.pth"
    assert not (tmp_path / "images").exists()
    assert asked[2:] == ["https://example.org/weights.pth"]


def documented_images(seed):
    """The images of torchmetrics' examples, whose metric makes the whole network, and so draws its weights, first."""
    torch.manual_seed(seed)
    for module in Inception(2048, nn.Linear(2048, 1008)).modules():
        assert not isinstance(module, Unit) or module.conv.bias is None  # nothing more is drawn
    first = torch.randint(0, 200, (100, 3, 299, 299), dtype=torch.uint8)
    return first, torch.randint(100, 255, (100, 3, 299, 299), dtype=torch.uint8)


@needs_weights
@pytest.mark.parametrize("seed, value", [(123, 12.7202), (42, 12.6388)])  # torchmetrics 0.4 to 1.x, and 1.9
def test_documented_fid(seed, value):
    image_metrics = pytest.importorskip("torchmetrics.image.fid")
    network = load_inception(data_dir=ROOT, num_features=64)
    real, fake = documented_images(seed)
    fid = image_metrics.FrechetInceptionDistance(feature=network)
    fid.update(real, real=True)
    fid.update(fake, real=False)
    assert round(float(fid.compute()), 4) == value

    from pinets.tasks.generation.metrics.statistics import collect

    ours = [collect("images", images.split(32), network) for images in (real, fake)]
    distance = frechet_distance(ours[0].mean, ours[0].covariance, ours[1].mean, ours[1].covariance)
    assert round(distance, 4) == value


@needs_weights
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Metric .Kernel Inception Distance. will save all:UserWarning")
def test_documented_kid():
    kid_metrics = pytest.importorskip("torchmetrics.image.kid")
    network = load_inception(data_dir=ROOT)
    real, fake = documented_images(123)
    kid = kid_metrics.KernelInceptionDistance(feature=network, subset_size=50)
    for images, is_real in ((real, True), (fake, False)):
        for part in images.split(20):
            kid.update(part, real=is_real)
    mean, std = kid.compute()  # draws its subsets from where the images ended
    assert (round(float(mean), 4), round(float(std), 4)) == (0.0337, 0.0023)

    ours, spread = kernel_distance(torch.cat(kid.real_features), torch.cat(kid.fake_features), size=50)
    assert ours == pytest.approx(0.0337, abs=3 * 0.0023 / 10)  # other subsets of the same hundred
    assert spread == pytest.approx(0.0023, rel=0.3)
