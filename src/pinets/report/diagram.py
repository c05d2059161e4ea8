"""Pictures of polynomials: the slots of every step as an SVG, drawn from the modules themselves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html import escape

from torch import nn

from pinets.polynomial import Polynomial, Step

__all__ = ["diagram"]

_INK, _BOX, _EDGE, _INPUT, _TIMES, _PLUS = "#1f2933", "#eef2f7", "#9aa5b1", "#2b6cb0", "#c05621", "#2f855a"
_RAIL, _LINE, _CARRY = 34, 150, 196  # heights: the input, the state, what is carried over
_ROW = 232  # height of one polynomial
_MOST_NAMES = 3  # names of layers in a box


def diagram(network: nn.Module) -> str:
    """Draw the polynomials in a network: input above, state from left to right, one column for each step.

    A polynomial is drawn whole, a product of polynomials (``nn.Sequential``) one below the other. Of any other network
    every kind of step it has is drawn once, with how often it occurs.

    Args:
        network: The network.

    Returns:
        The text of an SVG file.

    Example:
        >>> from pinets.layers import CCP
        >>> diagram(CCP(4, 2, rank=3, order=3)).startswith("<svg")
        True
    """
    if isinstance(network, Polynomial):
        rows = [_polynomial(network, "")]
    elif isinstance(network, nn.Sequential) and any(isinstance(part, Polynomial) for part in network):
        parts = [part for part in network if isinstance(part, Polynomial)]
        rows = [_polynomial(part, f"polynomial {number} of {len(parts)}") for number, part in enumerate(parts, 1)]
    else:
        rows = _kinds_of_steps(network)
    if not rows:
        raise ValueError(f"{type(network).__name__} has no polynomial and no step to draw")
    width = max(row.x for row in rows) + 16
    body = "".join(f'<g transform="translate(0 {_ROW * number})">{row.text}</g>' for number, row in enumerate(rows))
    style = (
        f"text{{font:13px system-ui,sans-serif;fill:{_INK};text-anchor:middle}}"
        f"path{{fill:none;stroke:{_INK};stroke-width:1.4}}"
        f"rect{{fill:{_BOX};stroke:{_EDGE}}}"
        "circle{fill:white;stroke-width:2}"
        f".z{{stroke:{_INPUT}}}text.z{{stroke:none;fill:{_INPUT};font-style:italic}}text.small{{font-size:11px}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_ROW * len(rows)}" width="{width}" '
        f'height="{_ROW * len(rows)}" role="img" aria-label="The slots of {escape(type(network).__name__)}">'
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M1 1L7 4L1 7" style="stroke:{_INK}"/></marker></defs><style>{style}</style>'
        f'<rect width="100%" height="100%" style="fill:white;stroke:none"/>{body}</svg>\n'
    )


@dataclass
class _Row:
    """A drawing that grows to the right."""

    x: float = 16
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def write(self, x: float, y: float, text: str, kind: str = "") -> None:
        if text:
            self.parts.append(f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(text)}</text>')

    def path(self, points: str, kind: str = "", *, tip: bool = True) -> None:
        end = ' marker-end="url(#tip)"' if tip else ""
        self.parts.append(f'<path d="{points}" class="{kind}"{end}/>')

    def box(self, x: float, y: float, label: str) -> None:
        """A labelled box around (x, y)."""
        half = _half_width(label)
        self.parts.append(f'<rect x="{x - half:.0f}" y="{y - 15:.0f}" rx="6" width="{2 * half:.0f}" height="30"/>')
        self.write(x, y + 4.5, label)

    def node(self, x: float, sign: str, color: str) -> None:
        self.parts.append(f'<circle cx="{x:.0f}" cy="{_LINE}" r="12" style="stroke:{color}"/>')
        self.write(x, _LINE + 5, sign)

    def along(self, module: nn.Module) -> None:
        """A box on the state's line, unless the module is the identity."""
        label = _label(module)
        if label:
            half = _half_width(label)
            self.path(f"M{self.x} {_LINE}h22")
            self.box(self.x + 22 + half, _LINE, label)
            self.x += 22 + 2 * half


def _half_width(label: str) -> float:
    """Half the width of a labelled box; without a label, of the room left for a line."""
    return 4.0 * len(label) + 10 if label else 12


def _polynomial(polynomial: Polynomial, title: str) -> _Row:
    row = _Row()
    row.write(row.x + 6, _RAIL + 5, "z", "z")
    begin = row.x + 16
    label = _label(polynomial.start)
    half = _half_width(label)
    row.x = begin + 30 + half
    row.path(f"M{row.x} {_RAIL}V{_LINE - (15 if label else 0)}", "z", tip=bool(label))
    if label:
        row.box(row.x, _LINE, label)
        row.x += half
    last = row.x - (half if label else 0)
    for number, step in enumerate(polynomial.steps, 2):
        subscript = str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
        last = _step(row, step, "x₁" if number == 2 else "", f"x{subscript}")
    row.path(f"M{begin} {_RAIL}H{last:.0f}", "z", tip=False)
    row.along(polynomial.head)
    row.path(f"M{row.x} {_LINE}h34")
    row.x += 38
    if title:
        row.write(row.x / 2, _ROW - 6, title, "small")
    return row


def _step(row: _Row, step: Step, before: str, after: str) -> float:
    """One column: the state runs along the line, the gate comes down from the input; returns where it does."""
    begin = row.x
    row.path(f"M{row.x} {_LINE}h26", tip=False)
    row.write(row.x + 14, _LINE - 8, before, "small")
    split = row.x + 24
    row.x += 26
    row.along(step.body)
    after_body = row.x + 10
    gate = _label(step.gate)
    half = _half_width(gate)
    times = max(row.x + 36, begin + half + 40)
    row.path(f"M{row.x} {_LINE}H{times - 13:.0f}")
    row.path(f"M{times} {_RAIL}V{(_RAIL + _LINE) / 2 - 15 if gate else _LINE - 13:.0f}", "z", tip=True)
    if gate:
        row.box(times, (_RAIL + _LINE) / 2, gate)
        row.path(f"M{times} {(_RAIL + _LINE) / 2 + 15:.0f}V{_LINE - 13}")
    row.node(times, "×", _TIMES)
    row.x = times + 12
    row.along(step.norm)
    if step.carry:
        plus = row.x + 40
        row.path(f"M{row.x} {_LINE}H{plus - 13:.0f}")
        row.node(plus, "+", _PLUS)
        starts = {"state": split, "body": after_body, "gate": times}
        for depth, (source, operator) in enumerate(step.carry.items()):
            start, label = starts[source], _label(operator)
            if source == "gate":
                level = _LINE - 32.0
                row.path(f"M{start:.0f} {level:.0f}H{plus:.0f}V{_LINE - 13}")
            else:
                level = _CARRY + 16.0 * depth
                row.path(f"M{start:.0f} {_LINE}V{level:.0f}H{plus:.0f}V{_LINE + 13}")
            if label:
                row.box((start + plus) / 2, level, label)
        row.x = plus + 12
    row.path(f"M{row.x} {_LINE}h30", tip=False)
    row.write(row.x + 18, _LINE - 8, after, "small")
    row.x += 30
    return times


def _kinds_of_steps(network: nn.Module) -> list[_Row]:
    """Each kind of step once; two steps are of a kind where all of their slots have the same labels."""
    steps = [module for module in network.modules() if isinstance(module, Step)]
    kinds = Counter(map(_kind, steps))
    rows = []
    for kind, count in kinds.items():
        step = next(step for step in steps if _kind(step) == kind)
        row = _Row()
        row.write(row.x + 6, _RAIL + 5, "z", "z")
        row.write(row.x + 6, _LINE + 5, "x", "")
        row.x += 16
        begin = row.x
        times = _step(row, step, "", "")
        row.path(f"M{begin} {_RAIL}H{times:.0f}", "z", tip=False)
        row.path(f"M{row.x} {_LINE}h20")
        row.x += 24
        row.write(max(row.x / 2, 60), _ROW - 6, "once" if count == 1 else f"{count} times", "small")
        rows.append(row)
    return rows


def _kind(step: Step) -> tuple[str, ...]:
    carry = (f"{source}: {_label(operator)}" for source, operator in step.carry.items())
    return tuple(type(slot).__name__ for slot in (step.gate, step.body, step.norm)) + tuple(carry)


def _label(module: nn.Module) -> str:
    """A short label of a module; empty for the identity."""
    if isinstance(module, nn.Identity):
        return ""
    if isinstance(module, nn.Sequential):
        names = [label.partition(" ")[0] for part in module if (label := _label(part))]
        return " · ".join(names if len(names) <= _MOST_NAMES else [*names[: _MOST_NAMES - 1], f"… {names[-1]}"])
    name = type(module).__name__.removeprefix("Parametrized")
    for wide, narrow in (("in_features", "out_features"), ("in_channels", "out_channels")):
        if hasattr(module, wide) and hasattr(module, narrow):
            return f"{name} {getattr(module, wide)}→{getattr(module, narrow)}"
    return name
