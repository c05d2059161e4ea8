"""Lists of pairs in LFW's format, over folders of one person each: LFW's own, and RFW's four."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from pinets._files import PathLike
from pinets.data.errors import DataError, MissingDataError
from pinets.data.faces.face_pairs import FacePairs
from pinets.data.faces.text import read_text
from pinets.data.formats.decode import CentreCrop
from pinets.data.sets.folders import FolderSet

__all__ = ["RFW_SUBSETS", "ListedPair", "open_pairs", "open_rfw", "parse_pairs", "rfw_files", "same_person"]

RFW_SUBSETS = ("Caucasian", "Indian", "Asian", "African")  # in the order of the paper's table
_ENDINGS = (".jpg", ".png", ".jpeg")

ListedPair = tuple[tuple[str, int], tuple[str, int]]  # a person and the number of an image, twice


def parse_pairs(path: PathLike) -> list[ListedPair]:
    """Read ``pairs.txt``, ``pairsDevTest.txt``, ``pairsDevTrain.txt`` or ``African_pairs.txt``.

    A line names a pair of one person (name, number, number) or of two (name, number, name, number). The first line may
    announce how many there are: the pairs of one person in each set (as many of two follow), or the number of sets
    before that.
    """
    lines = read_text(path).splitlines()
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


def same_person(pairs: Sequence[ListedPair]) -> Tensor:
    """Whether each pair is of one person.

    >>> same_person([(("Ann", 1), ("Ann", 2)), (("Ann", 1), ("Bob", 1))])
    tensor([ True, False])
    """
    return torch.tensor([first == second for (first, _), (second, _) in pairs])


def open_pairs(path: PathLike, images: PathLike, *, size: int) -> FacePairs:
    """The pairs of a list, with the images ``images/NAME/NAME_0001.jpg``, each of which is read once.

    Args:
        path: The list, as :func:`parse_pairs` reads it.
        images: Holds one folder for each person.
        size: Images are scaled to this height and width.
    """
    path, images = Path(path), Path(images)
    pairs = parse_pairs(path)
    faces = sorted({face for pair in pairs for face in pair})
    people = tuple(sorted({name for name, _ in faces}))
    place = {face: number for number, face in enumerate(faces)}
    files = tuple(_find(images / name, f"{name}_{number:04d}", path) for name, number in faces)
    label = {name: number for number, name in enumerate(people)}
    return FacePairs(
        FolderSet(torch.tensor([label[name] for name, _ in faces]), people, CentreCrop(size, size), files),
        torch.tensor([[place[first], place[second]] for first, second in pairs]),
        same_person(pairs),
    )


def open_rfw(folder: PathLike, *, size: int) -> dict[str, FacePairs]:
    """The four subsets of Racial Faces in-the-Wild, by name.

    Args:
        folder: Holds ``txts/African/African_pairs.txt`` and ``data/African/ID/ID_0001.jpg``, and so on; or holds
            ``test``, which holds these.
        size: Images are scaled to this height and width.
    """
    return {name: open_pairs(path, images, size=size) for name, (path, images) in rfw_files(folder).items()}


def rfw_files(folder: PathLike) -> dict[str, tuple[Path, Path]]:
    """The list and the folder of images of each subset, in the folder that :func:`open_rfw` takes."""
    folder = Path(folder)
    root = folder / "test" if (folder / "test" / "txts").is_dir() else folder
    return {name: (root / "txts" / name / f"{name}_pairs.txt", root / "data" / name) for name in RFW_SUBSETS}


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
