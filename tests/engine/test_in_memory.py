"""The in-memory loop against steps written out by hand, and its promises about weights, stopping and errors."""

import copy
import math

import pytest
import torch
from torch import nn

from pinets.engine.in_memory import Samples, adamw, fit


def squared(outputs, targets):
    return (outputs - targets).square().mean(dim=1)


@pytest.fixture
def problem():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64) + 0.3
    return x, y


def line():
    model = nn.Linear(3, 1, dtype=torch.float64)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model


def test_one_full_batch_step_is_the_gradient_step_of_the_mean_loss(problem):
    x, y = problem
    model = line()
    fit(model, Samples.of(x, y), squared, torch.optim.SGD(model.parameters(), lr=0.1), epochs=1, batch_size=40)
    # at zero, the gradient of mean (w x + b - y)^2 is -2 mean(y x) and -2 mean(y)
    torch.testing.assert_close(model.weight, 0.2 * (y * x).mean(0, keepdim=True))
    torch.testing.assert_close(model.bias, 0.2 * y.mean(0))


def test_weights_are_repetitions_exactly_on_a_full_batch(problem):
    x, y = problem
    counts = torch.arange(40) % 4
    weighted, repeated = line(), line()
    fit(
        weighted,
        Samples.of(x, y, counts.double()),
        squared,
        adamw(weighted, learning_rate=0.05),
        epochs=20,
        batch_size=40,
    )
    twice = x.repeat_interleave(counts, 0), y.repeat_interleave(counts, 0)
    fit(repeated, Samples.of(*twice), squared, adamw(repeated, learning_rate=0.05), epochs=20, batch_size=1000)
    torch.testing.assert_close(weighted.weight, repeated.weight, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(weighted.bias, repeated.bias, rtol=1e-10, atol=1e-12)


def test_weights_are_repetitions_in_expectation_on_small_batches(problem):
    """One epoch of batches at a vanishing learning rate adds up to the full weighted gradient."""
    x, y = problem
    weights = (torch.arange(40) % 4).double()
    model, rate = line(), 1e-9
    fit(model, Samples.of(x, y, weights), squared, torch.optim.SGD(model.parameters(), lr=rate), epochs=1, batch_size=8)
    gradient = 2 * (weights[:, None] * y * x).sum(0, keepdim=True) / weights.sum()
    torch.testing.assert_close(model.weight / (5 * rate), gradient, rtol=1e-6, atol=1e-8)


def test_every_row_is_seen_once_an_epoch_in_near_equal_batches():
    seen = []

    def fetch(rows):
        seen.append(rows)
        return torch.zeros(len(rows), 3, dtype=torch.float64), torch.zeros(len(rows), 1, dtype=torch.float64)

    model, rows = line(), torch.arange(100, 123)
    fit(model, Samples(fetch, rows), squared, adamw(model, learning_rate=0.1), epochs=2, batch_size=10)
    assert [len(batch) for batch in seen] == [8, 8, 7] * 2
    first, second = torch.cat(seen[:3]), torch.cat(seen[3:])
    assert torch.equal(first.sort().values, rows)
    assert torch.equal(second.sort().values, rows)
    assert not torch.equal(first, second)


def test_no_global_generator_is_touched_and_the_given_one_decides(problem):
    start = line()  # made here, since making it draws from the global generator

    def train(seed):
        model = copy.deepcopy(start)
        generator = torch.Generator().manual_seed(seed)
        optimizer = adamw(model, learning_rate=0.05)
        fit(model, Samples.of(*problem), squared, optimizer, epochs=2, batch_size=8, generator=generator)
        return model.weight

    before = torch.random.get_rng_state()
    assert torch.equal(train(1), train(1))
    assert not torch.equal(train(1), train(2))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_cosine_schedule_falls_from_the_rate_to_zero_and_is_set_back(problem):
    class Recorder(torch.optim.SGD):
        def step(self, closure=None):
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    rates: list[float] = []
    model = line()
    optimizer = Recorder(model.parameters(), lr=0.2)
    fit(model, Samples.of(*problem), squared, optimizer, epochs=3, batch_size=10, cosine=True)
    expected = [0.1 * (1 + math.cos(math.pi * step / 12)) for step in range(12)]
    assert rates == pytest.approx(expected, rel=1e-12)
    assert optimizer.param_groups[0]["lr"] == 0.2


def test_early_stopping_restores_the_best_state(problem):
    """Validation targets that contradict the training: the validation is best after the first epoch."""
    x, y = problem
    model, states = line(), []
    history = fit(
        model,
        Samples.of(x, y),
        squared,
        adamw(model, learning_rate=0.05),
        epochs=50,
        batch_size=40,
        validation=Samples.of(x, -y),
        score=lambda outputs, targets: -(outputs - targets).abs().mean().item(),
        patience=4,
        on_epoch=lambda history: states.append(copy.deepcopy(model.state_dict())),
    )
    assert history.epochs == 5
    assert history.best_epoch == 1
    assert history.validation_loss == sorted(history.validation_loss)
    assert history.validation_score == sorted(history.validation_score, reverse=True)
    assert torch.equal(model.weight, states[0]["weight"])
    assert not torch.equal(model.weight, states[-1]["weight"])


def test_a_loss_that_stands_still_stops_too(problem):
    x, y = problem
    model = line()
    still = torch.optim.SGD(model.parameters(), lr=0.0)
    samples = Samples.of(x, y)
    history = fit(model, samples, squared, still, epochs=50, batch_size=40, validation=samples, patience=4)
    assert (history.epochs, history.best_epoch) == (5, 1)


def test_validation_without_patience_only_records(problem):
    x, y = problem
    watched, alone = line(), line()
    history = fit(
        watched,
        Samples.of(x, y),
        squared,
        adamw(watched, learning_rate=0.05),
        epochs=5,
        batch_size=8,
        validation=Samples.of(x, -y),
    )
    fit(alone, Samples.of(x, y), squared, adamw(alone, learning_rate=0.05), epochs=5, batch_size=8)
    assert torch.equal(watched.weight, alone.weight)
    assert history.best_epoch is None
    assert len(history.validation_loss) == len(history.seconds) == 5


def test_validation_loss_is_the_weighted_mean_whatever_the_batches(problem):
    x, y = problem
    weights = torch.rand(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    model = line()
    history = fit(
        model,
        Samples.of(x, y),
        squared,
        torch.optim.SGD(model.parameters(), lr=1e-12),
        epochs=1,
        batch_size=7,
        validation=Samples.of(x, y, weights),
    )
    expected = (weights * y[:, 0].square()).sum() / weights.sum()
    assert history.validation_loss[0] == pytest.approx(expected.item(), rel=1e-9)


def test_training_happens_in_training_mode_and_the_mode_is_given_back(problem):
    modes = []

    class Spy(nn.Linear):
        def forward(self, x):
            modes.append(self.training)
            return super().forward(x)

    model = Spy(3, 1, dtype=torch.float64).eval()
    data = Samples.of(*problem)
    fit(model, data, squared, adamw(model, learning_rate=0.1), epochs=1, batch_size=40, validation=data)
    assert modes == [True, False]
    assert not model.training


def test_the_optimiser_goes_on_from_call_to_call(problem):
    data = Samples.of(*problem)
    whole, parts = line(), line()
    fit(whole, data, squared, adamw(whole, learning_rate=0.1), epochs=4, batch_size=40)
    optimizer = adamw(parts, learning_rate=0.1)
    for _ in range(4):
        fit(parts, data, squared, optimizer, epochs=1, batch_size=40)
    torch.testing.assert_close(whole.weight, parts.weight, rtol=1e-12, atol=0)


def test_biases_are_not_decayed():
    model = nn.Linear(3, 2)
    decays = {
        id(p): group["weight_decay"]
        for group in adamw(model, learning_rate=0.1, weight_decay=0.5).param_groups
        for p in group["params"]
    }
    assert decays == {id(model.weight): 0.5, id(model.bias): 0.0}


def test_a_loss_that_is_not_finite_names_the_place_and_the_remedy(problem):
    x, y = problem
    y = y.clone()
    y[7] = math.inf
    model = line()
    with pytest.raises(FloatingPointError, match=r"loss is inf at step \d of 5 in epoch 1.*learning rate \(now 0.1\)"):
        fit(model, Samples.of(x, y), squared, adamw(model, learning_rate=0.1), epochs=3, batch_size=8)
    assert all(torch.isfinite(p).all() for p in model.parameters())  # it stops before the step that would spoil them
    with pytest.raises(FloatingPointError, match="validation of epoch 1"):
        fit(
            model,
            Samples.of(x, problem[1]),
            squared,
            adamw(model, learning_rate=0.1),
            epochs=3,
            batch_size=8,
            validation=Samples.of(x, y),
        )


def test_a_weighted_mean_loss_is_refused(problem):
    model = line()
    with pytest.raises(ValueError, match="one value per sample"):
        fit(
            model,
            Samples.of(*problem, torch.ones(40)),
            nn.functional.mse_loss,
            adamw(model, learning_rate=0.1),
            epochs=1,
            batch_size=8,
        )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"epochs": 0}, "at least 1, got 0 and 8"),
        ({"batch_size": 0}, "at least 1, got 1 and 0"),
        ({"patience": 3}, "needs validation samples"),
    ],
)
def test_bad_options(problem, options, message):
    model = line()
    with pytest.raises(ValueError, match=message):
        fit(
            model,
            Samples.of(*problem),
            squared,
            adamw(model, learning_rate=0.1),
            **{"epochs": 1, "batch_size": 8, **options},
        )


def test_bad_samples(problem):
    x, y = problem
    with pytest.raises(ValueError, match=r"\[40, 39\]"):
        Samples.of(x, y[:-1])
    with pytest.raises(ValueError, match="not all zero"):
        Samples.of(x, y, torch.zeros(40))
    with pytest.raises(ValueError, match="at least one row"):
        Samples.of(x[:0], y[:0])
