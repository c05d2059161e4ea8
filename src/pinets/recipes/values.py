"""Recipes as data: to and from JSON, and typed changes such as ``optimizer.lr=0.05`` from a command line.

A recipe is a tree of frozen dataclasses. What a key may hold is what its annotation says; a key that does not exist is
answered with the nearest one that does.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pinets._nearest import did_you_mean

__all__ = ["RecipeError", "from_json", "parse", "set_values", "to_json"]

T = TypeVar("T")


class RecipeError(ValueError):
    """A key of a recipe that does not exist, or a value it cannot hold."""


def to_json(value: Any) -> Any:
    """Plain data that :func:`from_json` turns back; each dataclass says its ``kind``.

    >>> from pinets.train.schedules import MultiStep
    >>> to_json(MultiStep((40, 60)))
    {'kind': 'MultiStep', 'milestones': [40, 60], 'gamma': 0.1}
    """
    if dataclasses.is_dataclass(value):
        fields = {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def from_json(expected: Any, content: Any, key: str = "recipe") -> Any:
    """Build a value of the expected type from what :func:`to_json` gave; refuse what does not fit, naming the key.

    >>> from pinets.train.schedules import MultiStep
    >>> from_json(MultiStep, {"kind": "MultiStep", "milestones": [40, 60], "gamma": 0.1})
    MultiStep(milestones=(40.0, 60.0), gamma=0.1)
    """
    for option in sorted(_options(expected), key=lambda option: option is not type(None)):  # "none" before any text
        if dataclasses.is_dataclass(option):
            assert isinstance(option, type)
            if isinstance(content, dict) and content.get("kind") == option.__name__:
                hints = get_type_hints(option)
                given = {name: item for name, item in content.items() if name != "kind"}
                for name in given:
                    _require_known(name, hints, key)
                return option(**{name: from_json(hints[name], item, f"{key}.{name}") for name, item in given.items()})
            continue
        fits, value = _convert(option, content)
        if fits:
            return value
    raise RecipeError(f"{key} must be {_describe(expected)}, got {content!r}")


def set_values(recipe: T, changes: Iterable[str]) -> T:
    """Apply changes of the form ``key=value``, from left to right.

    >>> from pinets.train.optimizers import SGD
    >>> set_values(SGD(lr=0.1), ["momentum=0.9", "nesterov=true"])
    SGD(lr=0.1, momentum=0.9, weight_decay=0.0, nesterov=True)
    >>> set_values(SGD(lr=0.1), ["momentun=0.9"])
    Traceback (most recent call last):
    pinets.recipes.values.RecipeError: there is no key 'momentun'; did you mean 'momentum'?
    >>> set_values(SGD(lr=0.1), ["lr=fast"])
    Traceback (most recent call last):
    pinets.recipes.values.RecipeError: lr must be a number, got 'fast'
    """
    for change in changes:
        key, separator, text = change.partition("=")
        if not separator or not key.strip():
            raise RecipeError(f"a change must have the form key=value, got {change!r}")
        recipe = _set(recipe, key.strip().split("."), text.strip(), "")
    return recipe


def _set(value: Any, path: list[str], text: str, done: str) -> Any:
    name, *rest = path
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise RecipeError(f"{done} is a single value: it has no key {name!r}")
    hints = get_type_hints(type(value))
    if name not in hints and hasattr(value, "set_option"):
        return value.set_option(".".join(path), text, done)
    _require_known(name, hints, done, deeper=_inside(value, name))
    key, old = f"{done}.{name}" if done else name, getattr(value, name)
    try:
        new = _set(old, rest, text, key) if rest else parse(hints[name], text, key, old)
        return dataclasses.replace(value, **{name: new})
    except RecipeError:  # names its key already
        raise
    except (TypeError, ValueError) as error:  # the dataclass knows more than its types: ranges, for example
        raise RecipeError(f"{key}: {error}") from error


def parse(expected: Any, text: str, key: str, old: Any = None) -> Any:
    """Read a value of the expected type from text; ``old`` gives what a group of values needs and is not told.

    >>> parse(tuple[int, ...], "2,2,1,1", "model.depths")
    (2, 2, 1, 1)
    >>> parse(int | None, "none", "data.limit"), parse(str | None, "none", "metric")
    (None, None)
    """
    for option in sorted(_options(expected), key=lambda option: option is not type(None)):  # "none" before any text
        if dataclasses.is_dataclass(option):
            assert isinstance(option, type)
            if text == option.__name__:
                hints = get_type_hints(option)
                kept = {name: _first_fitting(kind, getattr(old, name, None)) for name, kind in hints.items()}
                return option(**{name: value for name, (fits, value) in kept.items() if fits and hasattr(old, name)})
        else:
            fits, value = _convert(option, _read(option, text))
            if fits:
                return value
    raise RecipeError(f"{key} must be {_describe(expected)}, got {text!r}")


def _read(expected: Any, text: str) -> Any:
    """What a text means where a value of a type is expected; the text itself where it means nothing there."""
    if expected is type(None):
        return None if text.lower() in ("none", "null") else text
    if expected is bool:
        return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(
            text.lower(), text
        )
    if expected in (int, float):
        try:
            return expected(text)
        except ValueError:
            return text
    if get_origin(expected) is tuple:
        items = [item.strip() for item in text.strip("()[] ").split(",") if item.strip()]
        return [_read(get_args(expected)[0], item) for item in items]
    return text


def _convert(expected: Any, value: Any) -> tuple[bool, Any]:
    """Whether a plain value fits a type, and the value as that type."""
    if expected is type(None):
        return value is None, None
    if expected is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number, float(value) if number else None
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    if expected in (bool, str) or dataclasses.is_dataclass(expected):
        return isinstance(value, expected), value
    if get_origin(expected) is Literal:
        return value in get_args(expected), value
    if get_origin(expected) is tuple and isinstance(value, list | tuple):
        kinds = get_args(expected)
        if kinds[-1] is Ellipsis:
            kinds = (kinds[0],) * len(value)
        parts = [_convert(kind, item) for kind, item in zip(kinds, value, strict=False)]
        return len(kinds) == len(value) and all(fits for fits, _ in parts), tuple(item for _, item in parts)
    if get_origin(expected) in (dict, Mapping) and isinstance(value, Mapping):
        kind = get_args(expected)[1]
        converted = {name: _first_fitting(kind, item) for name, item in value.items()}
        return all(fits for fits, _ in converted.values()), {name: item for name, (_, item) in converted.items()}
    return False, None


def _first_fitting(expected: Any, value: Any) -> tuple[bool, Any]:
    return next((found for found in (_convert(kind, value) for kind in _options(expected)) if found[0]), (False, None))


def _options(expected: Any) -> tuple[Any, ...]:
    return get_args(expected) if get_origin(expected) in (Union, types.UnionType) else (expected,)


def _describe(expected: Any) -> str:
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "none"}
    words = []
    for option in _options(expected):
        if option in names:
            words.append(names[option])
        elif dataclasses.is_dataclass(option):
            assert isinstance(option, type)
            words.append(f"{option.__name__} ({', '.join(field.name for field in dataclasses.fields(option))})")
        elif get_origin(option) is Literal:
            words += [repr(choice) for choice in get_args(option)]
        elif get_origin(option) is tuple:
            words.append(f"a list of values, each {_describe(get_args(option)[0])}")
        else:
            words.append(str(option))
    return " or ".join(words)


def _inside(value: Any, name: str) -> list[str]:
    """The keys of this name in the parts of a value, such as ``optimizer.lr`` for ``lr``."""
    parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return [
        f"{part}.{name}"
        for part, inner in parts.items()
        if dataclasses.is_dataclass(inner) and name in get_type_hints(type(inner))
    ]


def _require_known(name: str, known: Iterable[str], inside: str, deeper: Sequence[str] = ()) -> None:
    if name not in known:
        prefix = f"{inside}." if inside else ""
        near = did_you_mean(prefix + name, [prefix + other for other in known])
        if deeper:
            near = f"; did you mean {' or '.join(repr(prefix + other) for other in deeper)}?"
        raise RecipeError(f"there is no key {prefix + name!r}{near}")
