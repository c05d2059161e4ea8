"""Tables of results: for the terminal, and for Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pinets.report.runs import RecipeSummary

__all__ = ["aligned", "markdown_table", "metric_title", "plus_minus", "protocols", "result_rows", "text_table"]

_ABBREVIATIONS = ("far", "fid", "is", "kid", "tar")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of columns: the first aligned left, the others, which are figures, right.

    >>> aligned([["model", "error"], ["ResNet18", "5.5"]])
    ['model     error', 'ResNet18    5.5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown, whose first row is the header.

    >>> markdown_table([["model", "error"], ["ResNet18", "5.5"]])
    ['| model | error |', '| --- | --- |', '| ResNet18 | 5.5 |']
    """
    header, *others = rows
    return ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *others)]


def metric_title(name: str) -> str:
    """A metric as tables and figures call it, from its name in the logs.

    >>> metric_title("error_mm"), metric_title("fid"), metric_title("tar_at_far_0.01")
    ('error, mm', 'FID', 'TAR at FAR 0.01')
    """
    words = name.removesuffix("_mm").split("_")
    title = " ".join(word.upper() if word in _ABBREVIATIONS else word for word in words)
    return f"{title}, mm" if name.endswith("_mm") else title


def plus_minus(mean: float, deviation: float = 0.0) -> str:
    """A mean with as many digits as its deviation allows: down to the second digit of the deviation, but at most four.

    >>> plus_minus(93.5063, 4.9273), plus_minus(122.3772, 16.5394), plus_minus(45.3858, 0.0167), plus_minus(0.94)
    ('93.5 ± 4.9', '122 ± 17', '45.39 ± 0.02', '0.9400')
    """
    if not (deviation > 0 and math.isfinite(deviation) and math.isfinite(mean)):
        whole = abs(mean) >= 10_000 or mean.is_integer()  # a count
        return f"{mean:,.0f}" if whole else f"{mean:#.4g}".rstrip(".")
    decimals = 1 - math.floor(math.log10(deviation))
    if mean != 0:
        decimals = min(decimals, 3 - math.floor(math.log10(abs(mean))))
    return f"{mean:.{max(0, decimals)}f} ± {deviation:.{max(0, decimals)}f}"


def result_rows(summaries: Sequence[RecipeSummary]) -> list[list[str]]:
    """The cells of a table, the header first; a metric that is zero in all runs of all recipes is left out."""
    names = dict.fromkeys(name for summary in summaries for name in summary.metrics)
    shown = [
        name for name in names if any(summary.metrics.get(name, (0.0, 0.0)) != (0.0, 0.0) for summary in summaries)
    ]
    rows = [["recipe", "runs", "parameters", "minutes", *map(metric_title, shown)]]
    for summary in summaries:
        cells = [plus_minus(*summary.metrics[name]) if name in summary.metrics else "-" for name in shown]
        rows.append([summary.name, str(summary.runs), f"{summary.parameters:,}", f"{summary.seconds / 60:.1f}", *cells])
    return rows


def text_table(summaries: Sequence[RecipeSummary]) -> str:
    """A table for the terminal.

    >>> one = RecipeSummary("resnet18", 3, 11173962, 600.0, {"accuracy": (0.9412, 0.0011)})
    >>> print(text_table([one]))
    recipe    runs  parameters  minutes         accuracy
    resnet18     3  11,173,962     10.0  0.9412 ± 0.0011
    """
    return "\n".join([*aligned(result_rows(summaries)), *protocols(summaries)])


def protocols(summaries: Sequence[RecipeSummary]) -> list[str]:
    """How the metrics were measured, each protocol once."""
    return [f"measured by {told}" for told in dict.fromkeys(summary.protocol for summary in summaries) if told]
