"""The sections about a classifier in the report of its run: degree, share of each degree, confusions, hard samples."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pinets.algebra import Certificate, certify, orders
from pinets.data.formats.images import encode_png
from pinets.data.samples import read_fixed
from pinets.data.splits import evenly_chosen
from pinets.engine.trained import TrainedRun
from pinets.report import Section, figure_svg, new_figure, paragraph, tidy, tiles
from pinets.tasks.classification.pairs import pair_figure, strongest_pairs
from pinets.tasks.classification.recipe import ClassificationRecipe, Inputs

__all__ = ["Answers", "confusion_table", "degree_figure", "run_sections", "test_answers"]

_MOST_SAMPLES = 2000  # test samples that are looked at, evenly chosen; a report is not an evaluation
_BATCH = 100
_HARDEST = 12
_MOST_CLASSES = 20  # classes in a confusion matrix
_SPLIT_SAMPLES = 100  # samples whose scores are split by degree, which takes one pass per degree
_MOST_DEGREES = 64
_MOST_COLUMNS = 12  # classes whose interactions are shown side by side
_MOST_PIXELS = 4096  # numbers in an image whose interactions are shown


@dataclass(frozen=True, eq=False)
class Answers:
    """The scores of a network for test samples."""

    chosen: Tensor  # their places in the test split
    labels: Tensor
    scores: Tensor
    classes: tuple[str, ...]

    @property
    def predicted(self) -> Tensor:
        return self.scores.argmax(dim=1)

    @property
    def confusions(self) -> Tensor:
        """Counts, one row for each true class and one column for each predicted one."""
        count = len(self.classes)
        return torch.bincount(self.labels * count + self.predicted, minlength=count**2).view(count, count)

    def hardest(self, count: int) -> Tensor:
        """The places, among these samples, of those with the largest cross-entropy."""
        loss = nn.functional.cross_entropy(self.scores.double(), self.labels, reduction="none")
        return loss.topk(min(count, len(loss))).indices


def run_sections(run: TrainedRun) -> list[Section]:
    """The sections about a finished run of a classifier; empty for other runs."""
    if not isinstance(run.recipe, ClassificationRecipe):
        return []
    network, data = run.network(), run.data
    answers = test_answers(network, data)
    of_all = f"{len(answers.labels):,} of {len(data.splits.test):,} test samples"
    certificate = certify(network, data.first())
    sections = [Section("Is it a polynomial?", *_degree(certificate, network, data, answers))]
    if certificate.polynomial and (pairs := _pairs(certificate, network, data, answers.classes)):
        sections.append(pairs)
    sections.append(Section("Confusions", paragraph(f"Over {of_all}."), confusion_table(answers)))
    if pictures := _hardest(answers, data):
        explained = "The test samples with the largest loss: the true class, then what the network says instead."
        sections.append(Section("The hardest samples", paragraph(explained), pictures))
    return sections


@torch.no_grad()
def test_answers(network: nn.Module, data: Inputs) -> Answers:
    """The scores for test samples, evenly chosen where there are many."""
    samples = data.splits.test
    chosen = evenly_chosen(len(samples), _MOST_SAMPLES)
    scores = [network(_prepared(data, part)) for part in chosen.split(_BATCH)]
    return Answers(chosen, samples.labels[chosen], torch.cat(scores), tuple(samples.classes))


def _prepared(data: Inputs, chosen: Tensor) -> Tensor:
    return data.evaluation(read_fixed(data.splits.test, chosen))


def _degree(certificate: Certificate, network: nn.Module, data: Inputs, answers: Answers) -> list[str]:
    if not certificate.polynomial:
        names = ", ".join(dict.fromkeys(violation.operation for violation in certificate.violations))
        return [paragraph(f"No: it is a Π-net or a network with activations. In the way: {names}.")]
    told = certificate.degree if certificate.degree is not None else f"at most {certificate.bound}"
    text = f"Yes, a polynomial of its input, of certified degree {told}."
    if certificate.bound is None or certificate.bound > _MOST_DEGREES:
        return [paragraph(f"{text} Its scores are not split by degree: there are more than {_MOST_DEGREES}.")]
    places = evenly_chosen(len(answers.labels), _SPLIT_SAMPLES)
    with torch.no_grad():
        parts = orders(network, _prepared(data, answers.chosen[places]))
    figure, sentence = degree_figure(parts, answers.labels[places])
    return [paragraph(f"{text} {sentence}"), figure]


def _pairs(certificate: Certificate, network: nn.Module, data: Inputs, classes: tuple[str, ...]) -> Section | None:
    """The strongest products of two pixels, for few classes and small images."""
    shape = tuple(data.first().shape[1:])
    if len(shape) != 3 or not 2 <= len(classes) <= _MOST_COLUMNS or certificate.bound in (None, 0, 1):
        return None
    if math.prod(shape) > _MOST_PIXELS:
        return None
    found = strongest_pairs(network, shape, len(classes))
    strongest = int(found.values.abs().amax(dim=1).argmax())
    explained = (
        "The terms of degree 2 multiply pixels in pairs. Above, for each class, the pattern whose square adds most to "
        "its score; below, the one whose square takes most from it. Red pixels count together, against the blue ones. "
        f"“{classes[strongest]}” has the strongest."
    )
    caption = "From the weights alone: eigenvectors of half the second derivative at the mean image; one colour scale."
    figure = figure_svg(
        pair_figure(found, shape, classes), caption, alt="Strongest pairwise interactions of each class"
    )
    return Section("Strongest interactions", paragraph(explained), figure)


def degree_figure(parts: Tensor, labels: Tensor) -> tuple[str, str]:
    """A figure, and a sentence, on how much each degree adds to the scores and how accurate the polynomial up to it is.

    Args:
        parts: The contribution of each degree, (degree + 1, samples, classes).
        labels: The true classes.
    """
    size = (parts - parts.mean(dim=2, keepdim=True)).square().mean(dim=(1, 2)).sqrt()  # what all classes share is idle
    right = [float((part.argmax(dim=1) == labels).double().mean()) for part in parts.cumsum(dim=0)]
    figure, (left, second) = new_figure(9, 3.2, ncols=2)
    degrees = range(len(parts))
    left.bar(degrees, size.tolist(), color="#3556c9")
    tidy(left, title="Size of each degree", x="degree", y="contribution to a score (RMS)")
    second.plot(degrees, [100 * share for share in right], marker="o", markersize=4, color="#d9622b")
    tidy(second, title="The polynomial cut off", x="highest degree kept", y="right (%)")
    for axes in (left, second):
        axes.xaxis.get_major_locator().set_params(integer=True)
    largest = int(size.argmax())
    enough = next(degree for degree, share in enumerate(right) if share >= 0.99 * right[-1])
    sentence = f"Degree {largest} adds most to the scores; 99 % of the right answers need the degrees up to {enough}."
    caption = (
        f"Exact, over {len(labels)} test samples. The input is measured from the mean of the training data, so "
        f"degree 0 is the answer to an average input."
    )
    return figure_svg(
        figure, caption, alt="Contribution of each degree, and accuracy of the truncated polynomial"
    ), sentence


def confusion_table(answers: Answers) -> str:
    """True classes by predicted ones, coloured by their share of the true class; each cell has a tooltip."""
    counts = answers.confusions
    if len(answers.classes) > _MOST_CLASSES:
        return _worst_pairs(answers)
    share = counts / counts.sum(dim=1, keepdim=True).clamp_min(1)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in answers.classes)
    rows = []
    for row, name in enumerate(answers.classes):
        cells = "".join(
            _cell(int(counts[row, column]), float(share[row, column]), name, answers.classes[column], row == column)
            for column in range(len(answers.classes))
        )
        rows.append(f"<tr><th>{html.escape(name)}</th>{cells}</tr>")
    table = (
        f"<table class=heat><thead><tr><th>true \\ said</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
    return f"<div class=scroll>{table}</div>"


def _cell(count: int, share: float, true: str, said: str, right: bool) -> str:
    colour = "42, 157, 111" if right else "196, 61, 94"
    # a mistake of a fifth of a class already shows in full
    depth = share if right else min(1.0, 5 * share)
    title = html.escape(f"{true}, said {said}: {count} ({100 * share:.0f} %)", quote=True)
    return f'<td style="background: rgba({colour}, {0.8 * depth:.2f})" title="{title}">{count or ""}</td>'


def _worst_pairs(answers: Answers) -> str:
    wrong = answers.confusions.fill_diagonal_(0)
    count = len(answers.classes)
    lines = []
    for place in wrong.flatten().topk(10).indices.tolist():
        true, said = divmod(place, count)
        if wrong[true, said]:
            lines.append(f"{answers.classes[true]} taken for {answers.classes[said]}: {int(wrong[true, said])}")
    return "".join(map(paragraph, ["The most frequent mistakes:", *lines]))


def _hardest(answers: Answers, data: Inputs) -> str:
    """Pictures with their classes; empty if the samples are not pictures."""
    places = answers.hardest(_HARDEST)
    images: Any = read_fixed(data.splits.test, answers.chosen[places])
    if images.dtype == torch.float32 and images.ndim == 4 and images.shape[1] == 1:  # spectrograms
        low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
        images = ((images - low) / (high - low).clamp_min(1e-9) * 255).to(torch.uint8).flip(2)
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
        return ""
    chance = answers.scores.double().softmax(dim=1)
    shown = []
    for place, image in zip(places.tolist(), images, strict=True):
        true, said = int(answers.labels[place]), int(answers.predicted[place])
        name = answers.classes[true]
        told = f"{name}: {100 * float(chance[place, true]):.0f} %"
        if said != true:
            told = f"{name}, not {answers.classes[said]} ({100 * float(chance[place, said]):.0f} %)"
        shown.append((encode_png(image), told))
    return tiles(shown)
