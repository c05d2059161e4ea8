"""Building blocks of every report: figures, pages, tables, and the runs they are about."""

from pinets.report.figures import COLORS, band, drawing_png, drawing_svg, figure_svg, new_figure, tidy
from pinets.report.page import Page, Section, code, paragraph, picture, table, tiles
from pinets.report.runs import Groups, RecipeSummary, deviation, group_runs, summarize
from pinets.report.tables import aligned, markdown_table, metric_title, plus_minus, protocols, result_rows, text_table
from pinets.report.training import curve_drawing, curve_figure, curves, write_report

__all__ = [
    "COLORS",
    "Groups",
    "Page",
    "RecipeSummary",
    "Section",
    "aligned",
    "band",
    "code",
    "curve_drawing",
    "curve_figure",
    "curves",
    "deviation",
    "drawing_png",
    "drawing_svg",
    "figure_svg",
    "group_runs",
    "markdown_table",
    "metric_title",
    "new_figure",
    "paragraph",
    "picture",
    "plus_minus",
    "protocols",
    "result_rows",
    "summarize",
    "table",
    "text_table",
    "tidy",
    "tiles",
    "write_report",
]
