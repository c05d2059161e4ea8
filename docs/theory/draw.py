"""Draws the pictures of theory.md: ``python docs/theory/draw.py``."""

from pathlib import Path

from torch import nn

from pinets import CCP, NCP, NCPSkip
from pinets.report.diagram import diagram

SIZES = {"rank": 8, "order": 3}
POLYNOMIALS = {
    "ccp": CCP(16, 4, **SIZES),
    "ncp": NCP(16, 4, **SIZES),
    "ncp-skip": NCPSkip(16, 4, **SIZES),
    "product": nn.Sequential(NCP(16, 16, rank=8, order=2), NCP(16, 4, rank=8, order=2)),
}

if __name__ == "__main__":
    for name, polynomial in POLYNOMIALS.items():
        Path(__file__).with_name(f"{name}.svg").write_text(diagram(polynomial), encoding="utf-8")
