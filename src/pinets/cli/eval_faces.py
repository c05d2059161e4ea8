"""``pinets eval faces``: verification and identification, of a run or of embeddings from anywhere."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import positive
from pinets.cli.parser import Parser, UsageError, Verbs, Words, add_verb

if TYPE_CHECKING:
    from torch import Tensor

    from pinets.data.face_pairs import FacePairs
    from pinets.data.samples import SampleSet
    from pinets.recipes import Recipe
    from pinets.report.face_results import FaceResult

__all__ = ["add_parser"]

# the names of the paper's table for the packs that people have
_PACKS = {
    "lfw": "LFW",
    "cfp_ff": "CFP-FF",
    "cfp_fp": "CFP-FP",
    "cplfw": "CPLFW",
    "agedb_30": "AgeDB-30",
    "calfw": "CALFW",
}


def add_parser(words: Words) -> None:
    parser = add_verb(
        words,
        "faces",
        None,
        summary="verify and identify faces, by the protocols of the paper",
        details="Results of one --out folder are compared in its report.html.",
        example="""
            pinets eval faces pairs --pack lfw.bin --run runs/ms1m_arcface_resnet50/seed-0
            pinets eval faces pairs --pack lfw.bin --embeddings lfw.npy --name ResNet50
            pinets eval faces ijb IJBC/meta --embeddings ijbc.npy
        """,
    )
    protocols = parser.add_subparsers(title="protocols", metavar="PROTOCOL", dest="protocol", required=True)
    _add_pairs(protocols)
    _add_rfw(protocols)
    _add_ijb(protocols)
    _add_megaface(protocols)
    _add_yaleb(protocols)


def _add_pairs(protocols: Verbs) -> None:
    parser = add_verb(
        protocols,
        "pairs",
        run_pairs,
        summary="accuracy over ten folds and true accepts at rates of false ones, for a list of pairs",
        details="Embeddings have two rows for each pair, in its order: 2i and 2i + 1 are pair i.",
        example="""
            pinets eval faces pairs --pack cfp_fp.bin --embeddings cfp_fp.npy --flipped cfp_fp_mirrored.npy
            pinets eval faces pairs --list pairs.txt --embeddings lfw.npy
            pinets eval faces pairs --list pairsDevTest.txt --images lfw --run runs/lfw_iresnet-small/seed-0
        """,
    )
    parser.add_argument("--pack", metavar="FILE", type=Path, help="a .bin pack, such as lfw.bin")
    parser.add_argument("--list", metavar="FILE", type=Path, help="a list in LFW's format, such as pairs.txt")
    parser.add_argument("--images", metavar="DIR", type=Path, help="with --list: NAME/NAME_0001.jpg and so on")
    parser.add_argument("--data", metavar="DIR", help="where the run's data set is (default: $PINETS_DATA)")
    parser.add_argument("--allow-seen", action="store_true", help="go on with pairs of people the run was trained on")
    _add_source(parser)
    parser.add_argument("--hardest", metavar="N", type=positive, default=8, help="pairs to show (default: %(default)s)")


def _add_rfw(protocols: Verbs) -> None:
    parser = add_verb(
        protocols,
        "rfw",
        run_rfw,
        summary="the four subsets of Racial Faces in-the-Wild",
        details="Embeddings are a folder with Caucasian.npy, Indian.npy, Asian.npy and African.npy, two rows a pair.",
        example="pinets eval faces rfw RFW/test --run runs/ms1m_arcface_resnet50/seed-0",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="holds txts/ and data/")
    _add_source(parser)
    parser.add_argument("--hardest", metavar="N", type=positive, default=8, help="pairs to show (default: %(default)s)")


def _add_ijb(protocols: Verbs) -> None:
    parser = add_verb(
        protocols,
        "ijb",
        run_ijb,
        summary="IJB-B or IJB-C: 1:1 and, by either convention of galleries, 1:N",
        details="Embeddings have one row for each line of NAME_face_tid_mid.txt.",
        example="""
            pinets eval faces ijb IJBC/meta --embeddings ijbc.npy --flipped ijbc_mirrored.npy
            pinets eval faces ijb IJBB/meta --images IJBB/aligned --run runs/ms1m_arcface_resnet50/seed-0
        """,
    )
    parser.add_argument("folder", metavar="META", type=Path, help="the folder of the meta files")
    parser.add_argument("--images", metavar="DIR", type=Path, help="with --run: aligned faces by the names of the list")
    _add_source(parser)
    parser.add_argument("--normalize", action="store_true", help="bring embeddings to length one before pooling")
    parser.add_argument("--no-detection", action="store_true", help="do not weigh images by the detector's score")
    parser.add_argument("--no-media", action="store_true", help="do not average the frames of a video first")


def _add_megaface(protocols: Verbs) -> None:
    parser = add_verb(
        protocols,
        "megaface",
        run_megaface,
        summary="MegaFace: rank among distractors, and true accepts at one false in a million",
        details="Embeddings have one row for each image of their list; images on a list of noises are left out.",
        example="""
            pinets eval faces megaface --probes facescrub.npy --probe-list facescrub_features_list.json \\
            --distractors megaface.npy --distractor-list megaface_features_list.json_1000000_1 \\
            --probe-noises facescrub_noises.txt --distractor-noises megaface_noises.txt
        """,
    )
    for name in ("probe", "distractor"):
        parser.add_argument(f"--{name}s", metavar="FILE", type=Path, required=True, help=f"embeddings of the {name}s")
        parser.add_argument(f"--{name}-list", metavar="FILE", type=Path, required=name == "probe", help="JSON or text")
        parser.add_argument(f"--{name}-noises", metavar="FILE", type=Path, help=f"{name}s to leave out")
    parser.add_argument("--ranks", metavar="N", type=positive, default=100, help="how far (default: %(default)s)")
    _add_result(parser)


def _add_yaleb(protocols: Verbs) -> None:
    parser = add_verb(
        protocols,
        "yaleb",
        run_yaleb,
        summary="Extended Yale B: who is it, under lights further and further from the camera",
        details="Known from subset 1. Embeddings have one row for each image, by path.",
        example="pinets eval faces yaleb data --run runs/lfw_iresnet-small/seed-0",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="holds CroppedYale")
    _add_source(parser)


def _add_source(parser: Parser) -> None:
    """Where embeddings come from, and where results go."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", metavar="RUN", dest="run_folder", help="embed the images with this run's network")
    source.add_argument("--embeddings", metavar="FILE", type=Path, help=".npy, from any model")
    parser.add_argument("--flipped", metavar="FILE", type=Path, help="embeddings of the mirror images, which are added")
    parser.add_argument("--no-flip", action="store_true", help="with --run: do not add those of the mirror images")
    parser.add_argument("--size", type=positive, help="of the images (default: the run's)")
    _add_result(parser)


def _add_result(parser: Parser) -> None:
    parser.add_argument("--name", help="of the model, in tables (default: the run's, or that of the embeddings' file)")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("runs/faces"), help="(default: %(default)s)")


def run_pairs(args: argparse.Namespace) -> int:
    from pinets.data.faces import open_pack

    _require_one_source(args)
    if (args.pack is None) == (args.list is None):
        raise UsageError("give --pack FILE, or --list FILE with --images DIR; --embeddings need no images")
    if args.pack is not None and args.images is not None:
        raise UsageError("--images is for --list: --pack brings its own")
    if args.list is not None and args.images is None and args.embeddings is None:
        raise UsageError("--run needs images: name their folder by --images, beside --list")
    if args.run_folder is None and (args.data is not None or args.allow_seen):
        raise UsageError("--data and --allow-seen are for --run: whom --embeddings have seen is not known")
    told = _seen_in_training(args)
    if args.list is not None:
        (same, pairs), data = _open_list(args.list, args.images, _size(args)), args.list.stem
    else:
        pairs, data = open_pack(args.pack, size=_size(args)), _PACKS.get(args.pack.stem, args.pack.stem)
        same = pairs.same
    return _finish(args, [_score_pairs(args, data, same, pairs, args.embeddings, args.flipped, told)])


def run_rfw(args: argparse.Namespace) -> int:
    from pinets.data.faces import rfw_files

    _require_one_source(args)
    size = _size(args)
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

    _require_one_source(args)
    if args.embeddings is not None and args.images is not None:
        raise UsageError("--images is for --run: --embeddings need no images")
    meta = read_ijb(args.folder)
    faces = None
    if args.run_folder is not None:
        if args.images is None:
            raise UsageError("with --run, name the folder of aligned faces by --images")
        paths, size = tuple(str(args.images / name) for name in meta.images), _size(args)
        faces = FolderSet(torch.zeros(len(paths), dtype=torch.int64), ("unknown",), CentreCrop(size, size), paths)
    detection = not args.no_detection
    if detection and meta.detection is None:
        raise UsageError(f"{args.folder} has no detection scores (NAME_name_5pts_score.txt): add --no-detection")
    rows, settings = _embeddings(args, faces, args.embeddings, args.flipped)
    pooling = Pooling(normalize=args.normalize, detection=detection, media=not args.no_media)
    data = next(args.folder.glob("*_face_tid_mid.txt")).name.removesuffix("_face_tid_mid.txt").upper()
    return _finish(args, score_ijb(_model(args), data.replace("IJB", "IJB-"), rows, meta, pooling, settings=settings))


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
        _model(args), rows["probe"], people["probe"], rows["distractor"], ranks=args.ranks, settings=settings
    )
    return _finish(args, [result])


def run_yaleb(args: argparse.Namespace) -> int:
    from pinets.data.faces import open_yaleb
    from pinets.report.face_results import score_yaleb

    _require_one_source(args)
    faces = open_yaleb(args.folder, size=_size(args))
    rows, settings = _embeddings(args, faces.faces, args.embeddings, args.flipped)
    _require_rows(rows, len(faces.faces), args.embeddings)
    return _finish(args, [score_yaleb(_model(args), rows, faces, settings=settings)])


def _require_one_source(args: argparse.Namespace) -> None:
    """Refuse options of the source that is not used: left aside, they would look as if they had counted."""
    if args.run_folder is not None and args.flipped is not None:
        raise UsageError("--flipped is for --embeddings: --run embeds the mirror images itself, unless --no-flip")
    if args.embeddings is not None and args.no_flip:
        raise UsageError("--no-flip is for --run: --embeddings are taken as they are, unless --flipped names others")


def _seen_in_training(args: argparse.Namespace) -> dict[str, str]:
    """What to tell of pairs of people that the run was trained on; without --allow-seen they are refused.

    Such people are recognised far better than strangers, for whom the figures are meant.
    """
    seen = _seen_pairs(args)
    if seen is not None and not args.allow_seen:
        raise UsageError(
            f"{args.pack or args.list}: people of LFW that {args.run_folder} was trained on are {seen}; evaluate it on "
            "pairsDevTest.txt, or go on all the same by --allow-seen"
        )
    return {} if seen is None else {"people seen in training": seen}


def _seen_pairs(args: argparse.Namespace) -> str | None:
    """In how many pairs people are that the run saw, in words; None if in none. Only runs on LFW know their names."""
    from pinets.data import MissingDataError, data_folder
    from pinets.data.faces import parse_pairs
    from pinets.data.lfw import find_lfw
    from pinets.recipes import LfwPeople

    if args.run_folder is None or not isinstance(getattr(_recipe(args), "data", None), LfwPeople):
        return None
    if args.pack is not None:  # CALFW and CPLFW are other images of LFW's people
        return "in an unknown number of pairs (packs name nobody)" if "lfw" in args.pack.stem.lower() else None
    try:
        listed = parse_pairs(find_lfw(data_folder(args.data)) / "pairsDevTrain.txt")
    except MissingDataError as error:
        return f"in an unknown number of pairs ({error})"
    # with those held out for validation, on whom the values of the recipes were chosen
    people = {name for pair in listed for name, _ in pair}
    pairs = parse_pairs(args.list)
    count = sum(first in people or second in people for (first, _), (second, _) in pairs)
    return f"in {count:,} of {len(pairs):,} pairs" if count else None


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

    rows, settings = _embeddings(args, None if pairs is None else pairs.faces, embeddings, flipped)
    if pairs is None or embeddings is not None:
        _require_rows(rows, 2 * len(same), embeddings)
        places = torch.arange(2 * len(same)).view(-1, 2)
    else:
        places = pairs.pairs
    result = score_pairs(_model(args), data, rows, places, same, settings=settings | (told or {}))
    if pairs is None:
        return result
    name = result.file_name.replace(".json", ".png")
    write_bytes(args.out / name, hardest_sheet(pairs, pair_scores(rows, places), args.hardest))
    return replace(result, pictures={f"Hardest pairs of {data} for {result.model}": name})


def _embeddings(
    args: argparse.Namespace, faces: SampleSet | None, embeddings: Path | None, flipped: Path | None
) -> tuple[Any, dict[str, str]]:
    """The rows, and what to tell of them: from files, or from the run's network."""
    from pinets.data.faces import open_embeddings
    from pinets.metrics.faces import Summed, embed_faces

    if embeddings is not None:
        rows = open_embeddings(embeddings)
        if flipped is None:
            return rows, {"mirror images": "as in the embeddings given"}
        mirrored = open_embeddings(flipped)
        if mirrored.shape != rows.shape:
            raise UsageError(f"{flipped} has shape {mirrored.shape}, and {embeddings} {rows.shape}")
        return Summed(rows, mirrored), {"mirror images": "added"}
    from pinets.recipes import trained

    assert faces is not None
    flip = not args.no_flip
    rows = embed_faces(trained(args.run_folder).network, faces, flip=flip)
    return rows, {"mirror images": "added" if flip else "not used"}


def _require_rows(rows: Any, count: int, path: Path | None) -> None:
    if rows.shape[0] != count:
        raise UsageError(f"{path} has {rows.shape[0]} rows, the list needs {count}")


def _size(args: argparse.Namespace) -> int:
    """Of the images: as told, as the run was trained, or as everybody's."""
    if args.size is not None or args.run_folder is None:
        return args.size or 112
    return int(getattr(getattr(_recipe(args), "data", None), "size", 112))


def _recipe(args: argparse.Namespace) -> Recipe:
    from pinets.recipes import trained

    return trained(args.run_folder).recipe


def _model(args: argparse.Namespace) -> str:
    if args.name:
        return str(args.name)
    if args.run_folder is None:
        return str(args.embeddings.stem)
    from pinets.train.run import RunFolder

    return str(RunFolder(args.run_folder).recipe()["name"])


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
