"""Draws how Π-nets compare with their baselines, in the paper and here: ``python docs/results/glance.py``.

Our figures are read from the tables of the pages beside this file.
"""

import re
from pathlib import Path
from typing import NamedTuple

from pinets.report import COLORS, drawing_svg, new_figure, tidy

HERE = Path(__file__).parent


class Pair(NamedTuple):
    """A Π-net, the baseline it is compared with, and the paper's errors of both where it gives them."""

    label: str
    page: str
    baseline: str
    ours: str
    metric: str
    paper: tuple[float, float] | None = None  # baseline, Π-net


PAIRS = [
    Pair("clothes: NCP vs linear generator", "fashion-medium", "linear", "NCP", "FID small"),
    Pair("faces: NCP vs linear generator", "yaleb-small", "linear", "NCP", "FID small"),
    Pair("bodies in motion: NCP vs spiral network", "motions-medium", "Spiral", "NCP, order 2", "error, mm"),
    Pair(
        "bodies in motion: NCP vs spiral network with ELU", "motions-medium", "Spiral, ELU", "NCP, order 2", "error, mm"
    ),
    Pair(
        "the same, equal parameters: simple polynomial vs ELU",
        "motions_parameters-medium",
        "Spiral, ELU, 22 features for 16",
        "simple, order 2, 22 features for 16",
        "error, mm",
    ),
    *(
        Pair(
            f"the same, {numbers} numbers for 16: NCP vs spiral network",
            "motions_latent-medium",
            f"Spiral, {numbers} numbers",
            f"NCP, order 2, {numbers} numbers",
            "error, mm",
        )
        for numbers in (8, 32)
    ),
    Pair("heads in motion: NCP vs spiral network", "coma-medium", "Spiral", "NCP, order 2", "error, mm"),
    Pair("heads in motion: NCP vs spiral network with ELU", "coma-medium", "Spiral, ELU", "NCP, order 2", "error, mm"),
    Pair("CIFAR-10: NCP vs SNGAN", "sngan-medium", "SNGAN", "NCP", "FID", (19.06, 17.65)),
    Pair("CIFAR-10: ProdPoly vs SNGAN", "sngan-medium", "SNGAN", "ProdPoly", "FID", (19.06, 16.79)),
    Pair("faces: ProdPoly vs StyleGAN", "stylegan-medium", "StyleGAN", "ProdPoly-StyleGAN", "FID", (7.15, 6.82)),
    Pair(
        "CIFAR-10: Prodpoly vs ResNet18",
        "cifar10-medium",
        "ResNet18, 12 epochs",
        "Prodpoly-ResNet, 12 epochs",
        "accuracy",
        (5.5, 5.5),
    ),
    Pair("speech: Prodpoly vs ResNet34", "speech-medium", "ResNet34", "Prodpoly-ResNet", "accuracy", (4.9, 4.9)),
    Pair(
        "LFW: Prodpoly vs IR-ResNet", "faces-small", "IR-ResNet", "Prodpoly-IR-ResNet", "view1 accuracy", (0.267, 0.167)
    ),
]


def read(page: str, network: str, metric: str) -> tuple[float, float]:
    """The error of a network and its deviation, from the first table of a page; an accuracy counts as 1 - accuracy."""
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (HERE / f"{page}.md").read_text().splitlines()
        if line.startswith("|")
    ]
    (row,) = [row for row in rows if row[0] == network and len(row) == len(header)]
    mean, deviation = re.fullmatch(r"([\d.]+)(?: ± ([\d.]+))?", row[header.index(metric)]).groups()
    error = 1 - float(mean) if metric.endswith("accuracy") else float(mean)
    return error, float(deviation or 0)


def main() -> None:
    figure, axes = new_figure(9.0, 5.8)
    places = range(len(PAIRS), 0, -1)
    for place, pair in zip(places, PAIRS, strict=True):
        (base, base_deviation), (error, deviation) = (
            read(pair.page, name, pair.metric) for name in (pair.baseline, pair.ours)
        )
        ratio = error / base
        spread = ratio * ((deviation / error) ** 2 + (base_deviation / base) ** 2) ** 0.5
        axes.plot([1, ratio], [place, place], color="#dfe3ea", linewidth=4, zorder=1, solid_capstyle="butt")
        look = {"color": COLORS[0], "marker": "o", "markersize": 8, "capsize": 3, "zorder": 3}
        axes.errorbar(ratio, place, xerr=spread or None, label="here" if place == len(PAIRS) else None, **look)
        if pair.paper:
            first, second = pair.paper
            label = "paper, full scale" if pair.label.endswith("NCP vs SNGAN") else None
            axes.plot(
                second / first, place, "D", color=COLORS[1], fillstyle="none", markersize=8, zorder=4, label=label
            )
    axes.axvline(1, color="#5b6170", linewidth=1)
    tidy(axes, x="error of the Π-net / error of its baseline (below 1: better)", grid=False)
    axes.set_yticks(places, [pair.label for pair in PAIRS])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, None)
    axes.legend(frameon=False, loc="lower left")
    (HERE / "glance.svg").write_text(drawing_svg(figure))


if __name__ == "__main__":
    main()
