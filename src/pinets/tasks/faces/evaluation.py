"""Evaluating a run, or embeddings of any model, by every protocol: reads files, writes results and their report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from pinets._files import PathLike, write_bytes
from pinets.data import CentreCrop, FolderSet, MissingDataError, SampleSet, data_folder
from pinets.engine.trained import TrainedRun
from pinets.tasks.faces.data.ijb import read_ijb
from pinets.tasks.faces.data.lfw import find_lfw
from pinets.tasks.faces.data.lists import keep, parse_pairs, read_image_list, read_noises, same_person
from pinets.tasks.faces.data.pairs import FacePairs, open_pack, open_pairs, rfw_files
from pinets.tasks.faces.data.yaleb import open_yaleb
from pinets.tasks.faces.embeddings import ChosenRows, Matrix, Summed, embed_faces, open_embeddings
from pinets.tasks.faces.metrics import Pooling, hardest_pairs, pair_scores
from pinets.tasks.faces.recipe import FaceRecipe, LfwPeople
from pinets.tasks.faces.report import hardest_sheet, write_face_report
from pinets.tasks.faces.results import FaceResult, score_ijb, score_megaface, score_pairs, score_yaleb

if TYPE_CHECKING:
    from pinets.report import Groups

__all__ = [
    "EmbeddingFiles",
    "FaceRun",
    "ListedEmbeddings",
    "MismatchError",
    "evaluate_ijb",
    "evaluate_megaface",
    "evaluate_pairs",
    "evaluate_rfw",
    "evaluate_yaleb",
    "score_lights",
    "score_test_pairs",
]

_SIZE = 112  # height and width of the images that published networks take
# the names in the paper's table of the packs that insightface distributes
_PACKS = {
    "lfw": "LFW",
    "cfp_ff": "CFP-FF",
    "cfp_fp": "CFP-FP",
    "cplfw": "CPLFW",
    "agedb_30": "AgeDB-30",
    "calfw": "CALFW",
}


class MismatchError(ValueError):
    """The embeddings or the run do not fit the list they are evaluated on."""


# Where embeddings come from


@dataclass(frozen=True)
class EmbeddingFiles:
    """Embeddings of any model.

    Args:
        path: A ``.npy`` file, one row for each image; for RFW, a folder with one file for each subset.
        mirrored: The embeddings of the mirror images, which are added; None if there are none.
        name: The model's name in tables; that of the file if left out.
        size: Height and width of the images that illustrate the hardest pairs; 112 if left out.
    """

    path: PathLike
    mirrored: PathLike | None = None
    name: str | None = None
    size: int | None = None

    @property
    def model(self) -> str:
        return self.name or Path(self.path).stem

    @property
    def image_size(self) -> int:
        return self.size or _SIZE

    @property
    def mirror_images(self) -> str:
        return "as in the embeddings given" if self.mirrored is None else "added"

    def part(self, name: str) -> EmbeddingFiles:
        """The files of one subset, of two folders of such files."""
        mirrored = None if self.mirrored is None else Path(self.mirrored) / f"{name}.npy"
        return replace(self, path=Path(self.path) / f"{name}.npy", mirrored=mirrored, name=self.model)

    def rows(self, faces: SampleSet | None, count: int | None = None) -> Matrix:
        """The embeddings; ``count`` is how many there must be."""
        rows = open_embeddings(self.path)
        if self.mirrored is not None:
            mirrored = open_embeddings(self.mirrored)
            if mirrored.shape != rows.shape:
                raise MismatchError(f"{self.mirrored} has shape {mirrored.shape}, and {self.path} {rows.shape}")
            rows = Summed(rows, mirrored)
        if count is not None and rows.shape[0] != count:
            raise MismatchError(f"{self.path} has {rows.shape[0]} rows, the list needs {count}")
        return rows


@dataclass(frozen=True)
class FaceRun:
    """Embeddings by the network of a run.

    Args:
        path: The run folder.
        flip: Whether the embeddings of the mirror images are added, as published.
        name: The model's name in tables; that of the recipe if left out.
        size: Height and width of the images; those of the run if left out.
    """

    path: PathLike
    flip: bool = True
    name: str | None = None
    size: int | None = None

    @property
    def model(self) -> str:
        return self.name or str(self._run.folder.recipe()["name"])

    @property
    def image_size(self) -> int:
        return self.size or self.recipe.data.size

    @property
    def mirror_images(self) -> str:
        return "added" if self.flip else "not used"

    def part(self, name: str) -> FaceRun:
        """The same for every subset."""
        return self

    def rows(self, faces: SampleSet | None, count: int | None = None) -> Tensor:
        """The embeddings of images."""
        if faces is None:
            raise ValueError("the network of a run needs images to embed")
        return embed_faces(self._network, faces, flip=self.flip)

    @cached_property
    def recipe(self) -> FaceRecipe:
        recipe = self._run.recipe
        if not isinstance(recipe, FaceRecipe):
            raise MismatchError(f"{self.path}: a run of {recipe.name}, which embeds no faces")
        return recipe

    @cached_property
    def _run(self) -> TrainedRun:
        return TrainedRun(Path(self.path))

    @cached_property
    def _network(self) -> nn.Module:
        return self._run.network()


Source: TypeAlias = EmbeddingFiles | FaceRun


# Protocols


def evaluate_pairs(
    source: Source,
    *,
    pack: PathLike | None = None,
    listed: PathLike | None = None,
    images: PathLike | None = None,
    hardest: int = 8,
    allow_seen: bool = False,
    data_dir: PathLike | None = None,
    out: PathLike | None = None,
) -> list[FaceResult]:
    """Verify pairs: accuracy over ten folds, and true accepts at rates of false ones.

    Embeddings from files have two rows for each pair: 2i and 2i + 1 are pair i.

    Args:
        source: Where the embeddings come from.
        pack: A ``.bin`` pack.
        listed: Instead of a pack, a list in LFW's format.
        images: For a list, the folder of images; only a run needs it.
        hardest: How many of the hardest pairs to show in the report, of either kind.
        allow_seen: Whether to evaluate a run on people it was trained on. The result then says so.
        data_dir: Where LFW is, whose people the run may have been trained on.
        out: A folder for the results, the pictures and ``report.html``.
    """
    if (pack is None) == (listed is None):
        raise ValueError("give either a pack or a list of pairs")
    seen = _seen_people(source, pack, listed, data_dir) if isinstance(source, FaceRun) else None
    if seen is not None and not allow_seen:
        raise MismatchError(
            f"{pack or listed}: people of LFW that {source.path} was trained on are {seen}; evaluate it on "
            "pairsDevTest.txt, or allow it (allow_seen)"
        )
    if listed is not None:
        data = Path(listed).stem
        same, pairs = _read_list(listed, images, source.image_size)
    else:
        assert pack is not None
        data = _PACKS.get(Path(pack).stem, Path(pack).stem)
        pairs = open_pack(pack, size=source.image_size)
        same = pairs.same
    told = {} if seen is None else {"people seen in training": seen}
    return _finish([_score_pairs(source, data, same, pairs, hardest, out, told)], out)


def evaluate_rfw(
    source: Source, folder: PathLike, *, hardest: int = 8, out: PathLike | None = None
) -> list[FaceResult]:
    """Verify the pairs of the four subsets of Racial Faces in-the-Wild.

    Args:
        source: Where the embeddings come from.
        folder: Holds ``txts/`` and ``data/``; embeddings from files do not need the latter.
        hardest: How many of the hardest pairs to show in the report, of either kind.
        out: A folder for the results, the pictures and ``report.html``.
    """
    subsets = {
        name: _read_list(listed, images if isinstance(source, FaceRun) or images.is_dir() else None, source.image_size)
        for name, (listed, images) in rfw_files(folder).items()
    }
    results = [
        _score_pairs(source.part(name), name, same, pairs, hardest, out) for name, (same, pairs) in subsets.items()
    ]
    return _finish(results, out)


def evaluate_ijb(
    source: Source,
    folder: PathLike,
    images: PathLike | None = None,
    *,
    pooling: Pooling | None = None,
    out: PathLike | None = None,
) -> list[FaceResult]:
    """IJB-B or IJB-C: 1:1 verification and, by either convention of galleries, 1:N identification.

    Args:
        source: Where the embeddings come from; files have one row for each line of ``NAME_face_tid_mid.txt``.
        folder: The meta files, as :func:`~pinets.tasks.faces.data.read_ijb` reads them.
        images: For a run, the folder of aligned faces.
        pooling: How images become templates; as published if left out.
        out: A folder for the results and ``report.html``.
    """
    folder, pooling = Path(folder), pooling or Pooling()
    meta = read_ijb(folder)
    faces = None
    if images is not None:
        paths, size = tuple(str(Path(images) / name) for name in meta.images), source.image_size
        faces = FolderSet(torch.zeros(len(paths), dtype=torch.int64), ("unknown",), CentreCrop(size, size), paths)
    if pooling.detection and meta.detection is None:
        raise MismatchError(
            f"{folder} has no detection scores (NAME_name_5pts_score.txt): pool templates without detection"
        )
    data = next(folder.glob("*_face_tid_mid.txt")).name.removesuffix("_face_tid_mid.txt").upper()
    settings = {"mirror images": source.mirror_images}
    rows = source.rows(faces, len(meta.images))
    results = score_ijb(source.model, data.replace("IJB", "IJB-"), rows, meta, pooling, settings=settings)
    return _finish(results, out)


@dataclass(frozen=True)
class ListedEmbeddings:
    """Embeddings with the list of their images.

    Args:
        path: A ``.npy`` file, one row for each image of the list.
        listed: The list, as :func:`~pinets.tasks.faces.data.read_image_list` reads it.
        noises: A list of images to leave out.
    """

    path: PathLike
    listed: PathLike | None = None
    noises: PathLike | None = None

    def read(self) -> tuple[Matrix, Tensor | None, int]:
        """The rows that are left, the people they show, and how many were left out."""
        rows = open_embeddings(self.path)
        if self.listed is None:
            if self.noises is not None:
                raise MismatchError(f"{self.noises} needs a list of the images of {self.path}, which names the rows")
            return rows, None, 0
        images = read_image_list(self.listed)
        count = len(images.paths)
        if count != rows.shape[0]:
            raise MismatchError(f"{self.listed} names {count} images, the embeddings have {rows.shape[0]} rows")
        chosen = keep(images, frozenset() if self.noises is None else read_noises(self.noises))
        if not len(chosen):
            raise MismatchError(f"{self.noises} names all {count} images of {self.listed}: none is left")
        left = rows if len(chosen) == count else ChosenRows(rows, chosen.numpy())
        return left, images.people[chosen], count - len(chosen)


def evaluate_megaface(
    probes: ListedEmbeddings,
    distractors: ListedEmbeddings,
    *,
    ranks: int = 100,
    name: str | None = None,
    out: PathLike | None = None,
) -> list[FaceResult]:
    """MegaFace: the rank among distractors, and true accepts at one false in a million.

    Args:
        probes: FaceScrub's images, with their list.
        distractors: MegaFace's images; they need a list only if some are left out.
        ranks: How far to follow the ranks.
        name: The model's name in tables; that of the probes' file if left out.
        out: A folder for the results and ``report.html``.
    """
    settings: dict[str, str] = {}
    rows, people, left_out = probes.read()
    if people is None:
        raise ValueError("the probes need a list, which names their people")
    settings["probes left out as noise"] = f"{left_out:,}"
    others, _, left_out = distractors.read()
    if distractors.listed is not None:
        settings["distractors left out as noise"] = f"{left_out:,}"
    model = name or Path(probes.path).stem
    return _finish([score_megaface(model, rows, people, others, ranks=ranks, settings=settings)], out)


def evaluate_yaleb(source: Source, folder: PathLike, *, out: PathLike | None = None) -> list[FaceResult]:
    """Extended Yale B: identification under lights further and further from the camera.

    Args:
        source: Where the embeddings come from; files have one row for each image, by path.
        folder: Holds ``CroppedYale``.
        out: A folder for the results and ``report.html``.
    """
    faces = open_yaleb(folder, size=source.image_size)
    rows = source.rows(faces.faces, len(faces.faces))
    settings = {"mirror images": source.mirror_images}
    return _finish([score_yaleb(source.model, rows, faces, settings=settings)], out)


# Groups of runs, for the pages of experiments


def score_test_pairs(groups: Groups, data_dir: PathLike | None = None) -> dict[str, dict[str, list[FaceResult]]]:
    """The results of every run on the sets of pairs its recipe tests on: by set, then by recipe, one for each seed."""
    scored: dict[str, dict[str, list[FaceResult]]] = {}
    for name, runs in groups.items():
        for run in runs:
            source = FaceRun(run.path, name=name)
            for data, pairs in source.recipe.data.load(data_folder(data_dir)).verification["test"].sets.items():
                result = score_pairs(name, data, source.rows(pairs.faces), pairs.pairs, pairs.same)
                scored.setdefault(data, {}).setdefault(name, []).append(result)
    return scored


def score_lights(groups: Groups, data_dir: PathLike | None = None) -> dict[str, list[FaceResult]]:
    """Identification on Extended Yale B by illumination, for every run; empty if the dataset is missing."""
    found: dict[str, list[FaceResult]] = {}
    for name, runs in groups.items():
        for run in runs:
            source = FaceRun(run.path, name=name)
            try:
                faces = open_yaleb(data_folder(data_dir), size=source.image_size)
            except MissingDataError:
                return {}
            found.setdefault(name, []).append(score_yaleb(name, source.rows(faces.faces), faces))
    return found


# Helpers


def _read_list(path: PathLike, images: PathLike | None, size: int) -> tuple[Tensor, FacePairs | None]:
    """Whether each pair of a list is of one person, and the pairs with their images if there are any."""
    if images is None:
        return same_person(parse_pairs(path)), None
    pairs = open_pairs(path, images, size=size)
    return pairs.same, pairs


def _score_pairs(
    source: Source,
    data: str,
    same: Tensor,
    pairs: FacePairs | None,
    hardest: int,
    out: PathLike | None,
    told: Mapping[str, str] | None = None,
) -> FaceResult:
    """Score pairs; if they have images and results are saved, also draw a sheet of the hardest."""
    if isinstance(source, FaceRun):
        rows: Any = source.rows(None if pairs is None else pairs.faces)
        assert pairs is not None
        places = pairs.pairs
    else:
        rows, places = source.rows(None, 2 * len(same)), torch.arange(2 * len(same)).view(-1, 2)
    settings = {"mirror images": source.mirror_images, **(told or {})}
    result = score_pairs(source.model, data, rows, places, same, settings=settings)
    if pairs is None or out is None:
        return result
    scores = pair_scores(rows, places)
    name = result.file_name.replace(".json", ".png")
    write_bytes(Path(out) / name, hardest_sheet(pairs, scores, hardest_pairs(scores, same, hardest)))
    return replace(result, pictures={f"Hardest pairs of {data} for {result.model}": name})


def _seen_people(run: FaceRun, pack: PathLike | None, listed: PathLike | None, data_dir: PathLike | None) -> str | None:
    """In how many pairs there are people the run was trained on, in words; None if in none.

    Only runs on LFW name their people. Those held out for validation count too: recipes were chosen on them.
    """
    if not isinstance(run.recipe.data, LfwPeople):
        return None
    if pack is not None:  # CALFW and CPLFW are other images of LFW's people
        return "in an unknown number of pairs (packs name nobody)" if "lfw" in Path(pack).stem.lower() else None
    assert listed is not None
    try:
        developed = parse_pairs(find_lfw(data_folder(data_dir)) / "pairsDevTrain.txt")
    except MissingDataError as error:
        return f"in an unknown number of pairs ({error})"
    people = {name for pair in developed for name, _ in pair}
    pairs = parse_pairs(listed)
    count = sum(first in people or second in people for (first, _), (second, _) in pairs)
    return f"in {count:,} of {len(pairs):,} pairs" if count else None


def _finish(results: list[FaceResult], out: PathLike | None) -> list[FaceResult]:
    """Save the results and write the report of all results in the folder."""
    if out is not None:
        for result in results:
            result.save(out)
        write_face_report(out)
    return results
