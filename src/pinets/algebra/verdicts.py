"""Verdicts about boxes, and the file that keeps them: one JSON line each."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from pinets._files import write_bytes

__all__ = ["Status", "Verdict", "open_journal"]

Status = Literal["proven", "refuted", "open"]
Write = Callable[[int, "Verdict"], None]


@dataclass(frozen=True)
class Verdict:
    """The decision about one box.

    Attributes:
        status: ``proven``: the label has the largest output all over the box. ``refuted``: not at ``counterexample``.
            ``open``: neither was found in time.
        margin: By how much the label's output exceeds every other one: at least all over the box, or, where refuted,
            at the counterexample.
        seconds: Computing time.
        boxes: Parts of the box that were bounded.
        counterexample: An input of the box, in the network's own precision; None unless refuted.
    """

    status: Status
    margin: float
    seconds: float
    boxes: int
    counterexample: Tensor | None = None

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain data."""
        point = self.counterexample
        return {
            "status": self.status,
            "margin": self.margin if abs(self.margin) < torch.inf else None,  # JSON has no infinity
            "seconds": round(self.seconds, 4),
            "boxes": self.boxes,
            "counterexample": None if point is None else point.flatten().tolist(),
        }


def open_journal(path: str | Path | None, key: str, example: Tensor) -> tuple[dict[int, Verdict], Write]:
    """The verdicts that a file holds already, and a function that adds one to it.

    Args:
        path: The file; None for none.
        key: The checksum of network, boxes and labels. A file with another key is refused.
        example: An input, for the shape and the type of counterexamples.
    """
    if path is None:
        return {}, lambda row, verdict: None
    file, known = Path(path), {}
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    try:
        found = [json.loads(line) for line in lines if line.endswith("}")]  # the last one may be incomplete
        if found and found[0]["key"] != key:
            raise ValueError(f"{file} holds verdicts about another network or other boxes; name another file")
        known = {int(line["row"]): _from_json(line, example) for line in found[1:]}
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{file} is not a file of verdicts: {type(error).__name__} {error}") from error
    if not found:
        write_bytes(file, json.dumps({"key": key}).encode() + b"\n")
    elif not lines[-1].endswith("}"):
        write_bytes(file, "\n".join([*lines[:-1], ""]).encode())

    def write(row: int, verdict: Verdict) -> None:
        with file.open("a", encoding="utf-8") as end:
            end.write(json.dumps({"row": row, **verdict.to_json()}) + "\n")

    return known, write


def _from_json(line: dict[str, Any], example: Tensor) -> Verdict:
    point, infinity = line["counterexample"], torch.inf if line["status"] == "proven" else -torch.inf
    return Verdict(
        line["status"],
        infinity if line["margin"] is None else line["margin"],
        line["seconds"],
        line["boxes"],
        None if point is None else torch.tensor(point, dtype=example.dtype).reshape(example.shape[1:]),
    )
