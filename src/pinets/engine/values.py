"""Typed changes of a recipe, such as ``optimizer.lr=0.05`` from a command line.

A recipe is a tree of frozen dataclasses. What a key may hold is what its annotation says; a key that does not exist is
answered with the nearest one that does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args, get_type_hints

from pinets import _storage
from pinets._storage import describe_type, to_json, unknown_key

__all__ = ["RecipeError", "from_json", "parse", "set_values", "to_json"]

T = TypeVar("T")

_WORDS = {"none": None, "null": None, "true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class RecipeError(ValueError):
    """A key of a recipe that does not exist, or a value it cannot hold."""


def from_json(expected: Any, content: Any, key: str = "recipe") -> Any:
    """Build a value of the expected type from what :func:`to_json` gave; refuse what does not fit, naming the key.

    >>> from pinets.engine.optimization import MultiStep
    >>> from_json(MultiStep, {"kind": "MultiStep", "milestones": [40, 60], "gamma": 0.1})
    MultiStep(milestones=(40.0, 60.0), gamma=0.1)
    """
    try:
        return _storage.from_json(expected, content, key)
    except ValueError as error:
        raise RecipeError(str(error)) from error


def set_values(recipe: T, changes: Iterable[str]) -> T:
    """Apply changes of the form ``key=value``, from left to right.

    A part of another kind takes the values that it needs from the changes after it.

    >>> from pinets.engine.optimization import SGD
    >>> set_values(SGD(lr=0.1), ["momentum=0.9", "nesterov=true"])
    SGD(lr=0.1, momentum=0.9, weight_decay=0.0, nesterov=True)
    >>> set_values(SGD(lr=0.1), ["momentun=0.9"])
    Traceback (most recent call last):
    pinets.engine.values.RecipeError: there is no key 'momentun'; did you mean 'momentum'?
    >>> set_values(SGD(lr=0.1), ["lr=fast"])
    Traceback (most recent call last):
    pinets.engine.values.RecipeError: lr must be a number, got 'fast'
    """
    options: dict[str, list[str]] = {}  # the keys of options, by the part that has them
    pairs = list(map(_key_and_text, changes))
    for number, (key, text) in enumerate(pairs, start=1):
        recipe = _set(recipe, key.split("."), text, "", dict(pairs[number:]))
        if part := _part_with_options(recipe, key):
            options.setdefault(part, []).append(key)
    for part, keys in options.items():  # only now: they may fit each other alone
        try:
            getattr(recipe, part).check_options()
        except (TypeError, ValueError) as error:
            raise RecipeError(f"{', '.join(keys)}: {error}") from error
    return recipe


def _key_and_text(change: str) -> tuple[str, str]:
    key, separator, text = change.partition("=")
    if not separator or not key.strip():
        raise RecipeError(f"a change must have the form key=value, got {change!r}")
    return key.strip(), text.strip()


def _part_with_options(recipe: Any, key: str) -> str:
    """The part of a recipe whose option a key is, such as ``model`` for ``model.width``; empty for any other key."""
    part, _, name = key.partition(".")
    found = getattr(recipe, part, None)
    return part if hasattr(found, "check_options") and name not in get_type_hints(type(found)) else ""


def _set(value: Any, path: list[str], text: str, done: str, later: Mapping[str, str]) -> Any:
    name, *rest = path
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise RecipeError(f"{done} is a single value: it has no key {name!r}")
    hints = get_type_hints(type(value))
    if name not in hints and hasattr(value, "set_option"):
        return value.set_option(".".join(path), text, done)
    if name not in hints:
        raise RecipeError(_further_inside(value, name) or unknown_key(name, hints, done))
    key, old = f"{done}.{name}" if done else name, getattr(value, name)
    try:
        if rest and old is None and (kinds := _dataclasses(hints[name])):  # the part begins with this value
            if len(kinds) > 1:
                raise RecipeError(f"{key} is none: choose first what it is, {' or '.join(f'{key}={k}' for k in kinds)}")
            old = parse(hints[name], next(iter(kinds)), key, later={f"{key}.{'.'.join(rest)}": text, **later})
        new = _set(old, rest, text, key, later) if rest else parse(hints[name], text, key, old, later)
        return dataclasses.replace(value, **{name: new})
    except RecipeError:  # names its key already
        raise
    except (TypeError, ValueError) as error:  # the dataclass knows more than its types: ranges, for example
        raise RecipeError(f"{key}: {error}") from error


def _dataclasses(hint: Any) -> dict[str, type]:
    """The dataclasses a key may hold, by name."""
    options = (hint, *get_args(hint))
    return {
        option.__name__: option for option in options if isinstance(option, type) and dataclasses.is_dataclass(option)
    }


def _needed(part: type) -> list[str]:
    """The values of a part that have no default."""
    return [
        field.name
        for field in dataclasses.fields(part)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    ]


def _further_inside(value: Any, name: str) -> str:
    """The error about a key that a part of the value has, such as ``optimizer.lr`` for ``lr``; empty if none has."""
    parts = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    found = [
        repr(f"{part}.{name}")
        for part, inner in parts.items()
        if dataclasses.is_dataclass(inner) and name in get_type_hints(type(inner))
    ]
    return f"there is no key {name!r}; did you mean {' or '.join(found)}?" if found else ""


def parse(expected: Any, text: str, key: str, old: Any = None, later: Mapping[str, str] | None = None) -> Any:
    """Read a value of the expected type from text.

    The name of a dataclass makes one with the values of ``old`` that it can hold; others that it needs are among the
    changes that follow, ``later``.

    >>> parse(tuple[int, ...], "2,2,1,1", "model.depths")
    (2, 2, 1, 1)
    >>> parse(int | None, "none", "data.limit"), parse(str | None, "none", "metric")
    (None, None)
    """
    if (option := _dataclasses(expected).get(text)) is not None:
        hints = get_type_hints(option)
        kept = [name for name, hint in hints.items() if hasattr(old, name) and _fits(hint, getattr(old, name))]
        values = {name: getattr(old, name) for name in kept}
        for name in _needed(option):
            if name in values:
                continue
            inner = f"{key}.{name}"
            if later is None or inner not in later:
                raise RecipeError(f"{key}={text} needs {inner} as well: set it after {key}")
            values[name] = parse(hints[name], later[inner], inner)
        return option(**values)
    for reading in _readings(text):
        if _fits(expected, reading):
            return from_json(expected, reading)
    raise RecipeError(f"{key} must be {describe_type(expected)}, got {text!r}")


def _readings(text: str) -> Iterator[Any]:
    """All readings of a text: a word such as none, a number, a list of numbers, the text itself, a list of texts."""
    if text.lower() in _WORDS:
        yield _WORDS[text.lower()]
    yield from _numbers(text)
    items = [item.strip() for item in text.strip("()[] ").split(",") if item.strip()]
    yield [next(_numbers(item), item) for item in items]
    yield text
    yield items


def _numbers(text: str) -> Iterator[int | float]:
    for kind in (int, float):
        try:
            yield kind(text)
        except ValueError:
            continue


def _fits(expected: Any, value: Any) -> bool:
    try:
        _storage.from_json(expected, to_json(value), "value")
    except ValueError:
        return False
    return True
