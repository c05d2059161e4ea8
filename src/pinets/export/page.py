"""A network as one HTML page that runs it in the browser, with onnxruntime-web."""

from __future__ import annotations

import base64
import gzip
import html
from importlib.resources import files
from pathlib import Path

from pinets._files import write_bytes
from pinets.export.metadata import Metadata

__all__ = ["RUNTIME_FILES", "check_page", "write_page"]

# of onnxruntime-web's folder dist: the interface, the loader, the machine
RUNTIME_FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")


def check_page(metadata: Metadata, runtime: str | Path | None) -> Path:
    """The folder of onnxruntime-web, if there is one and the network is for pictures that the page can prepare."""
    if runtime is None:
        raise ValueError(
            "a page contains onnxruntime-web: install it with npm install onnxruntime-web@1.22.0, and name its folder "
            "as runtime: node_modules/onnxruntime-web/dist"
        )
    folder = Path(runtime)
    missing = [name for name in RUNTIME_FILES if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{folder} is not onnxruntime-web's folder dist: it has no {', '.join(missing)}")
    shape, known = metadata.input_shape, metadata.preprocessing
    if len(shape) != 3 or shape[0] not in (1, 3) or not isinstance(known, dict) or known.get("kind") != "Normalize":
        raise ValueError(
            f"a page takes pictures, whose preparation it must know: this network takes {shape}, prepared by {known}"
        )
    return folder


def write_page(path: Path, network: bytes, metadata: Metadata, runtime: Path) -> None:
    """Write the page.

    Args:
        path: The file.
        network: An ONNX file.
        metadata: Classes and preprocessing.
        runtime: The folder ``dist`` of onnxruntime-web.
    """
    kind = f"a polynomial of degree {metadata.degree}" if metadata.degree is not None else "a network"
    name = metadata.recipe["name"] if isinstance(metadata.recipe, dict) and "name" in metadata.recipe else "network"
    program, loader, machine = ((runtime / file).read_bytes() for file in RUNTIME_FILES)
    parts = {
        "__TITLE__": html.escape(str(name)),
        "__ABOUT__": f"This is {kind} of its picture.",
        "__METADATA__": metadata.to_json().replace("<", "\\u003c"),  # "</script>" in a class's name ends nothing
        "__NETWORK__": _packed(network),
        "__PROGRAM__": _packed(program),
        "__LOADER__": _packed(loader),
        "__MACHINE__": _packed(machine),
    }
    page = (files("pinets.export") / "page.html").read_text(encoding="utf-8")
    for place, content in parts.items():
        page = page.replace(place, content)
    write_bytes(path, page.encode())


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()
