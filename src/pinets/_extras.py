"""Importing what an extra brings, with an error that says which extra to install."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["require"]


def require(module: str, extra: str) -> Any:
    """Import an optional dependency, or say how to get it.

    >>> require("math", extra="train").sqrt(4)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != missing:
            raise  # the dependency is there, and broken: its own error says more
        raise ModuleNotFoundError(
            f'this part of pinets needs {missing}; install it with: pip install "pinets[{extra}]"', name=error.name
        ) from error
