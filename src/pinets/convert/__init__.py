"""Turn a residual network into a Π-net that computes the same function at first."""

from pinets.convert.blocks import NotConvertibleError, Parts, register_block
from pinets.convert.depth import drop_blocks
from pinets.convert.pinet import to_pinet
from pinets.convert.report import Conversion, Report

__all__ = ["Conversion", "NotConvertibleError", "Parts", "Report", "drop_blocks", "register_block", "to_pinet"]
