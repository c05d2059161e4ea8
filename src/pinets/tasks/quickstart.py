"""The main job at laptop scale: polynomial networks on handwritten digits, without any activation function."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pinets import spec
from pinets._extras import require
from pinets._files import PathLike, make_writable_folder, write_bytes
from pinets._progress import Progress
from pinets._storage import write_json
from pinets.algebra import Certificate, certify
from pinets.engine.in_memory import History, Samples, adamw, fit
from pinets.engine.randomness import seeded

__all__ = ["Contender", "Digits", "Outcome", "contenders", "load_digits", "quickstart", "train"]

ORDERS = (1, 2, 3, 4)
BUDGET = 10_000  # parameters
EPOCHS, BATCH, LEARNING_RATE = 40, 64, 1e-2
DECAYS = (0.1, 1.0)  # candidates; each model gets the one with the better validation accuracy

Split: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Digits:
    """Handwritten digits of 8x8 pixels, standardised by the mean and the deviation of all pixels together."""

    train: Split
    validation: Split
    test: Split
    mean: float
    std: float


@dataclass(frozen=True)
class Contender:
    """A model to train, by the expression that builds it."""

    name: str
    order: int | None  # None for the linear model and the ReLU network
    expression: str
    parameters: int

    @property
    def key(self) -> str:
        return f"{self.name.lower()}-{self.order}" if self.order else self.name.lower()

    @property
    def label(self) -> str:
        return f"{self.name}, order {self.order}" if self.order else self.name


@dataclass(frozen=True)
class Outcome:
    """The result of a contender over all seeds; ``module`` is that of the first seed."""

    contender: Contender
    accuracies: list[float]
    weight_decay: float
    seconds: float
    histories: list[History]
    certificate: Certificate
    module: nn.Module

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)

    @property
    def deviation(self) -> float:
        return statistics.stdev(self.accuracies) if len(self.accuracies) > 1 else 0.0

    @property
    def validation(self) -> float:
        """Mean validation accuracy, by which models are chosen; the test set is for reporting."""
        return statistics.fmean(history.validation_score[-1] for history in self.histories)

    @property
    def degree(self) -> str:
        return str(self.certificate.degree) if self.certificate.polynomial else "not polynomial"


def load_digits() -> Digits:
    """The digits that come with scikit-learn: 60 % to train on, 20 % to validate, 20 % to test, classes balanced."""
    inputs, targets = require("sklearn.datasets", extra="train").load_digits(return_X_y=True)
    split = require("sklearn.model_selection", extra="train").train_test_split
    rest, test, rest_targets, test_targets = split(inputs, targets, test_size=0.2, stratify=targets, random_state=0)
    train, validation, train_targets, validation_targets = split(
        rest, rest_targets, test_size=0.25, stratify=rest_targets, random_state=0
    )
    mean, std = float(train.mean()), float(train.std())

    def tensors(values: object, labels: object) -> Split:
        return (torch.as_tensor(values, dtype=torch.float32) - mean) / std, torch.as_tensor(labels)

    return Digits(
        tensors(train, train_targets), tensors(validation, validation_targets), tensors(test, test_targets), mean, std
    )


def contenders() -> list[Contender]:
    """Every model of the paper at every order, a linear model and a ReLU network, as wide as the budget allows.

    >>> [(contender.label, contender.parameters) for contender in contenders()[:2]]
    [('Linear', 650), ('ReLU-MLP', 9985)]
    """
    makers: list[tuple[str, int | None, str]] = [
        ("Linear", None, "Linear(64, 10)"),
        ("ReLU-MLP", None, "Sequential(Linear(64, {width}), ReLU(), Linear({width}, 10))"),
    ]
    makers += [
        (layer, order, f"{layer}(64, 10, rank={{width}}, order={order})")
        for layer in ("CCP", "NCP", "NCPSkip")
        for order in ORDERS
    ]
    return [_fitted_to_budget(name, order, template) for name, order, template in makers]


def _fitted_to_budget(name: str, order: int | None, template: str) -> Contender:
    def count(width: int) -> int:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in spec.build(template.format(width=width)).parameters())

    width = bisect_right(range(1, BUDGET), BUDGET, key=count) if "{width}" in template else 0
    return Contender(name, order, template.format(width=width), count(width))


def quickstart(
    out: PathLike = "runs/quickstart",
    *,
    seeds: int = 3,
    epochs: int = EPOCHS,
    say: Callable[[str], None] = print,
) -> list[Outcome]:
    """Train all contenders, print a table, and write a folder with a report to open in a browser.

    The folder gets ``report.html``, ``results.json``, and the models of the first seed as safetensors files that
    ``pinets certify`` and ``pinets expand`` read. Each file appears only when it is complete.

    Args:
        out: The folder.
        seeds: How often each model is trained, from different starts.
        epochs: How long.
        say: Where the table and what to do next go.
    """
    from pinets.tasks.quickstart_report import render, text_table

    if seeds < 1 or epochs < 1:
        raise ValueError(f"seeds and epochs must be at least 1, got {seeds} and {epochs}")
    for needed in ("matplotlib", "safetensors"):  # fail before a minute of training, not after it
        require(needed, extra="train")
    folder = Path(out)
    make_writable_folder(folder)
    digits, field = load_digits(), contenders()
    runs = len(field) * (seeds + len(DECAYS) - 1)
    with _one_thread(), Progress("quickstart", runs, unit="run", stays=False, every_seconds=10.0) as bar:
        outcomes = [_run(contender, digits, seeds, epochs, bar) for contender in field]
    say(text_table(outcomes))
    for outcome in outcomes:
        spec.save(
            folder / "models" / f"{outcome.contender.key}.safetensors",
            outcome.module,
            outcome.contender.expression,
            input=f"64 pixels from 0 to 16, minus {digits.mean:.6f}, over {digits.std:.6f}",
        )
    write_json(folder / "results.json", _results(outcomes))
    write_bytes(folder / "report.html", render(outcomes, digits).encode())
    say(_what_next(folder, outcomes))
    return outcomes


def _run(contender: Contender, digits: Digits, seeds: int, epochs: int, bar: Progress) -> Outcome:
    """Train the first seed with every decay, keep the one that validates best, and train the other seeds with it."""

    def run(seed: int, decay: float) -> tuple[nn.Module, History]:
        module, history = train(contender, digits, seed=seed, weight_decay=decay, epochs=epochs)
        bar.advance({contender.label: history.validation_score[-1]})
        return module, history

    start = time.perf_counter()
    first = {decay: run(0, decay) for decay in DECAYS}
    decay = max(DECAYS, key=lambda candidate: first[candidate][1].validation_score[-1])
    runs = [first[decay], *(run(seed, decay) for seed in range(1, seeds))]
    seconds = (time.perf_counter() - start) / (seeds + len(DECAYS) - 1)
    with torch.no_grad():
        accuracies = [accuracy(module(digits.test[0]), digits.test[1]) for module, _ in runs]
    histories = [history for _, history in runs]
    certificate = certify(runs[0][0], digits.test[0][:1])
    return Outcome(contender, accuracies, decay, seconds, histories, certificate, runs[0][0])


def train(
    contender: Contender, digits: Digits, *, seed: int, weight_decay: float, epochs: int
) -> tuple[nn.Module, History]:
    """Train one model from one seed; the same seed gives the same weights."""
    with seeded(seed):
        module = spec.build(contender.expression)
    history = fit(
        module,
        Samples.of(*digits.train),
        cross_entropy,
        adamw(module, learning_rate=LEARNING_RATE, weight_decay=weight_decay),
        epochs=epochs,
        batch_size=BATCH,
        generator=torch.Generator().manual_seed(seed),
        cosine=True,
        validation=Samples.of(*digits.validation),
        score=accuracy,
    )
    return module.eval(), history


def accuracy(outputs: Tensor, targets: Tensor) -> float:
    return (outputs.argmax(dim=1) == targets).double().mean().item()


def _results(outcomes: list[Outcome]) -> list[dict[str, object]]:
    return [
        {
            **asdict(outcome.contender),
            "degree": outcome.certificate.degree,
            "polynomial": outcome.certificate.polynomial,
            "test_accuracy": outcome.accuracies,
            "validation_accuracy": [history.validation_score[-1] for history in outcome.histories],
            "weight_decay": outcome.weight_decay,
            "seconds_per_run": outcome.seconds,
            "curves": [asdict(history) for history in outcome.histories],
        }
        for outcome in outcomes
    ]


def _what_next(folder: Path, outcomes: list[Outcome]) -> str:
    polynomials = [outcome for outcome in outcomes if (outcome.contender.order or 0) > 1]
    best = max(polynomials, key=lambda outcome: outcome.validation)
    model = folder / "models" / f"{best.contender.key}.safetensors"
    # without an activated environment (`make quickstart`) the command needs its path
    pinets = "pinets" if shutil.which("pinets") else os.path.relpath(Path(sys.executable).with_name("pinets"))
    return "\n".join(
        (
            f"\nThe report: {folder / 'report.html'} (open it in a browser)",
            "Try next:",
            f"  {pinets} certify {model}          is it a polynomial, and of which degree?",
            f"  {pinets} expand {model} --top 10  its largest monomials",
            f'  {pinets} certify "Sequential(CCP(16, 8, rank=8, order=2), MaxPool1d(2))"   what is in the way',
        )
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Models this small run faster on one thread than on several."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
