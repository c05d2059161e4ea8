"""Reading the meta files of IJB-B and IJB-C: images with their templates and media, and the comparisons to make."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from pinets._extras import require
from pinets._files import PathLike
from pinets.data.errors import DataError, MissingDataError
from pinets.data.formats.text import read_table, read_text

__all__ = ["IJB", "Subjects", "TemplatePairs", "read_ijb"]

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, eq=False)
class TemplatePairs:
    """Pairs of templates by their numbers, and whether they show one subject."""

    first: Tensor
    second: Tensor
    same: Tensor


@dataclass(frozen=True, eq=False)
class Subjects:
    """Templates by their numbers, each once, and the subject each shows."""

    templates: Tensor
    subjects: Tensor


@dataclass(frozen=True, eq=False)
class IJB:
    """The meta files of IJB-B or IJB-C.

    Attributes:
        images: The names of the images, in the order that embeddings must have.
        templates: The number of each image's template.
        media: The number of each image's medium: a still, or a video all frames of which share it.
        detection: A detector's confidence in each face; None without its file.
        pairs: The pairs of 1:1 verification; None without their file.
        galleries: The two disjoint galleries of 1:N identification; empty without their files.
        probes: The mixed-media probes of 1:N identification; None without their file.
    """

    images: tuple[str, ...]
    templates: Tensor
    media: Tensor
    detection: Tensor | None
    pairs: TemplatePairs | None
    galleries: tuple[Subjects, ...]
    probes: Subjects | None


def read_ijb(folder: PathLike) -> IJB:
    """Read the folder ``meta`` of IJB-B or IJB-C, as insightface distributes it; file names tell which it is.

    ============================================  ========================================================
    ``ijbc_face_tid_mid.txt``                     image, template, medium; the order of the embeddings
    ``ijbc_name_5pts_score.txt``                  image, ten coordinates, detection score; may be missing
    ``ijbc_template_pair_label.txt``              template, template, 1 or 0; for 1:1
    ``ijbc_1N_gallery_G1.csv``, ``..._G2.csv``    template, subject, ...; for 1:N; ``S1``, ``S2`` in IJB-B
    ``ijbc_1N_probe_mixed.csv``                   template, subject, ...; for 1:N
    ============================================  ========================================================

    Galleries come in twos, and every probe's subject is in one of them.
    """
    folder = Path(folder)
    found = sorted(folder.glob("*_face_tid_mid.txt"))
    if len(found) != 1:
        raise MissingDataError(f"{folder} must hold one file NAME_face_tid_mid.txt, got {len(found)}")
    name = found[0].name.removesuffix("_face_tid_mid.txt")
    rows = list(_words(found[0], columns=3))
    images = tuple(words[0] for _, words in rows)
    templates, media = (torch.tensor([_number(int, words[at], found[0], n) for n, words in rows]) for at in (1, 2))
    detection, pairs = folder / f"{name}_name_5pts_score.txt", folder / f"{name}_template_pair_label.txt"
    probe_file = folder / f"{name}_1N_probe_mixed.csv"
    known = templates.unique()
    galleries = tuple(_read_subjects(file, known) for file in _gallery_files(folder, name))
    probes = _read_subjects(probe_file, known) if probe_file.is_file() else None
    if galleries and probes is None:
        raise MissingDataError(f"{probe_file} is missing: 1:N needs probes, and the galleries are there")
    if galleries and probes is not None:
        _require_protocol(probes, galleries, probe_file)
    return IJB(
        images,
        templates,
        media,
        _read_detection(detection, images) if detection.is_file() else None,
        _read_template_pairs(pairs, known) if pairs.is_file() else None,
        galleries,
        probes,
    )


def _gallery_files(folder: Path, name: str) -> list[Path]:
    for part in "GS":
        files = [folder / f"{name}_1N_gallery_{part}{n}.csv" for n in (1, 2)]
        missing = [file for file in files if not file.is_file()]
        if not missing:
            return files
        if len(missing) == 1:
            raise MissingDataError(f"{missing[0]} is missing: 1:N needs both galleries, and the other is there")
    return []


def _require_protocol(probes: Subjects, galleries: tuple[Subjects, ...], path: Path) -> None:
    """No subject in both galleries, no template compared with itself, a mate for each probe: or rates are wrong."""
    first, second = (gallery.subjects for gallery in galleries)
    enrolled = torch.cat([gallery.templates for gallery in galleries])
    twice = probes.templates[torch.isin(probes.templates, enrolled)]
    strangers = probes.subjects[~torch.isin(probes.subjects, torch.cat([first, second]))]
    _require_none(first[torch.isin(first, second)], path.parent, "subjects are in both galleries")
    _require_none(twice, path.parent, "templates are probes and in a gallery")
    _require_none(strangers, path, "templates show subjects that are in neither gallery")


def _require_none(wrong: Tensor, source: Path, what: str) -> None:
    if len(wrong):
        raise DataError(f"{source}: {len(wrong)} {what}, the first is {int(wrong[0])}")


def _require_known(templates: Tensor, known: Tensor, path: Path) -> None:
    _require_none(templates[~torch.isin(templates, known)], path, "templates have no images")


def _read_detection(path: Path, images: tuple[str, ...]) -> Tensor:
    rows = list(_words(path, columns=12))
    names = tuple(words[0] for _, words in rows)
    if names != images:
        raise DataError(f"{path}: must name the same images in the same order as the list of templates")
    return torch.tensor([_score(words[-1], path, n) for n, words in rows])


def _read_template_pairs(path: Path, known: Tensor) -> TemplatePairs:
    numpy = require("numpy", extra="train")
    try:  # millions of lines: NumPy's own reader
        table = torch.from_numpy(numpy.loadtxt(path, dtype=numpy.int64, ndmin=2))
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    if table.shape[1] != 3 or not ((table[:, 2] == 0) | (table[:, 2] == 1)).all():
        raise DataError(f"{path}: lines must hold two templates and 1 or 0")
    _require_known(table[:, :2].unique(), known, path)
    first, second, same = table.t().contiguous()
    _require_consistent(first, second, same, path)
    return TemplatePairs(first, second, same.bool())


def _require_consistent(first: Tensor, second: Tensor, same: Tensor, path: Path) -> None:
    """Refuse a pair that is said to show one subject and to show two, in whatever order."""
    low, high = torch.minimum(first, second), torch.maximum(first, second)
    pair = low * (int(high.max()) + 1) + high
    both = pair[same == 1][torch.isin(pair[same == 1], pair[same == 0])]
    if len(both):
        at = int((pair == both[0]).nonzero()[0])
        raise DataError(
            f"{path}: {len(both)} pairs are labelled 1 and 0, the first is {int(first[at])} with {int(second[at])}"
        )


def _read_subjects(path: Path, known: Tensor) -> Subjects:
    """A file has one line for each image: what it says of a template must agree."""
    subjects: dict[int, int] = {}
    header, *lines = read_table(path) or [[]]
    if all(word.strip().isdecimal() for word in header[:2]):
        raise DataError(f"{path}, line 1: expected the names of the columns, got {','.join(header)!r}")
    for number, words in enumerate(lines, start=2):
        if not "".join(words).strip():
            continue
        if len(words) < 2:
            raise DataError(f"{path}, line {number}: expected template, subject, ..., got {','.join(words)!r}")
        template, subject = (_number(int, word, path, number) for word in words[:2])
        if subjects.setdefault(template, subject) != subject:
            raise DataError(
                f"{path}, line {number}: template {template} is of subject {subject}, and of "
                f"{subjects[template]} before"
            )
    if not subjects:
        raise DataError(f"{path}: names no templates")
    templates = torch.tensor(list(subjects))
    _require_known(templates, known, path)
    return Subjects(templates, torch.tensor(list(subjects.values())))


def _words(path: Path, columns: int) -> Iterator[tuple[int, list[str]]]:
    """The words of every line that is not blank, with its number."""
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        words = line.split()
        if 0 < len(words) < columns:
            raise DataError(f"{path}, line {number}: expected {columns} columns, got {line.strip()!r}")
        if words:
            yield number, words


def _score(word: str, path: Path, number: int) -> float:
    score = _number(float, word, path, number)
    if not 0 <= score < math.inf:  # also false for NaN, which would spoil a whole template
        raise DataError(f"{path}, line {number}: a detection score must be finite and not negative, got {word!r}")
    return score


def _number(kind: type[Number], word: str, path: Path, number: int) -> Number:
    try:
        value = kind(word)
        if kind is int and abs(value) >= 2**63:  # which no tensor holds
            raise ValueError
        return value
    except ValueError:
        raise DataError(f"{path}, line {number}: expected a number, got {word[:200]!r}") from None
