"""Storage in files: safetensors, JSON of dataclasses, checksums, and differences of state dicts."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
import types
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

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
    if expected is Any:
        return content
    options = _options(expected)
    kinds = {kind.__name__: kind for kind in options if isinstance(kind, type) and dataclasses.is_dataclass(kind)}
    if kinds and isinstance(content, Mapping) and (kind := content.get("kind", next(iter(kinds)))) in [*kinds]:
        return _dataclass_from_json(kinds[kind], content, name)
    for option in options:
        with suppress(ValueError):  # another option may fit
            return _plain_from_json(option, content)
    raise ValueError(f"{name} must be {describe_type(expected)}, got {content!r}")


def _dataclass_from_json(kind: Any, content: Mapping[str, Any], name: str) -> Any:
    hints, fields = get_type_hints(kind), {field.name: field for field in dataclasses.fields(kind)}
    values = {}
    for key, field in fields.items():
        if key in content:
            values[key] = from_json(hints[key], content[key], f"{name}.{key}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{name}.{key} is missing")
    if unknown := sorted(content.keys() - fields.keys() - {"kind"}):
        raise ValueError(unknown_key(unknown[0], fields, name))
    try:
        return kind(**values)
    except Exception as error:  # the dataclass knows more than its types: ranges, for example
        raise ValueError(f"{name}: {error}") from error


def _plain_from_json(expected: Any, content: Any) -> Any:
    """A value of a type that is no dataclass; the error has no text."""
    origin, inner = get_origin(expected), get_args(expected)
    if expected is float and type(content) in (int, float) and abs(content) <= sys.float_info.max:
        return float(content)
    if expected is not float and type(content) is expected and expected in _PLAIN:  # to isinstance, True is a number
        return content
    if origin is Literal and any(content == choice and type(content) is type(choice) for choice in inner):
        return content
    if origin in (list, tuple) and isinstance(content, list | tuple):
        each = inner[:1] * len(content) if origin is list or inner[-1] is Ellipsis else inner
        return origin(from_json(kind, item, "") for kind, item in zip(each, content, strict=True))
    if origin in (dict, Mapping) and isinstance(content, Mapping):
        return {from_json(inner[0], key, ""): from_json(inner[1], item, "") for key, item in content.items()}
    raise ValueError


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
