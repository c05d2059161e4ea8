"""Lists of pairs in LFW's format, over folders of one person each: LFW's own, and RFW's four."""

from __future__ import annotations

from pathlib import Path

import torch

from pinets.data.decode import CentreCrop
from pinets.data.errors import DataError, MissingDataError
from pinets.data.face_pairs import FacePairs
from pinets.data.folders import FolderSet

__all__ = ["RFW_SUBSETS", "ListedPair", "open_pairs", "open_rfw", "parse_pairs"]

RFW_SUBSETS = ("Caucasian", "Indian", "Asian", "African")  # in the order of the paper's table
_ENDINGS = (".jpg", ".png", ".jpeg")

ListedPair = tuple[tuple[str, int], tuple[str, int]]  # a person and the number of an image, twice


def parse_pairs(path: Path) -> list[ListedPair]:
    """Read ``pairs.txt``, ``pairsDevTest.txt``, ``pairsDevTrain.txt`` or ``African_pairs.txt``.

    A line names a pair of one person (name, number, number) or of two (name, number, name, number). The first line may
    announce how many there are: the pairs of one person in each set (as many of two follow), or the number of sets
    before that.
    """
    if not path.is_file():
        raise MissingDataError(f"{path} is missing")
    lines = path.read_text(encoding="utf-8").splitlines()
    announced = _announced(lines[0]) if lines else None
    pairs: list[ListedPair] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (number == 1 and announced is not None):
            continue
        match line.split():
            case [name, first, second] if first.isdecimal() and second.isdecimal():
                pairs.append(((name, int(first)), (name, int(second))))
            case [name, first, other, second] if first.isdecimal() and second.isdecimal() and name != other:
                pairs.append(((name, int(first)), (other, int(second))))
            case _:
                raise DataError(
                    f"{path}, line {number}: expected NAME N N, or NAME N NAME N of two people, got {line!r}"
                )
    if announced is not None and len(pairs) != announced:
        raise DataError(f"{path}: announces {announced} pairs and has {len(pairs)}")
    if not pairs:
        raise DataError(f"{path}: names no pairs")
    return pairs


def open_pairs(path: Path, images: Path, *, size: int) -> FacePairs:
    """The pairs of a list, with the images ``images/NAME/NAME_0001.jpg``, each of which is read once.

    Args:
        path: The list, as :func:`parse_pairs` reads it.
        images: Holds one folder for each person.
        size: Images are scaled to this height and width.
    """
    pairs = parse_pairs(path)
    faces = sorted({face for pair in pairs for face in pair})
    people = tuple(sorted({name for name, _ in faces}))
    place = {face: number for number, face in enumerate(faces)}
    files = tuple(_find(images / name, f"{name}_{number:04d}", path) for name, number in faces)
    label = {name: number for number, name in enumerate(people)}
    return FacePairs(
        FolderSet(torch.tensor([label[name] for name, _ in faces]), people, CentreCrop(size, size), files),
        torch.tensor([[place[first], place[second]] for first, second in pairs]),
        torch.tensor([first[0] == second[0] for first, second in pairs]),
    )


def open_rfw(folder: Path, *, size: int) -> dict[str, FacePairs]:
    """The four subsets of Racial Faces in-the-Wild, by name.

    Args:
        folder: Holds ``txts/African/African_pairs.txt`` and ``data/African/ID/ID_0001.jpg``, and so on; or holds
            ``test``, which holds these.
        size: Images are scaled to this height and width.
    """
    root = folder / "test" if (folder / "test" / "txts").is_dir() else folder
    return {
        name: open_pairs(root / "txts" / name / f"{name}_pairs.txt", root / "data" / name, size=size)
        for name in RFW_SUBSETS
    }


def _announced(line: str) -> int | None:
    """How many pairs a first line such as ``10 300`` or ``500`` announces; None if it is a pair itself."""
    words = line.split()
    if len(words) > 2 or not words or not all(word.isdecimal() for word in words):
        return None
    sets, matched = (1, int(words[0])) if len(words) == 1 else (int(words[0]), int(words[1]))
    return 2 * sets * matched


def _find(folder: Path, stem: str, path: Path) -> str:
    for ending in _ENDINGS:
        if (folder / f"{stem}{ending}").is_file():
            return str(folder / f"{stem}{ending}")
    raise MissingDataError(
        f"{folder / stem}.jpg is missing (nor is there {' or '.join(_ENDINGS[1:])}); {path} names it"
    )
