"""Models written down: expressions such as ``CCP(16, 4, rank=8, order=3)``, and files that hold one with its weights.

An expression is parsed, never executed: it can build the layers of pinets and of ``torch.nn`` from literals, and do
nothing else. So it is safe to take one from a command line or from a file of someone else.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin

from pinets._files import PathLike
from pinets._limits import NUMBERS, LimitError, limited, require_numbers
from pinets._nearest import did_you_mean
from pinets._storage import difference, read_tensors, write_tensors

__all__ = ["ExpressionError", "build", "load", "misfit", "save"]

_MODEL = "model"  # the key of a file's metadata that holds the expression
_LONGEST, _DEEPEST = 100_000, 100  # of an expression, in characters and in levels of its tree


class ExpressionError(ValueError):
    """An expression that does not describe a model; the message says where and why."""


def build(expression: str, more: Mapping[str, Any] | None = None) -> nn.Module:
    """Build the model that an expression describes.

    Names are the public layers of pinets, its registered models, ``to_pinet`` and the modules of ``torch.nn``;
    arguments are literals, lists, tuples, dicts and further calls. Where a layer takes a maker of operators, a call
    gives the arguments to make them with: ``op=Conv2d(kernel_size=3)`` is
    ``functools.partial(nn.Conv2d, kernel_size=3)``, and ``op=Linear`` is ``nn.Linear``.

    Args:
        expression: The text; white space and line breaks are free.
        more: Further names that the expression may use, for makers of modules or for modules.

    Example:
        >>> product = build("Sequential(CCP(16, 8, rank=8, order=2), NCP(8, 4, rank=8, order=3))")
        >>> product(torch.randn(5, 16)).shape
        torch.Size([5, 4])
        >>> build("CCP(16, 4, rnak=8, order=3)")
        Traceback (most recent call last):
        pinets.spec.ExpressionError: column 12: CCP has no argument 'rnak'; did you mean 'rank'?
    """
    return _build(_parse(expression), {**names(), **(more or {})})


Maker = Callable[..., nn.Module]


def _parse(expression: str) -> ast.expr:
    """The tree of an expression, refused where it is longer or deeper than a model needs."""
    text = expression.strip()
    if len(text) > _LONGEST:
        raise ExpressionError(f"an expression may have {_LONGEST:,} characters, got {len(text):,}")
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"column {error.offset}: {error.msg} in {_shortened(text)!r}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, or thousands of brackets
        raise ExpressionError(f"cannot be read as an expression: {error or type(error).__name__}") from None
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [inner for node in level for inner in ast.iter_child_nodes(node)]
    if level:
        raise ExpressionError(f"an expression may be nested {_DEEPEST} levels deep, this one is deeper")
    return tree


def _build(tree: ast.expr, known: Mapping[str, Maker]) -> nn.Module:
    if not isinstance(tree, ast.Call):
        raise _error(tree, "a model is a call, as in CCP(16, 4, rank=8, order=3)")
    model = _call(tree, known)
    if not isinstance(model, nn.Module):
        raise _error(tree, f"this makes {type(model).__name__}, which is not a module")
    return model


def names() -> dict[str, Maker]:
    """The functions that expressions may call: layers, registered models by their names, and ``to_pinet``."""
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
        from pinets.models.registry import build_model

        return build_model(name, **arguments)

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
    if isinstance(layer, nn.Module):
        raise _error(node, "this is a module already; leave the brackets out")
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
    except LimitError:
        raise
    except Exception as error:
        raise _error(node, f"{layer.__name__}(...): {error}") from error


def _layer(node: ast.expr, known: Mapping[str, Maker]) -> Maker:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("nn", "pinets"):
        node = ast.copy_location(ast.Name(node.attr), node)
    if not isinstance(node, ast.Name):
        raise _error(node, f"{_shortened(ast.unparse(node))} is not the name of a layer")
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
    raise _error(
        node, f"{_shortened(ast.unparse(node))!r} is not understood here; use numbers, strings, lists, dicts and layers"
    )


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


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}..."


def save(path: PathLike, module: nn.Module, expression: str = "", **metadata: str) -> None:
    """Write a model into one safetensors file: its weights, and the expression that builds it.

    The file appears only when it is complete. A tensor that is used in two places is written twice.

    Args:
        path: Where to write.
        module: Holds the weights.
        expression: The text that :func:`build` makes the same module from.
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
    if not expression or not isinstance(module, nn.Module):
        raise TypeError(
            "save takes a path, a module and the expression that builds it, as in "
            f'save("cubic.safetensors", model, "CCP(16, 4, rank=8, order=3)"); '
            f"got {type(path).__name__}, {type(module).__name__} and {expression!r}"
        )
    for key, value in metadata.items():
        if key == _MODEL or not isinstance(value, str):
            raise ValueError(f"metadata are texts under other keys than {_MODEL!r}, got {key}={value!r}")
    if found := misfit(expression, module.state_dict()):
        raise ValueError(f"the module is not what {expression!r} describes: {found}")
    write_tensors(path, module.state_dict(), {_MODEL: expression, **metadata})


def load(path: PathLike) -> tuple[nn.Module, dict[str, str]]:
    """Read a model from a file that :func:`save` wrote, and its metadata.

    Weights keep the type they were saved with. A file that is truncated, of another kind, or whose weights do not fit
    its expression is refused by name. The file may be a stranger's: its expression is built on the meta device first,
    where nothing is allocated, with limits on the number of modules, the number of weights and the time.
    """
    tensors, metadata = read_tensors(path)
    if _MODEL not in metadata:
        raise ValueError(f"{path} does not say which model it holds: its metadata have no {_MODEL!r}")
    try:
        with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced: nothing random remains
            if found := misfit(metadata[_MODEL], tensors):
                raise ValueError(f"its weights do not fit {metadata[_MODEL]!r}: {found}")
            module = build(metadata[_MODEL])
    except ValueError as error:
        raise ValueError(f"{path} cannot be used: {error}") from error
    module.load_state_dict(tensors, strict=True, assign=True)
    return module, metadata


def misfit(expression: str, tensors: Mapping[str, Tensor]) -> str:
    """The first way in which a state dict differs from that of the model an expression builds; empty if it fits.

    An expression that is too large to be honest raises a ``ValueError``, before anything is allocated.
    """
    tree = _parse(expression)
    at_most = max(NUMBERS, 16 * sum(tensor.numel() for tensor in tensors.values()))
    conversions = 0

    def measure(model: nn.Module, **_: Any) -> nn.Module:
        nonlocal conversions
        conversions += 1
        require_numbers(model, at_most)
        return model

    measure.__name__ = _convert.__name__
    with limited():
        with torch.device("meta"):
            model = _build(tree, {**names(), _convert.__name__: measure})
        if conversions:  # a conversion tries its blocks with real numbers
            model = _build(tree, names())
        found = difference(model.state_dict(), tensors)
    if not found:
        require_numbers(model, at_most)  # buffers that are not saved count too
    return found
