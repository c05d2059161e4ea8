"""Models written down: expressions such as ``CCP(16, 4, rank=8, order=3)``, and files that hold one with its weights.

An expression is parsed, never executed: it can build the layers of pinets and of ``torch.nn`` from literals, and do
nothing else. So it is safe to take one from a command line or from a file of someone else.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin

from pinets._extras import require
from pinets._files import PathLike, write_bytes
from pinets._nearest import did_you_mean

__all__ = ["ExpressionError", "build", "infer_input", "load", "misfit", "save"]

_MODEL = "model"  # the key of a file's metadata that holds the expression


class ExpressionError(ValueError):
    """An expression that does not describe a model; the message says where and why."""


def build(expression: str) -> nn.Module:
    """Build the model that an expression describes.

    Names are the public layers of pinets, its registered models, ``to_pinet`` and the modules of ``torch.nn``;
    arguments are literals, lists, tuples, dicts and further calls. Where a layer takes a maker of operators, a call
    gives the arguments to make them with: ``op=Conv2d(kernel_size=3)`` is
    ``functools.partial(nn.Conv2d, kernel_size=3)``, and ``op=Linear`` is ``nn.Linear``.

    Args:
        expression: The text; white space and line breaks are free.

    Example:
        >>> product = build("Sequential(CCP(16, 8, rank=8, order=2), NCP(8, 4, rank=8, order=3))")
        >>> product(torch.randn(5, 16)).shape
        torch.Size([5, 4])
        >>> build("CCP(16, 4, rnak=8, order=3)")
        Traceback (most recent call last):
        pinets.spec.ExpressionError: column 12: CCP has no argument 'rnak'; did you mean 'rank'?
    """
    text = expression.strip()
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError as error:
        raise ExpressionError(f"column {error.offset}: {error.msg} in {text!r}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, or nested beyond all measure
        raise ExpressionError(f"cannot be read as an expression: {error or type(error).__name__}") from None
    if not isinstance(tree.body, ast.Call):
        raise _error(tree.body, "a model is a call, as in CCP(16, 4, rank=8, order=3)")
    model = _call(tree.body, names())
    if not isinstance(model, nn.Module):
        raise _error(tree.body, f"this makes {type(model).__name__}, which is not a module")
    return model


Maker = Callable[..., nn.Module]


def names() -> dict[str, Maker]:
    """What expressions may call: layers, registered models by their names, and ``to_pinet``."""
    from pinets.models import list_models

    return {**_layers(), **{name: _model(name) for name in list_models()}, "to_pinet": _convert}


@functools.cache
def _layers() -> Mapping[str, type[nn.Module]]:
    import pinets
    import pinets.layers

    known: dict[str, type[nn.Module]] = {}
    for namespace, public in ((nn, dir(nn)), (pinets.layers, pinets.layers.__all__), (pinets, pinets.__all__)):
        for name in public:
            value = getattr(namespace, name)
            if isinstance(value, type) and issubclass(value, nn.Module) and not issubclass(value, LazyModuleMixin):
                known[name] = value
    return known


def _model(name: str) -> Maker:
    def make(**arguments: Any) -> nn.Module:
        from pinets.models import create_model

        return create_model(name, **arguments)

    make.__name__ = name
    return make


def _convert(
    model: nn.Module,
    *,
    tanh: bool = False,
    local_convs: int = 0,
    stages: list[str] | None = None,
    depths: list[int] | None = None,
) -> nn.Module:
    from pinets.convert import to_pinet

    return to_pinet(model, tanh=tanh, local_convs=local_convs, stages=stages, depths=depths).model


_convert.__name__ = "to_pinet"


def _call(node: ast.Call, known: Mapping[str, Maker], *, make: bool = False) -> Any:
    """The module a call describes, or with ``make`` the maker of such modules."""
    layer = _layer(node.func, known)
    parameters = inspect.signature(layer).parameters
    accepts_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    positional = [_value(argument, known) for argument in node.args]
    named: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise _error(keyword, "** is not understood here; write the arguments out")
        if keyword.arg not in parameters and not accepts_any:
            hint = did_you_mean(keyword.arg, parameters)
            raise _error(keyword, f"{layer.__name__} has no argument {keyword.arg!r}{hint}")
        if keyword.arg in named:
            raise _error(keyword, f"{layer.__name__} got the argument {keyword.arg!r} twice")
        named[keyword.arg] = _value(keyword.value, known, make=_takes_maker(layer, keyword.arg))
    if make:
        return functools.partial(layer, *positional, **named)
    try:
        return layer(*positional, **named)
    except Exception as error:
        raise _error(node, f"{layer.__name__}(...): {error}") from error


def _layer(node: ast.expr, known: Mapping[str, Maker]) -> Maker:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("nn", "pinets"):
        node = ast.copy_location(ast.Name(node.attr), node)
    if not isinstance(node, ast.Name):
        raise _error(node, f"{ast.unparse(node)} is not the name of a layer")
    if node.id not in known:
        raise _error(node, f"unknown layer {node.id!r}{did_you_mean(node.id, known)}")
    return known[node.id]


def _value(node: ast.expr, known: Mapping[str, Maker], *, make: bool = False) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=elements):
            return [_value(element, known) for element in elements]
        case ast.Tuple(elts=elements):
            return tuple(_value(element, known) for element in elements)
        case ast.Dict(keys=keys, values=values):
            if not all(isinstance(key, ast.Constant) for key in keys):
                raise _error(node, "the keys of a dict must be texts or numbers")
            return {ast.literal_eval(key): _value(value, known) for key, value in zip(keys, values, strict=True) if key}
        case ast.Call():
            return _call(node, known, make=make)
        case ast.Name() | ast.Attribute():
            return _layer(node, known)
    raise _error(node, f"{ast.unparse(node)!r} is not understood here; use numbers, strings, lists, dicts and layers")


def _takes_maker(layer: Callable[..., Any], argument: str) -> bool:
    """Whether an argument is called to make modules, as ``op`` is, instead of being one."""
    if not layer.__module__.startswith("pinets."):
        return False
    parameter = inspect.signature(layer).parameters.get(argument)
    annotation = "" if parameter is None else str(parameter.annotation)
    return "LinearOperator" in annotation or "Callable" in annotation


def _error(node: ast.expr | ast.keyword, reason: str) -> ExpressionError:
    place = f"column {node.col_offset + 1}" if node.lineno == 1 else f"line {node.lineno}, column {node.col_offset + 1}"
    return ExpressionError(f"{place}: {reason}")


def save(path: PathLike, module: nn.Module, expression: str, **metadata: str) -> None:
    """Write a model into one safetensors file: its weights, and the expression that builds it.

    The file appears only when it is complete. A tensor that is used in two places is written twice.

    Args:
        path: Where to write.
        module: Holds the weights.
        expression: What :func:`build` makes the same module from.
        metadata: Further texts to keep in the file.

    Example:
        >>> import tempfile
        >>> expression = "CCP(4, 2, rank=3, order=2)"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save(f"{folder}/square.safetensors", build(expression), expression, trained="no")
        ...     model, metadata = load(f"{folder}/square.safetensors")
        >>> model.order, metadata["trained"]
        (2, 'no')
    """
    for key, value in metadata.items():
        if key == _MODEL or not isinstance(value, str):
            raise ValueError(f"metadata are texts under other keys than {_MODEL!r}, got {key}={value!r}")
    tensors = {name: value.detach().cpu().contiguous().clone() for name, value in module.state_dict().items()}
    if difference := misfit(expression, tensors):
        raise ValueError(f"the module is not what {expression!r} describes: {difference}")
    content = require("safetensors.torch", extra="train").save(tensors, metadata={_MODEL: expression, **metadata})
    write_bytes(path, content)


def load(path: PathLike) -> tuple[nn.Module, dict[str, str]]:
    """Read a model from a file that :func:`save` wrote, and its metadata.

    Weights keep the type they were saved with. A file that is truncated, of another kind, or whose weights do not fit
    its expression is refused by name.
    """
    path = Path(path)
    safetensors = require("safetensors", extra="train")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path} is not a complete safetensors file: {error}") from error
    if _MODEL not in metadata:
        raise ValueError(f"{path} does not say which model it holds: its metadata have no {_MODEL!r}")
    try:
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced: nothing random remains
            if difference := misfit(metadata[_MODEL], tensors):
                raise ValueError(f"its weights do not fit {metadata[_MODEL]!r}: {difference}")
            module = build(metadata[_MODEL])
    except ValueError as error:
        raise ValueError(f"{path} cannot be used: {error}") from error
    module.load_state_dict(tensors, strict=True, assign=True)
    return module, metadata


def misfit(expression: str, tensors: Mapping[str, Tensor]) -> str:
    """The first way in which a state dict differs from that of the model an expression builds; empty if it fits."""
    # nothing is allocated, unless a conversion tries its blocks
    with torch.device("cpu" if f"{_convert.__name__}(" in expression else "meta"):
        expected = build(expression).state_dict()
    for name, tensor in expected.items():
        if name not in tensors:
            return f"{name} is missing"
        if tensor.shape != tensors[name].shape:
            return f"{name} should have shape {tuple(tensor.shape)}, has {tuple(tensors[name].shape)}"
        if tensor.is_floating_point() != tensors[name].is_floating_point():
            return f"{name} should have a type such as {tensor.dtype}, has {tensors[name].dtype}"
    return next((f"{name} is not part of it" for name in tensors if name not in expected), "")


def infer_input(module: nn.Module) -> tuple[int, ...] | None:
    """The shape of an input a model takes (without the batch), told from its first operator; None if that is not clear.

    Where an operator slides over positions, any number of them does: enough for its kernel are taken.

    Example:
        >>> infer_input(build("NCPSkip(3, 8, rank=4, order=2, op=Conv2d(kernel_size=3, padding=1))"))
        (3, 8, 8)
    """
    for part in module.modules():
        if isinstance(part, nn.Linear):
            return (part.in_features,)
        if isinstance(part, nn.modules.conv._ConvNd):
            reach = (1 + (size - 1) * step for size, step in zip(part.kernel_size, part.dilation, strict=True))
            return (part.in_channels, *(max(8, size) for size in reach))
        if isinstance(part, nn.LayerNorm):
            return tuple(part.normalized_shape)
        if next(part.parameters(recurse=False), None) is not None:
            return None  # an operator of a kind not known here comes first
    return None
