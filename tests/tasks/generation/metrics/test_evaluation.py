"""Protocols: what is compared with what, what is kept, what is said; and bad input."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from pinets.data.errors import MissingDataError
from pinets.tasks.generation.metrics import (
    PROTOCOLS,
    FeatureStatistics,
    TensorSource,
    evaluate,
    frechet_distance,
    get_protocol,
    reference_statistics,
)
from pinets.tasks.generation.metrics import evaluation as evaluation_module
from pinets.tasks.generation.metrics.inception import Inception
from pinets.tasks.generation.metrics.statistics import KEPT, collect


class Corners:
    """Features that are pixels, so that a test can compute with them by hand."""

    name = "corners"
    num_features = 4

    def __init__(self):
        self.seen = 0

    def __call__(self, images):
        assert images.shape[1] == 3
        self.seen += len(images)
        return images[:, 1, :2, :2].flatten(1).float() / 255


def pictures(count, channels=3, side=8, seed=0, high=256):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, high, (count, channels, side, side), dtype=torch.uint8, generator=generator)


def sampler(images):
    position = iter(range(len(images)))
    return lambda n: torch.stack([images[next(position)] for _ in range(n)])


@pytest.fixture
def options(tmp_path):
    return {"extractor": Corners(), "cache_dir": tmp_path, "samples": 60}


def test_fid_is_that_of_the_features_of_samples_and_reference(options):
    real, fake = pictures(90), pictures(60, seed=1, high=200)
    result = evaluate(sampler(fake), TensorSource("noise", real), "fid5k", batch_size=7, **options)
    moments = []
    for images in (real, fake):
        x = images[:, 1, :2, :2].flatten(1).double().numpy() / 255
        moments += [torch.from_numpy(x.mean(axis=0)), torch.from_numpy(np.cov(x, rowvar=False))]
    assert result.values["fid"] == pytest.approx(frechet_distance(*moments), rel=1e-5)
    assert set(result.values) == {"fid", "kid", "kid_std", "precision", "recall"}
    assert (result.samples, result.reference, result.reference_images) == (60, "noise", 90)
    assert result.protocol == "fid5k with 60 samples"
    assert result.conditions == "fid5k with 60 samples: 60 samples against 90 images of noise, features corners"
    assert result.conditions in str(result)
    assert result.to_json()["values"]["fid"] == result.values["fid"]


class CornersModule(torch.nn.Module):
    """The same as torchmetrics takes it."""

    num_features = 4

    def forward(self, images):
        return images[:, 1, :2, :2].flatten(1).float() / 255


@pytest.mark.filterwarnings("ignore:Metric .* will save all extracted features in buffer:UserWarning")
def test_the_values_are_those_of_torchmetrics_with_the_same_features(options):
    fid_module, kid_module = (pytest.importorskip(f"torchmetrics.image.{name}") for name in ("fid", "kid"))
    real, fake = pictures(60), pictures(60, seed=1, high=200)
    ours = evaluate(sampler(fake), TensorSource("noise", real), "fid5k", batch_size=7, **options).values
    fid = fid_module.FrechetInceptionDistance(feature=CornersModule())
    kid = kid_module.KernelInceptionDistance(feature=CornersModule(), subset_size=60, subsets=1)  # all of them
    for metric in (fid, kid):
        for images, is_real in ((real, True), (fake, False)):
            for part in images.split(13):
                metric.update(part, real=is_real)
    assert ours["fid"] == pytest.approx(float(fid.compute()), rel=1e-5)
    assert ours["kid"] == pytest.approx(float(kid.compute()[0]), abs=1e-6)
    assert ours["kid"] > 1e-3


@pytest.mark.filterwarnings("ignore:Metric .* will save all extracted features in buffer:UserWarning")
@pytest.mark.filterwarnings("ignore:std.*degrees of freedom:UserWarning")  # theirs, of one split
def test_the_inception_score_of_one_split_is_that_of_torchmetrics(monkeypatch):
    """Of several it is not: torchmetrics shuffles the samples, the original takes them in their order."""
    inception = pytest.importorskip("torchmetrics.image.inception")
    monkeypatch.setitem(PROTOCOLS, "is50k_10splits", replace(PROTOCOLS["is50k_10splits"], splits=1))
    images = pictures(60)
    ours = evaluate(sampler(images), None, "is50k_10splits", extractor=Classifier(), samples=60).values
    theirs = inception.InceptionScore(feature=torch.nn.Sequential(CornersModule(), _Times20()), splits=1)
    theirs.update(images)
    assert ours["inception_score"] == pytest.approx(float(theirs.compute()[0]), rel=1e-5)


class _Times20(torch.nn.Module):
    def forward(self, features):
        return 20 * features


def test_a_set_is_at_no_distance_from_itself(options):
    images = pictures(60)
    values = evaluate(sampler(images), TensorSource("noise", images), "fid5k", **options).values
    assert values["fid"] == pytest.approx(0, abs=1e-6)
    assert values["kid"] < 0.01
    assert values["precision"] == values["recall"] == 1


def test_grey_is_repeated_in_three_channels(options):
    grey = pictures(60, channels=1)
    result = evaluate(sampler(grey), TensorSource("noise", grey.expand(-1, 3, -1, -1)), "fid5k", **options)
    assert result.values["fid"] == pytest.approx(0, abs=1e-6)


def test_the_number_of_samples_is_the_protocols(tmp_path, monkeypatch):
    asked = []

    def sample(n):
        asked.append(n)
        return pictures(n)

    result = evaluate(
        sample, TensorSource("noise", pictures(50)), "fid2k", extractor=Corners(), cache_dir=tmp_path, batch_size=500
    )
    assert sum(asked) == 2048
    assert asked[-1] == 48
    assert result.protocol == "fid2k"


def test_statistics_of_a_reference_are_kept_and_used_again(tmp_path):
    source, extractor = TensorSource("noise", pictures(90)), Corners()
    first = reference_statistics(source, extractor, count=40, cache_dir=tmp_path)
    assert (extractor.seen, first.count, len(first.features)) == (40, 40, 40)
    again = reference_statistics(source, extractor, count=40, cache_dir=tmp_path)
    assert extractor.seen == 40
    assert again.mean.equal(first.mean)
    assert again.covariance.equal(first.covariance)
    assert again.features.equal(first.features)
    assert (again.name, again.extractor, again.size, again.count) == ("noise", "corners", (8, 8), 40)
    renamed = reference_statistics(TensorSource("the same", pictures(90)), extractor, count=40, cache_dir=tmp_path)
    assert (renamed.name, extractor.seen) == ("the same", 40)

    reference_statistics(source, extractor, count=41, cache_dir=tmp_path)
    assert extractor.seen == 81
    changed = pictures(90)
    changed[3, 0, 0, 0] += 1
    reference_statistics(TensorSource("noise", changed), extractor, count=40, cache_dir=tmp_path)
    assert extractor.seen == 121  # other images under the same name


def test_damaged_statistics_are_computed_again(tmp_path):
    source, extractor = TensorSource("noise", pictures(9)), Corners()
    first = reference_statistics(source, extractor, cache_dir=tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.warns(UserWarning, match="does not hold statistics of features .* computed again"):
        again = reference_statistics(source, extractor, cache_dir=tmp_path)
    assert again.mean.equal(first.mean)
    assert FeatureStatistics.load(path).mean.equal(first.mean)
    assert list(tmp_path.glob("*.safetensors")) == [path]


def test_processes_that_need_the_same_statistics_compute_them_once(tmp_path):
    source, extractor = TensorSource("noise", pictures(90)), Corners()
    together = threading.Barrier(2)

    def work(_):
        together.wait()
        return reference_statistics(source, extractor, batch_size=1, cache_dir=tmp_path).mean

    with ThreadPoolExecutor(2) as pool:  # each opens the lock's file, as processes do
        first, second = pool.map(work, range(2))
    assert extractor.seen == 90
    assert first.equal(second)


def test_images_for_a_reference_are_chosen_from_all_of_it(tmp_path):
    """A set that is sorted by class must not be represented by its first classes."""
    images = torch.cat([torch.zeros(50, 1, 2, 2), torch.full((50, 1, 2, 2), 255)]).to(torch.uint8)
    statistics = reference_statistics(TensorSource("sorted", images), Corners(), count=40, cache_dir=tmp_path)
    assert statistics.mean[0] == pytest.approx(0.5, abs=0.2)


def test_memory_does_not_grow_with_the_images():
    batches = (pictures(500, side=2, seed=seed) for seed in range(22))
    statistics = collect("many", batches, Corners())
    assert statistics.count == 11_000
    assert len(statistics.features) == KEPT == 10_000


def test_given_statistics_must_be_of_the_same_features(options):
    statistics = collect("noise", [pictures(60)], Corners())
    assert evaluate(sampler(pictures(60)), statistics, "fid5k", **options).reference_images == 60
    other = Corners()
    other.name = "edges"
    with pytest.raises(ValueError, match="of noise are of the features corners, not of edges"):
        evaluate(sampler(pictures(60)), statistics, "fid5k", **{**options, "extractor": other})


def test_too_few_samples_are_warned_of_with_the_number(options):
    options["extractor"].num_features = 100
    options["extractor"].__class__ = type(
        "Wide", (Corners,), {"__call__": lambda self, images: images.flatten(1)[:, :100].float()}
    )
    with pytest.warns(UserWarning, match="fewer than the 100 features") as found:
        evaluate(sampler(pictures(60)), TensorSource("noise", pictures(90)), "fid5k", **options)
    texts = [str(warning.message) for warning in found]
    assert len(texts) == 2
    assert texts[0].startswith("60 images (samples) are fewer than the 100 features: their covariance has not full")
    assert texts[1].startswith("90 images (reference) are fewer than the 100 features")


@pytest.mark.parametrize(
    "sample, message",
    [
        (lambda n: torch.rand(n, 3, 8, 8), r"samples must be uint8 .* got \(50, 3, 8, 8\) torch.float32"),
        (lambda n: pictures(n, channels=4), r"1 or 3 channels, got \(50, 4, 8, 8\)"),
        (lambda n: pictures(n - 1), "asked for 50 samples after 0, got 49; 60 are needed"),
        (lambda n: pictures(n, side=9), "samples are 9x9, but the images of noise are 8x8"),
        (lambda n: None, "got NoneType"),
    ],
)
def test_wrong_samples_are_refused(options, sample, message):
    with pytest.raises(ValueError, match=message):
        evaluate(sample, TensorSource("noise", pictures(60)), "fid5k", **options)


def test_features_that_are_not_finite_are_an_error(options):
    class Broken(Corners):
        def __call__(self, images):
            return super().__call__(images) / 0

    with pytest.raises(ValueError, match="features of noise are not finite"):
        evaluate(
            sampler(pictures(60)), TensorSource("noise", pictures(60)), "fid5k", **{**options, "extractor": Broken()}
        )


def test_unknown_protocols_and_missing_references(options):
    with pytest.raises(ValueError, match="there is no protocol 'fid50'; did you mean 'fid5k'"):
        evaluate(sampler(pictures(60)), None, "fid50", **options)
    with pytest.raises(ValueError, match="it needs a reference"):
        evaluate(sampler(pictures(60)), None, "fid5k", **options)
    with pytest.raises(ValueError, match="samples must be at least 2, got 1"):
        evaluate(sampler(pictures(60)), None, "fid5k", **{**options, "samples": 1})


def test_protocols_say_what_they_are():
    assert {"fid50k_train", "fid10k_test", "fid5k", "is50k_10splits", "fid_small"} <= set(PROTOCOLS)
    assert str(get_protocol("fid50k_train")).endswith("50,000 samples against all train images")
    assert str(get_protocol("fid10k_test")).endswith("10,000 samples against all test images")
    assert "NOT comparable with FID" in str(get_protocol("fid_small"))


class Classifier(Corners):
    def log_probabilities(self, features):
        return (20 * features).log_softmax(dim=1)


def test_inception_score_over_its_splits(tmp_path):
    images = pictures(60)
    result = evaluate(sampler(images), None, "is50k_10splits", extractor=Classifier(), samples=60, batch_size=7)
    p = (20 * images[:, 1, :2, :2].flatten(1).double() / 255).softmax(dim=1)
    scores = [(part * (part / part.mean(dim=0)).log()).sum(dim=1).mean().exp() for part in p.chunk(10)]
    assert result.values["inception_score"] == pytest.approx(float(torch.stack(scores).mean()), rel=1e-5)
    assert result.values["inception_score_std"] == pytest.approx(float(torch.stack(scores).std(correction=0)), rel=1e-4)
    assert (result.samples, result.reference) == (60, None)


def test_inception_score_without_the_last_layer_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(evaluation_module, "load_inception", lambda data_dir: Inception(64))
    with pytest.raises(MissingDataError, match=r"needs the network's last layer \(fc\).*6726825d.*into inception/"):
        evaluate(lambda n: pictures(n), None, "is50k_10splits")
