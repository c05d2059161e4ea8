"""Dataclasses from JSON that anybody may have changed: every value has the type that its annotation says."""

from __future__ import annotations

import dataclasses
import sys
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pinets.deploy.encrypted.errors import PlanError

__all__ = ["build"]

T = TypeVar("T")

_NAMES = {int: "a whole number", bool: "true or false"}


def build(kind: type[T], content: Any, name: str) -> T:
    """A dataclass from a JSON object, or an error that names the value that does not fit.

    >>> from pinets.deploy.encrypted.latency import InputLayout
    >>> build(InputLayout, {"period": 3, "copies": 2, "shift": "1"}, "layout")
    Traceback (most recent call last):
    pinets.deploy.encrypted.errors.PlanError: shift of layout must be a whole number, got '1'
    """
    if not isinstance(content, Mapping):
        raise PlanError(f"{name} must be a JSON object, got {content!r}")
    hints = get_type_hints(kind)
    if wrong := sorted(hints.keys() ^ content.keys()):
        raise PlanError(f"{name} is not complete, or has more than it should: {', '.join(map(repr, wrong))}")
    return kind(**{key: _value(hints[key], content[key], f"{key} of {name}") for key in hints})


def _value(expected: Any, value: Any, name: str) -> Any:
    if isinstance(expected, types.UnionType):  # with None, there is no other here
        if value is None:
            return None
        (expected,) = (option for option in get_args(expected) if option is not type(None))
    if dataclasses.is_dataclass(expected):
        assert isinstance(expected, type)
        return build(expected, value, name)
    if get_origin(expected) is tuple and isinstance(value, list):
        return tuple(_value(get_args(expected)[0], item, f"each of the {name}") for item in value)
    if get_origin(expected) is Literal:
        fits, rule = value in get_args(expected), f"one of {', '.join(map(repr, get_args(expected)))}"
    elif expected is float:
        fits, rule = type(value) in (int, float) and abs(value) <= sys.float_info.max, "a finite number"
    else:  # exactly: to isinstance, True is a whole number
        fits, rule = type(value) is expected, _NAMES.get(expected, "a list")
    if not fits:
        raise PlanError(f"{name} must be {rule}, got {value!r}")
    return float(value) if expected is float else value
