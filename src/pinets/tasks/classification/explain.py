"""Explain a polynomial classifier of images by its weights: a picture for each class, and how many terms suffice.

Everything but the accuracies comes from the weights alone (:func:`pinets.algebra.spectra`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pinets._files import write_bytes
from pinets._storage import write_json
from pinets.algebra import Spectrum, Traced, orders, spectra, trace
from pinets.report import COLORS, drawing_png, new_figure, tidy

__all__ = ["Explanation", "adversarial_patterns", "explain", "truncated_accuracies", "write_explanation"]

_SHOWN = 4  # components in a row of a picture, of either sign
_COUNTS = (0, 1, 2, 4, 8, 16, 32, 64, 128)
_NORMS = (0.0, 2.0, 4.0, 6.0, 8.0)  # norms of the pattern that is added to normalised images


@dataclass(frozen=True)
class Explanation:
    """The result of :func:`explain`.

    Attributes:
        classes: Names of the outputs.
        shape: The shape of an input.
        spectra: The spectrum of each degree.
        accuracy: The network's accuracy on the images.
        truncated: By degree: accuracies by the number of components kept of that degree, all other degrees exact.
        patterns: For each class the pattern that pulls images to it, of unit length.
        pulled: For each norm of the pattern, the share of images of other classes that it moves to its class, the mean
            over classes; and the same for random patterns.
    """

    classes: tuple[str, ...]
    shape: tuple[int, ...]
    spectra: dict[int, Spectrum]
    accuracy: float
    truncated: dict[int, dict[int, float]]
    patterns: Tensor
    pulled: dict[float, tuple[float, float]]

    def to_json(self) -> dict[str, Any]:
        """The numbers, without the pictures."""
        return {
            "accuracy": self.accuracy,
            "effective_rank": {
                degree: dict(zip(self.classes, spectrum.effective_rank.tolist(), strict=True))
                for degree, spectrum in self.spectra.items()
            },
            "mean_effective_rank": {d: float(s.effective_rank.mean()) for d, s in self.spectra.items()},
            "accuracy_by_components": self.truncated,
            "pulled_by_pattern_and_by_random": self.pulled,
        }


def explain(
    network: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    classes: Sequence[str],
    degrees: Sequence[int] | None = None,
    components: int = 16,
) -> Explanation:
    """Explain a polynomial classifier that is a sum of few products, such as a CCP.

    Args:
        network: In evaluation mode.
        images: As the network takes them, to measure accuracies on.
        labels: The labels of the images.
        classes: Names of the outputs.
        degrees: The degrees to look at; all from 2 on if left out.
        components: How many to find for each class, beyond degree 2.
    """
    traced = trace(network, images[:1])
    with torch.no_grad():
        parts = orders(network, images)
    chosen = range(2, len(parts)) if degrees is None else degrees
    found = {d: spectra(traced, images[:1], degree=d, components=None if d == 2 else components) for d in chosen}
    truncated = {degree: truncated_accuracies(spectrum, parts, images, labels) for degree, spectrum in found.items()}
    patterns = adversarial_patterns(network, traced, len(classes))
    return Explanation(
        tuple(classes),
        tuple(images.shape[1:]),
        found,
        _accuracy(parts.sum(0), labels),
        truncated,
        patterns,
        _pulled(network, images, labels, patterns),
    )


def truncated_accuracies(spectrum: Spectrum, parts: Tensor, images: Tensor, labels: Tensor) -> dict[int, float]:
    """Accuracies with the first components of one degree alone, and with the other degrees as they are."""
    others = parts.sum(0) - parts[spectrum.degree]
    most = spectrum.values.shape[1]
    counts = [*(count for count in _COUNTS if count < most), most]
    return {count: _accuracy(others + spectrum(images, count), labels) for count in counts}


def adversarial_patterns(network: nn.Module, traced: Traced, outputs: int) -> Tensor:
    """For each output, the direction in which second-order terms raise it most over the others, from weights alone.

    It is the leading eigenvector of the difference between the output's interaction matrix and the others' mean; its
    sign is the one with which the linear terms raise the output too.
    """
    (example,) = traced.example
    contrasts = torch.full((outputs, outputs), -1 / (outputs - 1)).fill_diagonal_(1.0)
    slopes = torch.autograd.functional.jacobian(lambda x: contrasts @ network(x)[0], torch.zeros_like(example))
    found = spectra(traced, example, outputs=contrasts)
    leading = found.values.argmax(1)
    vectors = found.vectors[torch.arange(outputs), leading].to(example)
    raised = (slopes.reshape(outputs, -1) * vectors).sum(1, keepdim=True)
    return torch.where(raised < 0, -vectors, vectors)  # either sign where there are no linear terms


def _pulled(network: nn.Module, images: Tensor, labels: Tensor, patterns: Tensor) -> dict[float, tuple[float, float]]:
    generator = torch.Generator().manual_seed(0)
    random = torch.nn.functional.normalize(torch.randn(patterns.shape, generator=generator), dim=1)
    shares: dict[float, tuple[float, float]] = {}
    some, theirs = images[:500], labels[:500]
    for norm in _NORMS:
        moved = []
        for kind in (patterns, random):
            hits = []
            for target, pattern in enumerate(kind):
                others = some[theirs != target]
                if not len(others):  # all images are of this class: none is left to be pulled to it
                    continue
                with torch.no_grad():
                    predicted = network(others + norm * pattern.to(others).reshape(images.shape[1:])).argmax(1)
                hits.append(float((predicted == target).double().mean()))
            moved.append(sum(hits) / len(hits))
        shares[norm] = (moved[0], moved[1])
    return shares


def _accuracy(scores: Tensor, labels: Tensor) -> float:
    return float((scores.argmax(1) == labels).double().mean())


# ------------------------------------------------------------------------------------------------------------ pictures


def write_explanation(found: Explanation, folder: str | Path) -> list[Path]:
    """Write ``explain.json``, ``class-*.png`` and ``components.png``; returns the files."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = {folder / "components.png": drawing_png(_curves(found))}
    for number in range(len(found.classes)):
        files[folder / f"class-{number}.png"] = drawing_png(class_figure(found, number))
    for file, content in files.items():
        write_bytes(file, content)
    write_json(folder / "explain.json", found.to_json())
    return [folder / "explain.json", *files]


def class_figure(found: Explanation, number: int) -> Any:
    """One class: its strongest components of every degree, for and against it."""
    rows = len(found.spectra)
    figure, axes = new_figure(
        2 * _SHOWN * 1.25 + 2.6, 1.75 * rows + 0.6, nrows=rows, ncols=2 * _SHOWN + 1, squeeze=False
    )
    for row, (degree, spectrum) in enumerate(found.spectra.items()):
        for place, component in enumerate(_strongest(spectrum.values[number], degree)):
            cell = axes[row, place]
            cell.axis("off")
            if component is not None:
                value = float(spectrum.values[number, component])
                image = spectrum.vectors[number, component].reshape(found.shape).mean(0)
                most = float(image.abs().max())
                cell.imshow(image.numpy(), cmap="RdBu_r", vmin=-most, vmax=most)
                cell.set_title(f"{value:+.2g}", fontsize=9, color=COLORS[0 if value > 0 else 1])
        bars = axes[row, -1]
        values = spectrum.values[number, :32].tolist()
        bars.bar(range(len(values)), values, color=[COLORS[0 if value > 0 else 1] for value in values], width=0.9)
        tidy(bars, title=f"degree {degree}", grid=False)
        bars.tick_params(labelsize=7)
        bars.set_xticks([])
    figure.suptitle(f"What “{found.classes[number]}” multiplies: components for and against it", fontsize=12)
    return figure


def _strongest(values: Tensor, degree: int) -> list[int | None]:
    """The places of the strongest components: those for the class, then those against it."""
    chosen: list[int | None] = []
    if degree % 2:  # an odd power takes the sign, so all values are positive
        return [*range(min(2 * _SHOWN, len(values)))]
    for sign in (1, -1):
        own = [place for place, value in enumerate(values.tolist()) if sign * value > 0][:_SHOWN]
        chosen += [*own, *[None] * (_SHOWN - len(own))]
    return chosen


def _curves(found: Explanation) -> Any:
    figure, (left, right) = new_figure(9.5, 3.4, ncols=2)
    for color, (degree, accuracies) in zip(COLORS, found.truncated.items(), strict=False):
        kept = [max(count, 0.5) for count in accuracies]
        left.plot(kept, [100 * a for a in accuracies.values()], marker="o", color=color, label=f"degree {degree}")
    left.axhline(100 * found.accuracy, color="#7a7f8c", linewidth=0.9, linestyle="--")
    left.set_xscale("log", base=2)
    left.legend(frameon=False, fontsize=9)
    tidy(left, title="How many components suffice", x="components kept of one degree (0.5: none)", y="accuracy, %")
    for place, (name, color) in enumerate((("from the weights", COLORS[1]), ("random", COLORS[5]))):
        right.plot(
            list(found.pulled), [100 * s[place] for s in found.pulled.values()], marker="o", color=color, label=name
        )
    right.legend(frameon=False, fontsize=9)
    tidy(right, title="One pattern for all images", x="norm of the pattern", y="images pulled to the class, %")
    return figure
