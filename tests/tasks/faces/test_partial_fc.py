"""The divided classifier: in one process against the plain loss and torch's SGD, in two against one."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file

from pinets.engine.optimization import SGD
from pinets.tasks.faces.arcface import ArcFace
from pinets.tasks.faces.partial_fc import PartialFC

SGDS = [SGD(lr=0.1), SGD(lr=0.1, momentum=0.9, weight_decay=5e-4), SGD(lr=0.1, momentum=0.9, nesterov=True)]


@pytest.mark.parametrize("sgd", SGDS)
def test_one_process_is_the_plain_loss_and_torchs_sgd(sgd):
    classifier = PartialFC(20, 6, ArcFace(), sgd)
    centres = torch.nn.Parameter(classifier.centres.clone())
    optimizer = sgd.build([centres])
    for _ in range(4):
        embeddings, labels = torch.randn(8, 6), torch.randint(20, (8,))
        ours, theirs = embeddings.clone().requires_grad_(), embeddings.clone().requires_grad_()
        loss, expected = classifier(ours, labels), ArcFace().loss(theirs, centres, labels)
        torch.testing.assert_close(loss, expected)
        loss.backward()
        optimizer.zero_grad()
        expected.backward()
        torch.testing.assert_close(ours.grad, theirs.grad)
        classifier.update(lr=0.1)
        optimizer.step()
        torch.testing.assert_close(classifier.centres, centres.detach())


def test_parts_of_a_batch_add_up():
    sgd = SGD(lr=0.1, momentum=0.9)
    whole, parts = (PartialFC(20, 6, ArcFace(), sgd, sample=0.5) for _ in range(2))
    embeddings, labels = torch.randn(8, 6), torch.randint(20, (8,))
    # the same identities must take part in both, or the loss is another
    whole._rows = parts._rows = lambda _: torch.arange(20)
    whole(embeddings, labels).backward()
    for some, their in zip(embeddings.split(4), labels.split(4), strict=True):
        (parts(some, their) / 2).backward()
    whole.update(lr=0.1)
    parts.update(lr=0.1)
    torch.testing.assert_close(parts.centres, whole.centres)


def test_a_scaled_loss_gives_the_same_update():
    plain, scaled = (PartialFC(20, 6, ArcFace(), SGD(lr=0.1)) for _ in range(2))
    embeddings, labels = torch.randn(8, 6), torch.randint(20, (8,))
    plain(embeddings, labels).backward()
    (scaled(embeddings, labels) * 1024).backward()
    plain.update(lr=0.1)
    scaled.update(lr=0.1, gradient_scale=1024)
    torch.testing.assert_close(scaled.centres, plain.centres)


def test_a_sample_has_the_batch_and_a_share_of_the_others():
    classifier = PartialFC(10_000, 4, ArcFace(scale=1.0), SGD(lr=0.1), sample=0.1)
    labels = torch.tensor([5, 9_999, 5, 4_096])
    before = classifier.centres.clone()
    classifier(torch.randn(4, 4), labels).backward()
    classifier.update(lr=0.1)
    moved = (classifier.centres != before).any(dim=1)
    assert moved[labels].all()
    assert 900 < moved.sum() < 1100  # 1000 +- 30
    before = classifier.centres.clone()
    classifier(torch.randn(4, 4), labels).backward()
    classifier.update(lr=0.1)
    again = (classifier.centres != before).any(dim=1)
    assert 50 < (moved & again).sum() < 150  # another tenth: 100 in common by chance


def test_a_sampled_step_is_the_plain_loss_on_the_sample():
    classifier = PartialFC(50, 6, ArcFace(), SGD(lr=0.1), sample=0.3)
    embeddings, labels = torch.randn(8, 6), torch.randint(50, (8,))
    rows = classifier._rows(labels)
    assert len(rows) < 50
    loss = classifier(embeddings, labels)
    expected = ArcFace().loss(embeddings, classifier.centres[rows], torch.searchsorted(rows, labels))
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("identities, processes", [(10_000, 3), (5, 5), (4096, 2), (4097, 2)])
def test_numbers_belong_to_identities_and_not_to_processes(identities, processes):
    whole = PartialFC(identities, 3, ArcFace(), SGD(lr=0.1), sample=0.5)
    parts = [
        PartialFC(identities, 3, ArcFace(), SGD(lr=0.1), sample=0.5, rank=rank, world_size=processes)
        for rank in range(processes)
    ]
    assert torch.equal(torch.cat([part.centres for part in parts]), whole.centres)
    labels = torch.tensor([0, identities - 1])
    assert torch.equal(torch.cat([part._rows(labels) + part.first for part in parts]), whole._rows(labels))
    assert whole.centres.std().item() == pytest.approx(0.01, rel=0.5)


def test_the_state_comes_back():
    first, second = (PartialFC(20, 6, ArcFace(), SGD(lr=0.1, momentum=0.9), sample=0.5, seed=seed) for seed in (0, 0))
    first(torch.randn(8, 6), torch.randint(20, (8,))).backward()
    first.update(lr=0.1)
    second.load_state_dict(first.state_dict())
    embeddings, labels = torch.randn(8, 6), torch.randint(20, (8,))
    for classifier in (first, second):
        classifier(embeddings, labels).backward()
        classifier.update(lr=0.1)
    assert torch.equal(first.centres, second.centres)
    with pytest.raises(ValueError, match=r"the saved centres are \(20, 6\), and this process has \(21, 6\)"):
        PartialFC(21, 6, ArcFace(), SGD(lr=0.1)).load_state_dict(first.state_dict())


def test_wrong_use_is_told():
    with pytest.raises(ValueError, match="sample must lie between 0 and 1, got 0"):
        PartialFC(20, 6, ArcFace(), SGD(lr=0.1), sample=0)
    with pytest.raises(ValueError, match="an identity for each of 3 processes, got 2"):
        PartialFC(2, 6, ArcFace(), SGD(lr=0.1), world_size=3)
    classifier = PartialFC(20, 6, ArcFace(), SGD(lr=0.1))
    with pytest.raises(RuntimeError, match="no loss was computed"):
        classifier.update(lr=0.1)
    classifier(torch.randn(2, 6), torch.tensor([0, 1]))
    with pytest.raises(RuntimeError, match="call backward before update"):
        classifier.update(lr=0.1)


@pytest.mark.parametrize("label", [-1, 10, 12])
@pytest.mark.parametrize("options", [{}, {"sample": 0.5}])
def test_a_label_without_a_centre_is_told(label, options):
    classifier = PartialFC(10, 4, ArcFace(), SGD(lr=0.1), **options)
    with pytest.raises(ValueError, match=f"labels must lie between 0 and 9, got {label}"):
        classifier(torch.randn(3, 4), torch.tensor([0, label, 9]))


def test_a_process_knows_how_many_identities_the_others_have():
    """A label of another process's is none of its own, and yet right."""
    first = PartialFC(10, 4, ArcFace(), SGD(lr=0.1), rank=0, world_size=2)
    first._require_identities(torch.tensor([0, 9]))
    with pytest.raises(ValueError, match="between 0 and 9, got 10"):
        first._require_identities(torch.tensor([0, 10]))


@pytest.fixture(scope="module")
def two_processes(toy_faces, torchrun, tmp_path_factory):
    """The runs of two processes, all started once."""
    folder = tmp_path_factory.mktemp("two")
    torchrun("toy_faces.py", folder, *toy_faces.OPTIONS)
    return folder


def saved(folder):
    """The network, and the centres of all processes, after the last step."""
    checkpoint = folder / "checkpoints" / "step-00000012"
    shares = [load_file(path) for path in sorted(checkpoint.glob("process-*.safetensors"))]
    centres = {
        name: torch.cat([share[f"state.task.classifier.{name}"] for share in shares])
        for name in ("centres", "momentum")
    }
    return {**load_file(checkpoint / "shared.safetensors"), **centres}


def numbers(folder):
    """What the log says, without what depends on time."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row[key] for row in rows for key in ("step", "loss", "toy_accuracy") if key in row]


@pytest.mark.parametrize("name", ["plain", "sampled", "in parts"])
def test_two_processes_give_the_result_of_one(toy_faces, two_processes, tmp_path, name):
    toy_faces.train(tmp_path, **toy_faces.OPTIONS[name])
    one, two = saved(tmp_path), saved(two_processes / name)
    assert one.keys() == two.keys()
    for key, tensor in one.items():
        torch.testing.assert_close(two[key], tensor, rtol=1e-4, atol=1e-6, msg=lambda text, key=key: f"{key}: {text}")
    assert numbers(two_processes / name) == pytest.approx(numbers(tmp_path), rel=1e-4, abs=1e-6)
    shares = (two_processes / name / "checkpoints" / "step-00000012").glob("process-*.safetensors")
    assert [len(load_file(share)["state.task.classifier.centres"]) for share in sorted(shares)] == [5, 6]


def test_damage_that_several_processes_see_is_counted_once(two_processes):
    rows = [json.loads(line) for line in (two_processes / "plain" / "metrics.jsonl").read_text().splitlines()]
    assert {row["damaged_images"] for row in rows if row["split"] == "validation"} == {3}


def test_two_processes_resume_bit_for_bit(torchrun, two_processes, tmp_path):
    shutil.copytree(two_processes / "sampled", tmp_path / "sampled")
    # so that the last three steps are done again
    (tmp_path / "sampled" / "checkpoints" / "step-00000012" / "process-1.safetensors").unlink()
    torchrun("toy_faces.py", tmp_path, "sampled")
    whole, resumed = saved(two_processes / "sampled"), saved(tmp_path / "sampled")
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)


def test_it_learns_and_scores_pairs(toy_faces, tmp_path):
    assert toy_faces.train(tmp_path, steps=60)["test"]["toy_accuracy"] > 0.9


@pytest.fixture
def fresh_accelerate():
    """Accelerate fixes the precision for all of a process."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.usefixtures("fresh_accelerate")
def test_in_half_precision_it_learns_too(toy_faces, tmp_path):
    assert toy_faces.train(tmp_path, steps=60, precision="bf16")["test"]["toy_accuracy"] > 0.9
