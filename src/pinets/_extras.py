"""Imports that wait: of optional dependencies, and of the public names of a package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["lazily", "require"]


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


def lazily(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package, so that importing it costs next to nothing.

    Args:
        package: The package's ``__name__``.
        homes: Public names by the module that has them.

    Example:
        >>> __getattr__, __dir__ = lazily("pinets", {"math": ("sqrt",)})
        >>> __getattr__("sqrt")(4.0)
        2.0
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home_of[name]), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return get, names
