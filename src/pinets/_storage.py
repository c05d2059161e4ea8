"""Storage in files: safetensors, JSON of dataclasses, checksums, and differences of state dicts."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import sys
import types
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from torch import Tensor

from pinets._extras import require
from pinets._files import PathLike, flush_folder, replacing, write_bytes
from pinets._nearest import did_you_mean

__all__ = [
    "checksum",
    "describe_type",
    "difference",
    "digest",
    "from_json",
    "parse_json",
    "read_json",
    "read_json_object",
    "read_metadata",
    "read_tensors",
    "to_json",
    "unknown_key",
    "write_json",
    "write_tensors",
]

T = TypeVar("T")


# safetensors


def write_tensors(path: PathLike, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file atomically. A tensor that is used under two names is written twice."""
    save_file = require("safetensors.torch", extra="train").save_file
    apart: dict[str, Tensor] = {}
    written = set()
    for name, value in tensors.items():
        content = value.detach().cpu().contiguous()
        memory = content.untyped_storage().data_ptr()
        apart[name] = content.clone() if memory in written else content  # safetensors refuses to write memory twice
        written.add(memory)
    with replacing(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # as the user's other files: safetensors lets the owner alone read its own
        save_file(apart, temporary, metadata=dict(metadata or {}))
        temporary.chmod(mode)


def read_tensors(path: PathLike) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file; the error for a damaged one names the file."""
    return _read_safetensors(path, with_tensors=True)


def read_metadata(path: PathLike) -> dict[str, str]:
    """The metadata of a safetensors file, without its tensors."""
    return _read_safetensors(path, with_tensors=False)[1]


def _read_safetensors(path: PathLike, *, with_tensors: bool) -> tuple[dict[str, Tensor], dict[str, str]]:
    safetensors = require("safetensors", extra="train")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in list(file.keys())} if with_tensors else {}
            return tensors, dict(file.metadata() or {})
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a complete safetensors file: {error}") from error


def difference(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """The first way in which a state dict differs from the one that a network has; empty if they fit.

    >>> import torch
    >>> difference({"weight": torch.ones(2, 3)}, {"weight": torch.ones(3, 2)})
    'weight should have shape (2, 3), has (3, 2)'
    >>> difference({"weight": torch.ones(2, 3)}, {})
    'weight is missing'
    """
    for name, tensor in expected.items():
        if name not in found:
            return f"{name} is missing"
        if not isinstance(found[name], Tensor):
            return f"{name} should be a tensor, is {type(found[name]).__name__}"
        if tensor.shape != found[name].shape:
            return f"{name} should have shape {tuple(tensor.shape)}, has {tuple(found[name].shape)}"
        if tensor.is_floating_point() != found[name].is_floating_point():
            return f"{name} should have a type such as {tensor.dtype}, has {found[name].dtype}"
    return next((f"{name} is not part of it" for name in found if name not in expected), "")


# Checksums


def checksum(path: PathLike, kind: str = "sha256") -> str:
    """The checksum of a file, read in pieces."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def digest(content: Any) -> str:
    """SHA-256 of JSON content, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# JSON


def write_json(path: Path, content: Any) -> None:
    """Replace a JSON file atomically. Floats are written so that they read back to the same bits."""
    write_bytes(path, (json.dumps(content, indent=2) + "\n").encode())
    flush_folder(path.parent)


def read_json(path: Path) -> Any:
    """The content of a JSON file; the error for one that does not parse names the file."""
    return parse_json(path.read_bytes(), path)


def parse_json(text: str | bytes, source: object) -> Any:
    """The content of JSON; the error for what does not parse, or is nested too deeply, names its source."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # JSON and Unicode errors are both ValueErrors
        raise ValueError(f"{source} is not valid JSON: {error}") from error


def read_json_object(path: Path) -> dict[str, Any]:
    """The content of a JSON file that holds an object, as all files of a run do."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(content).__name__}")
    return content


def to_json(value: Any) -> Any:
    """Plain data that :func:`from_json` turns back; each dataclass says its ``kind``.

    >>> Steps = dataclasses.make_dataclass("Steps", [("milestones", tuple[float, ...]), ("gamma", float, 0.1)])
    >>> to_json(Steps((40, 60)))
    {'kind': 'Steps', 'milestones': [40, 60], 'gamma': 0.1}
    """
    if dataclasses.is_dataclass(value):
        fields = {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def from_json(expected: Any, content: Any, name: str) -> Any:
    """Build a value of the expected type from JSON that anybody may have changed.

    Nothing is converted but lists to tuples and whole numbers to floats. A ``kind`` tells apart the dataclasses of a
    union, and may be left out elsewhere.

    Args:
        expected: A dataclass, or what else a field of a dataclass may be annotated with.
        content: What :func:`to_json` gave.
        name: What errors call the content; keys inside are added with a dot.

    Example:
        >>> Steps = dataclasses.make_dataclass("Steps", [("milestones", tuple[float, ...]), ("gamma", float, 0.1)])
        >>> from_json(Steps, {"kind": "Steps", "milestones": [40, 60]}, "schedule")
        Steps(milestones=(40.0, 60.0), gamma=0.1)
        >>> from_json(Steps, {"milestones": [40, "60"]}, "schedule")
        Traceback (most recent call last):
        ValueError: schedule.milestones must be a list of values, each a number, got [40, '60']
    """
    try:
        return _converter().structure(content, expected)
    except Exception as error:
        raise ValueError(_explain(error, expected, content, name)) from error


def describe_type(expected: Any) -> str:
    """The type that a value must have, in words.

    >>> describe_type(int | None), describe_type(tuple[float, ...]), describe_type(Literal["no", "bf16"])
    ('a whole number or none', 'a list of values, each a number', "'no' or 'bf16'")
    """
    words = []
    for option in _options(expected):
        if option in _PLAIN:
            words.append(_PLAIN[option])
        elif dataclasses.is_dataclass(option):
            assert isinstance(option, type)
            words.append(f"{option.__name__} ({', '.join(field.name for field in dataclasses.fields(option))})")
        elif get_origin(option) is Literal:
            words += [repr(choice) for choice in get_args(option)]
        elif get_origin(option) is tuple:
            words.append(f"a list of values, each {describe_type(get_args(option)[0])}")
        else:
            words.append(str(option))
    return " or ".join(words)


def unknown_key(name: str, known: Collection[str], inside: str) -> str:
    """The error about a key that does not exist, with the nearest one that does."""
    prefix = f"{inside}." if inside else ""
    return f"there is no key {prefix + name!r}{did_you_mean(prefix + name, [prefix + other for other in known])}"


_PLAIN = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "none"}


def _options(expected: Any) -> tuple[Any, ...]:
    return get_args(expected) if get_origin(expected) in (Union, types.UnionType) else (expected,)


def _is_tuple(expected: Any) -> bool:
    return get_origin(expected) is tuple


@functools.cache
def _converter() -> Any:
    """A converter of cattrs that takes every value for what it is: by default it makes a number of a text."""
    cattrs = require("cattrs", extra="train")
    converter = cattrs.Converter()

    def plain(value: Any, kind: Any) -> Any:
        if kind is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:
            return float(value)
        if kind is float or type(value) is not kind:  # exactly: to isinstance, True is a whole number
            raise ValueError
        return value

    def values(value: Any, kind: Any) -> tuple[Any, ...]:
        kinds = get_args(kind)
        if not isinstance(value, list | tuple) or (kinds[-1] is not Ellipsis and len(kinds) != len(value)):
            raise ValueError
        return tuple(
            converter.structure(item, kinds[0] if kinds[-1] is Ellipsis else kinds[position])
            for position, item in enumerate(value)
        )

    def union(value: Any, kind: Any) -> Any:
        if isinstance(value, Mapping):
            makers: list[Any] = [option for option in get_args(kind) if dataclasses.is_dataclass(option)]
            named = [option for option in makers if option.__name__ == value.get("kind", makers[0].__name__)]
            return converter.structure(value, named[0])
        for option in get_args(kind):
            try:
                return converter.structure(value, option)
            except Exception:  # another may fit
                continue
        raise ValueError

    def dataclass(kind: Any) -> Any:
        structure = cattrs.gen.make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=True)

        def from_mapping(content: Any, _: Any) -> Any:
            if not isinstance(content, Mapping) or content.get("kind", kind.__name__) != kind.__name__:
                raise ValueError
            return structure({name: value for name, value in content.items() if name != "kind"}, kind)

        return from_mapping

    for kind in _PLAIN:
        converter.register_structure_hook(kind, plain)
    converter.register_structure_hook_func(_is_tuple, values)
    converter.register_structure_hook_func(lambda kind: len(_options(kind)) > 1, union)
    converter.register_structure_hook_factory(dataclasses.is_dataclass, dataclass)
    return converter


def _explain(error: Exception, expected: Any, content: Any, name: str) -> str:
    """The first key that does not fit, and why."""
    cattrs = require("cattrs", extra="train")
    if isinstance(error, ModuleNotFoundError):
        raise error
    if isinstance(error, cattrs.ClassValidationError):
        of_fields, others = error.group_exceptions()
        if of_fields:
            inner, note = of_fields[0]
            key = f"{name}.{note.name}"
            return _explain(inner, note.type, content[note.name], key) if note.name in content else f"{key} is missing"
        if isinstance(others[0], cattrs.ForbiddenExtraKeysError):
            known = [field.name for field in dataclasses.fields(error.cl)]
            return unknown_key(sorted(others[0].extra_fields)[0], known, name)
        return f"{name}: {others[0]}"  # the dataclass knows more than its types: ranges, for example
    return f"{name} must be {describe_type(expected)}, got {content!r}"
