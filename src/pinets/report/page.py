"""One HTML file with everything in it: no script, no font, no picture comes from elsewhere."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Page", "Section", "code", "paragraph", "picture", "table", "tiles"]

_STYLE = """
:root { --ink: #1d2433; --soft: #5b6475; --line: #dfe3ea; --paper: #ffffff; --ground: #f4f6f9; --accent: #3556c9; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", sans-serif; }
header, main, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.75rem; } h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; }
header p { color: var(--soft); font-size: 1.1rem; max-width: 48rem; margin: 0 0 1rem; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 12px; padding: 1.4rem 1.6rem;
  margin: 1.25rem 0; }
h2 { font-size: 1.25rem; margin: 0 0 .4rem; } section p { max-width: 48rem; margin: .4rem 0 .9rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .8rem; text-align: right; white-space: nowrap; }
thead th { white-space: normal; } th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; } thead tr { border-bottom: 2px solid var(--ink); }
tbody tr + tr { border-top: 1px solid var(--line); } tbody tr.strong { font-weight: 650; background: #eef2fe; }
figure { margin: .5rem 0 0; } figure svg { max-width: 100%; height: auto; display: block; margin: 0 auto; }
figcaption { color: var(--soft); font-size: .93rem; margin-top: .5rem; max-width: 48rem; }
code, pre { font: .92em/1.5 ui-monospace, Menlo, Consolas, monospace; }
pre { background: var(--ground); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem;
  overflow-x: auto; }
table.heat { width: auto; } table.heat td { text-align: center; min-width: 2.4rem; border: 1px solid var(--paper); }
table.heat th, table.heat td { padding: .3rem .45rem; font-size: .86rem; }
table.heat th { text-align: right; } .tiles { display: flex; flex-wrap: wrap; gap: 1rem; }
.tiles figure { width: 8.2rem; margin: 0; } .tiles img { width: 8.2rem; image-rendering: pixelated; display: block; }
img.whole { max-width: 100%; min-width: 20rem; image-rendering: pixelated; }
.stages { display: grid; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr)); gap: 1rem; }
.stages img { width: 100%; } circle.hint { fill: transparent; } circle.hint:hover { fill: #1d2433; }
footer { color: var(--soft); font-size: .9rem; padding-bottom: 3rem; }
"""


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{html.escape(text)}</p>"


def code(text: str) -> str:
    """Text as it is, in the font of code."""
    return f"<pre><code>{html.escape(text)}</code></pre>"


def picture(png: Path | bytes, caption: str) -> str:
    """A PNG file, or its content, with its caption; the fragment holds it."""
    data = base64.b64encode(png if isinstance(png, bytes) else png.read_bytes()).decode()
    image = f'<img class=whole src="data:image/png;base64,{data}" alt="{html.escape(caption)}">'
    return f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>"


def tiles(images: Sequence[tuple[bytes, str]]) -> str:
    """Small PNG pictures side by side, each with its caption."""
    shown = (
        f'<figure><img src="data:image/png;base64,{base64.b64encode(data).decode()}" alt="{html.escape(caption)}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        for data, caption in images
    )
    return f"<div class=tiles>{''.join(shown)}</div>"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, strong: Sequence[int] = ()) -> str:
    """A table of texts; the rows numbered in ``strong`` stand out."""
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(
        f"<tr{' class=strong' if number in strong else ''}>"
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
        + "</tr>"
        for number, row in enumerate(rows)
    )
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


class Section:
    """A title and the HTML fragments below it."""

    def __init__(self, title: str, *content: str) -> None:
        self.title, self.content = title, content


@dataclass
class Page:
    """A page of sections, written top to bottom.

    Example:
        >>> page = Page("Title", "What this is.")
        >>> page.section("First", paragraph("Some text, with <angle brackets>."))
        >>> "&lt;angle brackets&gt;" in page.render()
        True
    """

    title: str
    lead: str
    sections: list[str] = field(default_factory=list)

    def section(self, title: str, *content: str) -> None:
        """Add a section made of HTML fragments."""
        self.sections.append(f"<section><h2>{html.escape(title)}</h2>{''.join(content)}</section>")

    def render(self, footer: str = "") -> str:
        return (
            "<!doctype html><html lang=en><head><meta charset=utf-8>"
            "<meta name=viewport content='width=device-width, initial-scale=1'>"
            f"<title>{html.escape(self.title)}</title><style>{_STYLE}</style></head><body>"
            f"<header><h1>{html.escape(self.title)}</h1>{paragraph(self.lead)}</header>"
            f"<main>{''.join(self.sections)}</main><footer>{paragraph(footer) if footer else ''}</footer></body></html>"
        )
