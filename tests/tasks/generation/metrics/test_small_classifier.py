"""The small classifier: deterministic, kept, telling good images from bad ones."""

from __future__ import annotations

import pytest
import torch

from pinets.tasks.generation.metrics import TensorSource, evaluate
from pinets.tasks.generation.metrics import small_classifier as small_module
from pinets.tasks.generation.metrics.small_classifier import SmallFeatures, small_features, train_small


def bars(count, seed=0):
    """Images of a bright row or column among noise, and which of the two."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 100, (count, 1, 12, 12), dtype=torch.uint8, generator=generator)
    labels = torch.arange(count) % 2
    for number, label in enumerate(labels.tolist()):
        place = int(torch.randint(12, (), generator=generator))
        view = images[number, 0].T if label else images[number, 0]
        view[place] = 255
    return images, labels


@pytest.fixture
def quick(monkeypatch):
    """Training in a second, and how often it happened."""
    calls = []

    def train(source, labels):
        calls.append(source.name)
        return train_small(source, labels, steps=60, batch_size=32)

    monkeypatch.setattr(small_module, "train_small", train)
    return calls


def test_it_learns_and_is_the_same_every_time():
    images, labels = bars(400)
    before = torch.get_rng_state()
    network = train_small(TensorSource("bars", images, labels), labels, steps=60, batch_size=32)
    assert torch.get_rng_state().equal(before)
    assert not network.training
    test_images, test_labels = bars(200, seed=1)
    guesses = network.classify(network(test_images.expand(-1, 3, -1, -1))).argmax(dim=1)
    assert guesses.eq(test_labels).float().mean() > 0.9
    again = train_small(TensorSource("bars", images, labels), labels, steps=60, batch_size=32)
    for key, value in network.state_dict().items():
        assert value.equal(again.state_dict()[key]), key


def test_it_is_kept_and_used_again(tmp_path, quick):
    images, labels = bars(100)
    source = TensorSource("bars", images, labels)
    first = small_features(source, tmp_path)
    again = small_features(source, tmp_path)
    assert quick == ["bars"]
    assert first.name == again.name
    x = images.expand(-1, 3, -1, -1)
    assert again(x).equal(first(x))
    (path,) = tmp_path.glob("*.safetensors")
    path.write_bytes(b"broken")
    with pytest.warns(UserWarning, match="cannot be used .* trained again"):
        third = small_features(source, tmp_path)
    assert third(x).equal(first(x))
    assert small_features(source, tmp_path)(x).equal(first(x))
    other, other_labels = bars(100, seed=5)
    assert small_features(TensorSource("bars", other, other_labels), tmp_path).name != first.name
    assert quick == ["bars"] * 3


def test_fid_small_ranks_images_and_never_calls_itself_fid(tmp_path, quick):
    images, labels = bars(600)
    source = TensorSource("bars", images, labels)
    values = []
    for sample in (
        lambda n: bars(n, seed=7)[0],
        lambda n: (bars(n, seed=7)[0].float() * 0.8).to(torch.uint8),
        lambda n: torch.randint(0, 256, (n, 1, 12, 12), dtype=torch.uint8),
    ):
        result = evaluate(sample, source, "fid_small", samples=600, batch_size=600, cache_dir=tmp_path)
        assert list(result.values) == ["fid_small"]
        assert str(result).endswith("; not comparable with FID)")
        values.append(result.values["fid_small"])
    assert quick == ["bars"]
    assert 0 <= values[0] < values[1] < values[2]


def test_larger_images_are_averaged_down():
    network = SmallFeatures(2).eval()
    image = torch.randint(0, 256, (1, 3, 32, 32), dtype=torch.uint8)
    torch.testing.assert_close(network(image.repeat_interleave(2, 2).repeat_interleave(2, 3)), network(image))


def test_it_needs_classes(tmp_path):
    images, _ = bars(10)
    for given in (None, torch.zeros(10).long()):
        with pytest.raises(ValueError, match="fid_small trains a classifier, and bars has no labels of two or more"):
            evaluate(lambda n: images[:n], TensorSource("bars", images, given), "fid_small", cache_dir=tmp_path)
