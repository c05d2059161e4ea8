"""The report of ``pinets quickstart``."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from pinets._extras import require
from pinets.algebra import orders
from pinets.report import COLORS, Page, aligned, band, code, figure_svg, new_figure, paragraph, table, tidy

if TYPE_CHECKING:
    from pinets.tasks.quickstart import Digits, Outcome

__all__ = ["render", "text_table"]

_HEADER = ("model", "parameters", "certified degree", "test accuracy", "seconds per run")


def _rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    return [
        [
            outcome.contender.label,
            f"{outcome.contender.parameters:,}",
            outcome.degree,
            _accuracy(outcome),
            f"{outcome.seconds:.1f}",
        ]
        for outcome in outcomes
    ]


def _accuracy(outcome: Outcome) -> str:
    """The mean, and the deviation where there are several seeds."""
    deviation = f" ± {100 * outcome.deviation:.1f}" if len(outcome.accuracies) > 1 else ""
    return f"{100 * outcome.mean:.1f}{deviation} %"


def text_table(outcomes: Sequence[Outcome]) -> str:
    """The results as lines of text."""
    header, *lines = aligned([_HEADER, *_rows(outcomes)])
    return "\n".join(["", header, "-" * len(header), *lines])


def render(outcomes: Sequence[Outcome], digits: Digits) -> str:
    """The whole report as one HTML page."""
    family = [outcome for outcome in outcomes if outcome.contender.order]
    best = max(family, key=lambda outcome: outcome.validation)
    linear = next(outcome for outcome in outcomes if outcome.contender.name == "Linear")
    seeds, epochs = len(best.accuracies), best.histories[0].epochs
    page = Page(
        "Π-nets on handwritten digits",
        f"Polynomial networks without a single activation function, on the 1,797 digits of scikit-learn: "
        f"{100 * best.mean:.1f} % with {best.contender.label}, against {100 * linear.mean:.1f} % for a linear model.",
    )
    page.section(
        "Results",
        paragraph(
            f"Test accuracy, {f'mean and standard deviation over {seeds} seeds' if seeds > 1 else 'one seed'}. "
            f"All models have the same training ({epochs} epochs of AdamW, the better of two weight decays by the "
            f"validation set) and, but for the linear one, the same budget of parameters. The degree is certified: "
            f"read off the network's graph and confirmed with numbers."
        ),
        table(_HEADER, _rows(outcomes), strong=[list(outcomes).index(best)]),
    )
    page.section("Accuracy against order", _accuracy_against_order(outcomes, family))
    page.section("Training curves", _training_curves(outcomes))
    page.section("What each degree contributes", _contributions(best, digits))
    page.section("What it looks for", _coefficient_maps(best, digits))
    page.section("What was learnt", paragraph(_lesson(outcomes, best, linear, digits)))
    page.section(
        "Try next",
        paragraph("In the folder of this report, which holds the models of the first seed, run:"),
        code(
            f"pinets certify models/{best.contender.key}.safetensors\n"
            f"pinets expand models/{best.contender.key}.safetensors --top 10"
        ),
    )
    numbers = f"Python {platform.python_version()}, torch {torch.__version__}, one thread. Made by: pinets quickstart"
    return page.render(f"{numbers} --seeds {seeds}")


def _accuracy_against_order(outcomes: Sequence[Outcome], family: Sequence[Outcome]) -> str:
    figure, axes = new_figure(8.2, 3.8)
    names = list(dict.fromkeys(outcome.contender.name for outcome in family))
    for place, (color, name) in enumerate(zip(COLORS, names, strict=False)):
        chosen = [outcome for outcome in family if outcome.contender.name == name]
        aside = 0.07 * (place - (len(names) - 1) / 2)  # or the bars of models that are alike hide each other
        axes.errorbar(
            [(outcome.contender.order or 0) + aside for outcome in chosen],
            [100 * outcome.mean for outcome in chosen],
            yerr=[100 * outcome.deviation for outcome in chosen],
            marker="o",
            capsize=3,
            label=name,
            color=color,
        )
    for style, outcome in zip(
        ("--", ":"), (outcome for outcome in outcomes if outcome.contender.order is None), strict=False
    ):
        axes.axhline(100 * outcome.mean, color="#7a7f8c", linestyle=style, label=outcome.contender.name)
    axes.set_xticks(sorted({outcome.contender.order or 0 for outcome in family}))
    tidy(axes, x="order of the polynomial", y="test accuracy (%)")
    figure.legend(frameon=False, ncols=5, loc="outside upper center", fontsize=9)  # inside, it would hide a line
    return figure_svg(
        figure,
        "Order 1 is a linear model; every order beyond multiplies by the input once more. Bars show one standard "
        "deviation over the seeds.",
        alt="Test accuracy of CCP, NCP and NCP-Skip against the order, with a linear model and a ReLU network",
    )


def _training_curves(outcomes: Sequence[Outcome]) -> str:
    names = list(dict.fromkeys(outcome.contender.name for outcome in outcomes if outcome.contender.order))
    figure, panels = new_figure(10, 3.4, ncols=len(names), sharey=True)
    rest = [outcome for outcome in outcomes if outcome.contender.order is None]
    lowest = 100 * min(outcome.histories[0].validation_score[-1] for outcome in outcomes)
    for axes, name in zip(panels, names, strict=True):
        chosen = [outcome for outcome in outcomes if outcome.contender.name == name]
        for color, outcome in zip(COLORS, chosen, strict=False):
            _curve(axes, outcome, label=f"order {outcome.contender.order}", color=color, linewidth=1.4)
        for style, outcome in zip(("--", ":"), rest, strict=False):
            _curve(axes, outcome, label=outcome.contender.name, color="#7a7f8c", linestyle=style, linewidth=1.2)
        tidy(axes, title=name, x="epoch", y="validation accuracy (%)" if axes is panels[0] else "")
        axes.set_ylim(max(0, lowest - 12), 100.5)
    panels[-1].legend(frameon=False, fontsize=8, loc="lower right")
    return figure_svg(
        figure,
        "Validation accuracy during training: the mean over the seeds and one standard deviation to each side.",
        alt="Validation accuracy by epoch for each model and order, with bands of one standard deviation",
    )


def _curve(axes: Any, outcome: Outcome, **style: Any) -> None:
    runs = [[100 * value for value in history.validation_score] for history in outcome.histories]
    band(axes, range(1, len(runs[0]) + 1), runs, **style)


def _contributions(outcome: Outcome, digits: Digits) -> str:
    """One digit of each of five classes, with the contribution of every degree to every class."""
    inputs, targets = digits.test
    chosen = torch.stack([(targets == label).nonzero()[0, 0] for label in (0, 3, 5, 8, 9)])
    with torch.no_grad():
        parts = orders(outcome.module, inputs[chosen])  # (degree, digit, class)
    columns = torch.cat([parts, parts.sum(0, keepdim=True)])
    names = [*(str(degree) for degree in range(len(parts))), "sum"]
    figure, panels = new_figure(10, 4.6, nrows=2, ncols=len(chosen), height_ratios=(1, 2.4))
    size = columns.abs().max().item()  # one scale for all digits
    rectangle = require("matplotlib.patches", extra="train").Rectangle
    for column, position in enumerate(chosen.tolist()):
        panels[0, column].imshow(inputs[position].reshape(8, 8).numpy(), cmap="Greys")
        panels[0, column].set_title(f"a {targets[position].item()}", fontsize=9)
        panels[0, column].set_axis_off()
        axes, values = panels[1, column], columns[:, column].T
        image = axes.imshow(values.numpy(), cmap="RdBu_r", vmin=-size, vmax=size, aspect="auto")
        axes.set_xticks(range(len(names)), names, fontsize=8)
        axes.set_yticks(range(10), [str(label) for label in range(10)] if column == 0 else [""] * 10, fontsize=8)
        axes.axvline(len(names) - 1.5, color="#1d2433", linewidth=1)
        winner = values[:, -1].argmax().item()
        corner = (len(names) - 1.5, winner - 0.5)
        axes.add_patch(rectangle(corner, 1, 1, fill=False, edgecolor="#1d2433", linewidth=1.6))
        tidy(axes, x="degree", y="class" if column == 0 else "", grid=False)
    figure.colorbar(image, ax=panels[1, :], fraction=0.02, pad=0.01, label="contribution").ax.tick_params(labelsize=7)
    return figure_svg(
        figure,
        f"The scores of {outcome.contender.label} for five test digits, split into what degree 0, 1, 2, ... of the "
        f"polynomial adds to each class (red for, blue against; one scale for all). The split is exact: the columns "
        f"add up to the last, whose largest entry, framed, is the prediction.",
        alt="Contribution of each degree to each class for five digits",
    )


def _coefficient_maps(outcome: Outcome, digits: Digits) -> str:
    """For each class the coefficients of degree 1, and the pattern that degree 2 weighs most, both with their signs."""
    linear, quadratic = low_degrees(outcome.module, torch.zeros_like(digits.train[0][0]))
    values, vectors = torch.linalg.eigh(quadratic)
    figure, panels = new_figure(10, 3.0, nrows=2, ncols=10)
    for label in range(10):
        largest = int(values[label].abs().argmax())
        pattern = vectors[label, :, largest]
        pattern = pattern * pattern[pattern.abs().argmax()].sign()  # an eigenvector has no sign of its own
        sign = "+" if values[label, largest] > 0 else "−"
        for axes, image, title in (
            (panels[0, label], linear[label], f"a {label}"),
            (panels[1, label], pattern, f"{sign} (pattern)²"),
        ):
            size = image.abs().max().item()
            axes.imshow(image.reshape(8, 8).numpy(), cmap="RdBu_r", vmin=-size, vmax=size)
            axes.set_title(title, fontsize=8)
            axes.set_xticks([])
            axes.set_yticks([])
    panels[0, 0].set_ylabel("degree 1", fontsize=8)
    panels[1, 0].set_ylabel("degree 2", fontsize=8)
    return figure_svg(
        figure,
        f"Coefficients of {outcome.contender.label} with their signs, red positive and blue negative. Above, what "
        f"ink in a pixel adds to the class by itself. Below, of the products of two pixels, the pattern that weighs "
        f"most: how well the image matches it, squared, is added (+) or subtracted (−).",
        alt="Signed coefficient maps of degree 1 and the leading pattern of degree 2 for each digit class",
    )


def low_degrees(module: torch.nn.Module, zero: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The coefficients of degree 1, (classes, pixels), and of degree 2, (classes, pixels, pixels), symmetric.

    They are the gradient and half the Hessian at zero, exact for a polynomial.
    """

    def scores(image: torch.Tensor) -> torch.Tensor:
        return module(image[None])[0]

    first = torch.func.jacrev(scores)(zero)
    second = torch.func.jacfwd(torch.func.jacrev(scores))(zero) / 2
    return first.detach(), ((second + second.transpose(1, 2)) / 2).detach()


def _lesson(outcomes: Sequence[Outcome], best: Outcome, linear: Outcome, digits: Digits) -> str:
    """One sentence on the products, one on activations, one on what is inside."""
    relu = next(outcome for outcome in outcomes if outcome.contender.name == "ReLU-MLP")
    ahead = 100 * (best.mean - relu.mean)
    compared = (
        f"as well as a ReLU network of the same size (within {abs(ahead):.1f} points)"
        if abs(ahead) <= 100 * max(best.deviation, relu.deviation)
        else f"{abs(ahead):.1f} points {'better' if ahead > 0 else 'worse'} than a ReLU network of the same size"
    )
    with torch.no_grad():
        parts = orders(best.module, digits.test[0]).cumsum(0)
    right = [(part.argmax(1) == digits.test[1]).double().mean().item() for part in parts]
    cut = f"cut off after degree 1, the same polynomial is right for {100 * right[1]:.1f} % of the test digits"
    return (
        f"Multiplying by the input again is enough to learn: {best.contender.label} does {compared} and "
        f"{100 * (best.mean - linear.mean):.1f} points better than a linear model, without an activation function. "
        f"What it learnt is in the products: {cut}, and with all degrees for {100 * right[-1]:.1f} %."
    )
