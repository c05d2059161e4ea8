from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import top_k_accuracy_score

from pinets import CCP
from pinets.data import Compose, Normalize
from pinets.engine import make_accelerator
from pinets.tasks.classification.robustness import Attacker, Ball, Certified, Robust
from pinets.tasks.classification.task import Classification, count_top_k


@pytest.mark.parametrize("k", [1, 3, 5])
def test_top_k_equals_scikit_learns(k):
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(200, 7, generator=generator), torch.randint(7, (200,), generator=generator)
    expected = top_k_accuracy_score(labels.numpy(), logits.numpy(), k=k, labels=np.arange(7), normalize=False)
    assert count_top_k(logits, labels, k) == expected


def test_a_collapsed_network_is_right_by_chance_only():
    labels = torch.arange(10).repeat(5)
    assert count_top_k(torch.zeros(50, 10), labels, k=1) == 5
    assert count_top_k(torch.zeros(50, 10), labels, k=5) == 25


def test_nan_is_never_right():
    assert count_top_k(torch.full((4, 3), float("nan")), torch.zeros(4).long(), k=3) == 0


def test_every_sample_counts_alike_whatever_its_batch():
    torch.manual_seed(0)
    network, inputs, labels = torch.nn.Linear(4, 5), torch.randn(10, 4), torch.randint(5, (10,))
    batches = list(zip(inputs.split([7, 0, 3]), labels.split([7, 0, 3]), strict=True))
    task = Classification(network, samples=lambda split: batches, accelerator=make_accelerator(), top_k=(1, 2))
    scores = network(inputs).detach()
    chances = scores.double().softmax(dim=1)[torch.arange(10), labels]
    assert task.evaluate("test") == {
        "loss": pytest.approx(-chances.log().mean().item(), rel=1e-6),
        "accuracy": top_k_accuracy_score(labels.numpy(), scores.numpy(), k=1, labels=np.arange(5)),
        "top2_accuracy": top_k_accuracy_score(labels.numpy(), scores.numpy(), k=2, labels=np.arange(5)),
    }


def test_an_attacker_stays_in_the_ball_and_makes_the_network_more_wrong():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 3))
    inputs, labels = torch.rand(20, 2, 2, 2), torch.randint(3, (20,))
    radius, least, most = (torch.tensor(value).view(2, 1, 1) for value in ([0.1, 0.2], [0.0, 0.0], [1.0, 0.9]))
    inputs = inputs.clamp(least, most)
    moved = Attacker(Ball(radius, least, most), steps=3)(network, inputs, labels)
    assert ((moved - inputs).abs() <= radius + 1e-6).all()
    assert (moved >= least).all()
    assert (moved <= most).all()
    before, after = (torch.nn.functional.cross_entropy(network(x), labels, reduction="none") for x in (inputs, moved))
    assert (after > before).all()


def test_robust_training_needs_normalised_images():
    with pytest.raises(ValueError, match="eps must be above 0"):
        Robust(eps=0.0)
    with pytest.raises(ValueError, match="no normalised images"):
        Robust(eps=0.1).build(Compose())
    attacker = Robust(eps=0.1).build(Normalize((0.5,), (0.25,)))
    assert attacker.ball.radius.item() == pytest.approx(0.4)
    assert (attacker.ball.least.item(), attacker.ball.most.item()) == (-2.0, 2.0)


def test_the_certified_loss_grows_from_the_plain_one_beyond_what_an_attack_finds():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), CCP(8, 3, rank=4, order=2))
    normalize = Normalize((0.5, 0.5), (0.5, 0.25))
    inputs, labels = normalize(torch.randint(256, (20, 2, 2, 2), dtype=torch.uint8)), torch.randint(3, (20,))
    certifier = Certified(eps=0.1).build(normalize)
    certifier.growing = 10
    losses = [certifier.loss(network, inputs, labels, step).item() for step in (0, 5, 10, 1000)]
    plain = torch.nn.functional.cross_entropy(network(inputs), labels).item()
    assert losses[0] == pytest.approx(plain, rel=1e-4)
    assert losses[0] < losses[1] < losses[2] == losses[3]
    moved = Robust(eps=0.1, steps=10).build(normalize)(network, inputs, labels)
    assert losses[2] > torch.nn.functional.cross_entropy(network(moved), labels).item() > plain
    assert network.training


def test_bad_values_of_certified_training_are_refused():
    for values in ({"eps": 0.0}, {"eps": 0.1, "weight": 0.0}, {"eps": 0.1, "growing": 1.5}):
        with pytest.raises(ValueError, match=f"{list(values)[-1]} must be"):
            Certified(**values)
