"""What each protocol of ``pinets eval faces`` does."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinets.cli.eval_faces.seen import tell_seen
from pinets.cli.eval_faces.source import image_size, model_name, read_embeddings, require_one_source, require_rows
from pinets.cli.parser import UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from pinets.data.faces.face_pairs import FacePairs
    from pinets.report.face_results import FaceResult

__all__ = ["run_ijb", "run_megaface", "run_pairs", "run_rfw", "run_yaleb"]

# the names of the paper's table for the packs that people have
_PACKS = {
    "lfw": "LFW",
    "cfp_ff": "CFP-FF",
    "cfp_fp": "CFP-FP",
    "cplfw": "CPLFW",
    "agedb_30": "AgeDB-30",
    "calfw": "CALFW",
}


def run_pairs(args: argparse.Namespace) -> int:
    from pinets.data.faces import open_pack

    require_one_source(args)
    if (args.pack is None) == (args.list is None):
        raise UsageError("give --pack FILE, or --list FILE with --images DIR; --embeddings need no images")
    if args.pack is not None and args.images is not None:
        raise UsageError("--images is for --list: --pack brings its own")
    if args.list is not None and args.images is None and args.embeddings is None:
        raise UsageError("--run needs images: name their folder by --images, beside --list")
    if args.run_folder is None and (args.data is not None or args.allow_seen):
        raise UsageError("--data and --allow-seen are for --run: whom --embeddings have seen is not known")
    told = tell_seen(args)
    if args.list is not None:
        (same, pairs), data = _open_list(args.list, args.images, image_size(args)), args.list.stem
    else:
        pairs, data = open_pack(args.pack, size=image_size(args)), _PACKS.get(args.pack.stem, args.pack.stem)
        same = pairs.same
    return _finish(args, [_score_pairs(args, data, same, pairs, args.embeddings, args.flipped, told)])


def run_rfw(args: argparse.Namespace) -> int:
    from pinets.data.faces import rfw_files

    require_one_source(args)
    size = image_size(args)
    subsets = {
        name: _open_list(listed, images if args.embeddings is None or images.is_dir() else None, size)
        for name, (listed, images) in rfw_files(args.folder).items()
    }
    results = []
    for name, (same, pairs) in subsets.items():
        files = [None if folder is None else folder / f"{name}.npy" for folder in (args.embeddings, args.flipped)]
        results.append(_score_pairs(args, name, same, pairs, *files))
    return _finish(args, results)


def run_ijb(args: argparse.Namespace) -> int:
    import torch

    from pinets.data import CentreCrop, FolderSet
    from pinets.data.faces import read_ijb
    from pinets.metrics.faces import Pooling
    from pinets.report.face_results import score_ijb

    require_one_source(args)
    if args.embeddings is not None and args.images is not None:
        raise UsageError("--images is for --run: --embeddings need no images")
    meta = read_ijb(args.folder)
    faces = None
    if args.run_folder is not None:
        if args.images is None:
            raise UsageError("with --run, name the folder of aligned faces by --images")
        paths, size = tuple(str(args.images / name) for name in meta.images), image_size(args)
        faces = FolderSet(torch.zeros(len(paths), dtype=torch.int64), ("unknown",), CentreCrop(size, size), paths)
    detection = not args.no_detection
    if detection and meta.detection is None:
        raise UsageError(f"{args.folder} has no detection scores (NAME_name_5pts_score.txt): add --no-detection")
    rows, settings = read_embeddings(args, faces, args.embeddings, args.flipped)
    pooling = Pooling(normalize=args.normalize, detection=detection, media=not args.no_media)
    data = next(args.folder.glob("*_face_tid_mid.txt")).name.removesuffix("_face_tid_mid.txt").upper()
    return _finish(
        args, score_ijb(model_name(args), data.replace("IJB", "IJB-"), rows, meta, pooling, settings=settings)
    )


def run_megaface(args: argparse.Namespace) -> int:
    from pinets.data.faces import ChosenRows, keep, open_embeddings, read_image_list, read_noises
    from pinets.report.face_results import score_megaface

    rows: dict[str, Any] = {}
    people: dict[str, Tensor] = {}
    settings: dict[str, str] = {}
    for kind in ("probe", "distractor"):
        matrix = open_embeddings(getattr(args, f"{kind}s"))
        listed, noises = getattr(args, f"{kind}_list"), getattr(args, f"{kind}_noises")
        if listed is None and noises is not None:
            raise UsageError(f"--{kind}-noises needs --{kind}-list, which names the rows")
        if listed is not None:
            images = read_image_list(listed)
            if len(images.paths) != matrix.shape[0]:
                raise UsageError(
                    f"{listed} names {len(images.paths)} images, the embeddings have {matrix.shape[0]} rows"
                )
            chosen = keep(images, read_noises(noises) if noises else frozenset())
            if not len(chosen):
                raise UsageError(f"{noises} names all {len(images.paths)} images of {listed}: no {kind} is left")
            settings[f"{kind}s left out as noise"] = f"{matrix.shape[0] - len(chosen):,}"
            if len(chosen) < matrix.shape[0]:
                matrix = ChosenRows(matrix, chosen.numpy())
            people[kind] = images.people[chosen]
        rows[kind] = matrix
    args.embeddings, args.run_folder = args.probes, None
    result = score_megaface(
        model_name(args), rows["probe"], people["probe"], rows["distractor"], ranks=args.ranks, settings=settings
    )
    return _finish(args, [result])


def run_yaleb(args: argparse.Namespace) -> int:
    from pinets.data.faces import open_yaleb
    from pinets.report.face_results import score_yaleb

    require_one_source(args)
    faces = open_yaleb(args.folder, size=image_size(args))
    rows, settings = read_embeddings(args, faces.faces, args.embeddings, args.flipped)
    require_rows(rows, len(faces.faces), args.embeddings)
    return _finish(args, [score_yaleb(model_name(args), rows, faces, settings=settings)])


def _open_list(path: Path, images: Path | None, size: int) -> tuple[Tensor, FacePairs | None]:
    """Whether each pair of a list is of one person, and the pairs with their images if there are any."""
    from pinets.data.faces import open_pairs, parse_pairs, same_person

    if images is None:
        return same_person(parse_pairs(path)), None
    pairs = open_pairs(path, images, size=size)
    return pairs.same, pairs


def _score_pairs(
    args: argparse.Namespace,
    data: str,
    same: Tensor,
    pairs: FacePairs | None,
    embeddings: Path | None,
    flipped: Path | None,
    told: dict[str, str] | None = None,
) -> FaceResult:
    """Score pairs; those with images also get a sheet of the hardest."""
    from dataclasses import replace

    import torch

    from pinets._files import write_bytes
    from pinets.metrics.faces import pair_scores
    from pinets.report.face_results import score_pairs
    from pinets.report.faces import hardest_sheet

    rows, settings = read_embeddings(args, None if pairs is None else pairs.faces, embeddings, flipped)
    if pairs is None or embeddings is not None:
        require_rows(rows, 2 * len(same), embeddings)
        places = torch.arange(2 * len(same)).view(-1, 2)
    else:
        places = pairs.pairs
    result = score_pairs(model_name(args), data, rows, places, same, settings=settings | (told or {}))
    if pairs is None:
        return result
    name = result.file_name.replace(".json", ".png")
    write_bytes(args.out / name, hardest_sheet(pairs, pair_scores(rows, places), args.hardest))
    return replace(result, pictures={f"Hardest pairs of {data} for {result.model}": name})


def _finish(args: argparse.Namespace, results: list[FaceResult]) -> int:
    """Print, save and report."""
    from pinets.report.faces import face_table, write_face_report
    from pinets.report.text import aligned

    for protocol in dict.fromkeys(result.protocol for result in results):
        some = [result for result in results if result.protocol == protocol]
        print(f"{some[0].model}, {protocol}, {', '.join(dict.fromkeys(result.data for result in some))}")
        for name, value in some[0].settings.items():
            print(f"  {name}: {value}")
        for line in aligned(face_table(some)):
            print(f"  {line}")
    for result in results:
        result.save(args.out)
    print(f"report: {write_face_report(args.out)}")
    return 0
