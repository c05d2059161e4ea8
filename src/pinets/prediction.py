"""Predictions of a trained network for files: images, sounds and tables of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pinets._extras import require
from pinets._nearest import did_you_mean
from pinets._resolve import resolve
from pinets._storage import from_json
from pinets.data import CentreCrop, Crop, DataError, MissingDataError, Normalize
from pinets.data.formats.images import decode_image
from pinets.data.formats.npy import open_array
from pinets.data.formats.text import read_table
from pinets.data.sets.folders import IMAGE_SUFFIXES, files_in
from pinets.export import Metadata, read_metadata
from pinets.tasks.classification.speech.audio import SOUND_SUFFIXES, read_clips
from pinets.tasks.classification.speech.augment import speech_features

__all__ = ["Prediction", "Predictor", "UntrustedFileError", "load_predictor", "predict"]

_BATCH = 64
_TABLES = (".csv", ".npy")
_KNOWN = {*IMAGE_SUFFIXES, *SOUND_SUFFIXES, *_TABLES}


class UntrustedFileError(ValueError):
    """A file that could execute code, and that nobody said to trust."""


@dataclass(frozen=True)
class Prediction:
    """The answer of a network for one input.

    Attributes:
        source: The file, with the row of a table.
        scores: The probability of each class (softmax of the outputs); the outputs themselves where there are no
            classes.
        classes: The names of the classes, in the order of the scores; None where there are none.
    """

    source: str
    scores: tuple[float, ...]
    classes: tuple[str, ...] | None = None

    def best(self, count: int = 1) -> list[tuple[str, float]]:
        """The classes with the highest probabilities, the most probable first.

        >>> Prediction("cat.png", (0.1, 0.7, 0.2), ("dog", "cat", "cow")).best(2)
        [('cat', 0.7), ('cow', 0.2)]
        """
        names = self.classes or tuple(map(str, range(len(self.scores))))
        return sorted(zip(names, self.scores, strict=True), key=lambda pair: -pair[1])[:count]


@dataclass(frozen=True, eq=False)
class Predictor:
    """A network with all that it needs to answer for a file.

    Attributes:
        run: Gives the outputs of a batch.
        shape: The shape of one input; None if it is not known.
        classes: Their names; None where there are none.
        preprocessing: The preprocessing of images or sounds, from a run or an exported file; None if it is not known.
    """

    run: Callable[[Tensor], Tensor]
    shape: tuple[int, ...] | None
    classes: tuple[str, ...] | None
    preprocessing: Any

    def read_images(self, paths: Sequence[str]) -> Tensor:
        """Images as the network takes them: decoded, cropped, scaled and normalised as those it was evaluated on."""
        known = self.preprocessing
        if not isinstance(known, dict) or known.get("kind") != "Normalize" or self.shape is None:
            raise DataError(
                f"{paths[0]}: it is not known how images are prepared for this network; name a run that was trained on "
                f"images, or a file exported from one"
            )
        channels, height, width = self.shape
        crop: Crop = CentreCrop(height, resize=height)  # the whole image, scaled
        if known.get("crop") is not None:
            crop = from_json(CentreCrop, known["crop"], "preprocessing.crop")
        normalize = from_json(Normalize, {key: value for key, value in known.items() if key != "crop"}, "preprocessing")
        if height != width:
            raise DataError(f"{paths[0]}: the network takes {height}x{width}, and images are read as squares alone")
        pixels = [decode_image(_read_file(path), path, crop, (), channels) for path in paths]
        return normalize(torch.stack(pixels))

    def read_sounds(self, paths: Sequence[str]) -> Tensor:
        """Sounds as log-mel pictures of their loudest second."""
        features = speech_features()
        if self.preprocessing != repr(features):
            raise DataError(
                f"{paths[0]}: it is not known how sounds are prepared for this network; name a run that was trained on "
                f"sounds, or a file exported from one"
            )
        return features(read_clips(list(map(Path, paths)), convert=True))

    def read_rows(self, path: str) -> Tensor:
        """The rows of a table as the network takes them, without further preparation."""
        rows = _read_array(path) if _is_array(path) else _read_csv(path)
        if self.shape is None:
            return rows
        size = math.prod(self.shape)
        if rows[0].numel() != size:
            shape = f" ({'x'.join(map(str, self.shape))})" if len(self.shape) > 1 else ""
            raise DataError(f"{path}: a row has {rows[0].numel()} numbers, and the network takes {size}{shape}")
        return rows.reshape(len(rows), *self.shape)

    def answer(self, sources: Sequence[str], inputs: Tensor) -> list[Prediction]:
        """The predictions for a batch."""
        outputs = self.run(inputs)
        if self.classes is not None and outputs.shape[1:] != (len(self.classes),):
            raise ValueError(f"the network gives {tuple(outputs.shape[1:])} outputs for {len(self.classes)} classes")
        scores = outputs.flatten(1) if self.classes is None else outputs.double().softmax(dim=1)
        if scores.isnan().any():
            first = sources[int(scores.isnan().any(dim=1).nonzero()[0])]
            raise ValueError(f"{first}: the network's outputs are not finite")
        return [
            Prediction(source, tuple(row), self.classes) for source, row in zip(sources, scores.tolist(), strict=True)
        ]


def predict(
    model: str | Path, inputs: Sequence[str | Path], *, data_dir: str | Path | None = None, trust: bool = False
) -> list[Prediction]:
    """The answers of a network for files.

    Images and sounds are prepared as those the run was evaluated on. Tables (``.csv``, with or without a line of names,
    and ``.npy``) hold one input per row, as the network takes it. An estimator that was fitted with a data frame finds
    its columns by their names; they may hold text and missing values as those it was fitted with.

    Args:
        model: A run folder, a file that :func:`pinets.export.export` wrote, an estimator in a ``.skops`` file, or
            anything else that :func:`pinets.resolve` takes.
        inputs: Files, or folders of images or sounds.
        data_dir: Where the run's dataset is, for runs that did not note how their inputs are prepared.
        trust: Whether a ``.pt2`` file may be read, from which torch may execute code.
    """
    predictor = load_predictor(model, data_dir=data_dir, trust=trust)
    return [prediction for kind, paths in _by_kind(inputs) for prediction in _predict(predictor, kind, paths)]


def load_predictor(model: str | Path, *, data_dir: str | Path | None = None, trust: bool = False) -> Predictor:
    """The network that a text stands for, with what is known of its inputs."""
    text = str(model)
    if text.endswith(".onnx"):
        known = read_metadata(text)  # first: it names a file that is missing or damaged
        return _with(_run_onnx(text), known)
    if text.endswith(".pt2"):
        if not trust:
            raise UntrustedFileError(
                f"{text}: torch may execute what a .pt2 file says; trust it only if it is your own, or use an ONNX file"
            )
        known = read_metadata(text)
        program = torch.export.load(text)
        return _with(_run_module(program.module(), program.parameters()), known)
    found = resolve(text, data_dir=data_dir)
    if found.estimator is not None:
        return _of_estimator(found.estimator)

    run = _run_module(found.network, found.network.parameters())
    if text.endswith(".safetensors"):
        try:
            return _with(run, read_metadata(text))
        except ValueError:  # the weights of an expression, without further notes
            pass
    if found.run is not None and found.run.inputs.missing:
        raise MissingDataError(f"{text} does not say how its inputs are prepared, and {found.run.inputs.missing}")
    return Predictor(run, found.input_shape, found.classes, found.preprocessing)


def _with(run: Callable[[Tensor], Tensor], known: Metadata) -> Predictor:
    return Predictor(run, known.input_shape, known.classes, known.preprocessing)


def _run_onnx(path: str) -> Callable[[Tensor], Tensor]:
    session = require("onnxruntime", extra="deploy").InferenceSession(path, providers=["CPUExecutionProvider"])
    first = session.get_inputs()[0]
    # double: the polynomial of an estimator
    dtype = {"tensor(double)": torch.float64, "tensor(float16)": torch.float16}.get(first.type, torch.float32)
    return lambda batch: torch.from_numpy(session.run(None, {first.name: batch.to(dtype).numpy()})[0])


def _run_module(network: nn.Module, weights: Iterable[Tensor]) -> Callable[[Tensor], Tensor]:
    dtype = next((weight.dtype for weight in weights), torch.float32)

    @torch.no_grad()
    def run(batch: Tensor) -> Tensor:
        return network(batch.to(dtype))

    return run


@dataclass(frozen=True, eq=False)
class _EstimatorPredictor(Predictor):
    """An estimator answers itself: beyond the range of its training data it is not its polynomial.

    Attributes:
        columns: The names of its columns; None where it was fitted without names.
        texts: Those of them that hold texts, even where a text is made of digits, as a postcode is.
    """

    columns: Sequence[str] | None = None
    texts: Sequence[str] = ()

    def read_rows(self, path: str) -> Any:
        """The rows of a table by the names of its columns, texts and missing values included; others are left out."""
        if self.columns is None:
            return super().read_rows(path).numpy()
        pandas = require("pandas", extra="sklearn")
        if _is_array(path):
            return pandas.DataFrame(super().read_rows(path).numpy(), columns=self.columns)
        try:
            table = pandas.read_csv(path, dtype=dict.fromkeys(self.texts, str))
        except ValueError as error:
            raise DataError(f"{path} cannot be read as a table: {error}") from error
        if missing := [name for name in self.columns if name not in table]:
            raise DataError(f"{path} has no column {missing[0]!r}{did_you_mean(missing[0], map(str, table.columns))}")
        if table.empty:
            raise DataError(f"{path}: holds no rows")
        return table[list(self.columns)]


def _of_estimator(estimator: Any) -> Predictor:
    classes = getattr(estimator, "classes_", None)

    def run(rows: Any) -> Tensor:
        if classes is None:
            return torch.as_tensor(estimator.predict(rows)).reshape(len(rows), -1)
        return torch.as_tensor(estimator.predict_proba(rows)).log()  # scores, whose softmax is taken

    names = getattr(estimator, "feature_names_in_", None)
    known = None if classes is None else tuple(map(str, classes))
    texts = []
    if names is not None and hasattr(estimator, "columns_"):
        levels = estimator.columns_.levels
        texts = [names[number] for number, found in levels.items() if all(isinstance(level, str) for level in found)]
    return _EstimatorPredictor(run, (estimator.n_features_in_,), known, None, columns=names, texts=texts)


def _by_kind(inputs: Sequence[str | Path]) -> Iterator[tuple[str, list[str]]]:
    """The files, in order, in groups that are read alike."""
    for given in map(Path, inputs):
        if not given.exists():
            raise MissingDataError(f"there is no file or folder {given}")
        files = [given]
        if given.is_dir():  # a table beside images or sounds is a list of them, not inputs
            files = files_in(given, {*IMAGE_SUFFIXES, *SOUND_SUFFIXES}) or files_in(given, _TABLES)
        if not files:
            raise DataError(f"{given} holds no images, sounds or tables")
        for path in files:
            if _kind(path) == "":
                known = ", ".join(sorted(_KNOWN))
                raise DataError(f"{path}: what it holds cannot be told from its name; known endings are {known}")
        for kind in dict.fromkeys(map(_kind, files)):
            yield kind, [str(path) for path in files if _kind(path) == kind]


def _kind(path: Path) -> str:
    suffix = path.suffix.lower()
    kinds = {"image": IMAGE_SUFFIXES, "sound": SOUND_SUFFIXES, "table": _TABLES}
    return next((kind for kind, suffixes in kinds.items() if suffix in suffixes), "")


def _predict(predictor: Predictor, kind: str, paths: Sequence[str]) -> Iterator[Prediction]:
    if kind == "table":
        for path in paths:
            rows = predictor.read_rows(path)
            names = [f"{path}, row {number}" for number in range(1, len(rows) + 1)]
            for start in range(0, len(rows), _BATCH):
                yield from predictor.answer(names[start : start + _BATCH], rows[start : start + _BATCH])
        return
    read = predictor.read_images if kind == "image" else predictor.read_sounds
    for start in range(0, len(paths), _BATCH):
        part = paths[start : start + _BATCH]
        yield from predictor.answer(part, read(part))


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise MissingDataError(f"{path} cannot be read: {error.strerror}") from error


def _is_array(path: str) -> bool:
    return path.lower().endswith(".npy")


def _read_array(path: str) -> Tensor:
    array = open_array(Path(path))
    if array.ndim < 2 or len(array) == 0:
        raise DataError(f"{path}: must hold one input of numbers per row, got {array.shape} {array.dtype}")
    return torch.from_numpy(array.astype("float64"))


def _read_csv(path: str) -> Tensor:
    """The numbers of a table; a first line of texts without numbers holds the names of the columns."""
    lines = [(number, line) for number, line in enumerate(read_table(path), start=1) if line]
    if lines and any(map(_is_text, lines[0][1])) and not any(map(_is_number, lines[0][1])):
        lines = lines[1:]
    if not lines:
        raise DataError(f"{path}: holds no rows of numbers")
    width = len(lines[0][1])
    for number, line in lines:
        if len(line) != width or not all(map(_is_number, line)):
            raise DataError(f"{path}, line {number}: expected {width} numbers, got {','.join(line)[:80]!r}")
    return torch.tensor([[float(cell) for cell in line] for _, line in lines], dtype=torch.float64)


def _is_number(cell: str) -> bool:
    return not _is_text(cell) and math.isfinite(float(cell or "nan"))


def _is_text(cell: str) -> bool:
    """Whether a cell is neither a number nor missing, empty or NaN."""
    try:
        float(cell or "nan")
    except ValueError:
        return True
    return False
