"""``pinets eval faces``: verification and identification, of a run or of embeddings of any model."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinets.cli.arguments import positive
from pinets.cli.parser import Parser, UsageError, Verbs, Words, add_verb

if TYPE_CHECKING:
    from pinets.tasks.faces import EmbeddingFiles, FaceResult, FaceRun

__all__ = ["add_parser"]


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
    parser.add_argument("--data", metavar="DIR", help="where LFW is (default: $PINETS_DATA)")
    parser.add_argument("--allow-seen", action="store_true", help="evaluate the run on people it was trained on")
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
    """Add ``--run`` and ``--embeddings`` with their options, and the options of results."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--run", metavar="RUN", dest="run_folder", type=Path, help="embed the images with this run's network"
    )
    source.add_argument("--embeddings", metavar="FILE", type=Path, help=".npy, from any model")
    parser.add_argument("--flipped", metavar="FILE", type=Path, help="embeddings of the mirror images, which are added")
    parser.add_argument("--no-flip", action="store_true", help="with --run: do not add those of the mirror images")
    parser.add_argument("--size", type=positive, help="of the images (default: the run's)")
    _add_result(parser)


def _add_result(parser: Parser) -> None:
    parser.add_argument("--name", help="of the model, in tables (default: the run's, or that of the embeddings' file)")
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path("runs/faces"), help="(default: %(default)s)")


def run_pairs(args: argparse.Namespace) -> int:
    from pinets.tasks.faces import evaluate_pairs

    source = _source(args)
    if (args.pack is None) == (args.list is None):
        raise UsageError("give --pack FILE, or --list FILE with --images DIR; --embeddings need no images")
    if args.pack is not None and args.images is not None:
        raise UsageError("--images is for --list: --pack brings its own")
    if args.list is not None and args.images is None and args.embeddings is None:
        raise UsageError("--run needs images: name their folder by --images, beside --list")
    if args.run_folder is None and (args.data is not None or args.allow_seen):
        raise UsageError("--data and --allow-seen are for --run: whom --embeddings have seen is not known")
    options = {"pack": args.pack, "listed": args.list, "images": args.images, "hardest": args.hardest}
    return _evaluate(evaluate_pairs, args.out, source, **options, allow_seen=args.allow_seen, data_dir=args.data)


def run_rfw(args: argparse.Namespace) -> int:
    from pinets.tasks.faces import evaluate_rfw

    return _evaluate(evaluate_rfw, args.out, _source(args), args.folder, hardest=args.hardest)


def run_ijb(args: argparse.Namespace) -> int:
    from pinets.tasks.faces import Pooling, evaluate_ijb

    source = _source(args)
    if args.embeddings is not None and args.images is not None:
        raise UsageError("--images is for --run: --embeddings need no images")
    if args.run_folder is not None and args.images is None:
        raise UsageError("with --run, name the folder of aligned faces by --images")
    pooling = Pooling(normalize=args.normalize, detection=not args.no_detection, media=not args.no_media)
    return _evaluate(evaluate_ijb, args.out, source, args.folder, args.images, pooling=pooling)


def run_megaface(args: argparse.Namespace) -> int:
    from pinets.tasks.faces import ListedEmbeddings, evaluate_megaface

    if args.distractor_list is None and args.distractor_noises is not None:
        raise UsageError("--distractor-noises needs --distractor-list, which names the rows")
    probes = ListedEmbeddings(args.probes, args.probe_list, args.probe_noises)
    distractors = ListedEmbeddings(args.distractors, args.distractor_list, args.distractor_noises)
    return _evaluate(evaluate_megaface, args.out, probes, distractors, ranks=args.ranks, name=args.name)


def run_yaleb(args: argparse.Namespace) -> int:
    from pinets.tasks.faces import evaluate_yaleb

    return _evaluate(evaluate_yaleb, args.out, _source(args), args.folder)


def _source(args: argparse.Namespace) -> EmbeddingFiles | FaceRun:
    """The source of embeddings; options that do not fit it are refused."""
    from pinets.tasks.faces import EmbeddingFiles, FaceRun

    if args.run_folder is not None:
        if args.flipped is not None:
            raise UsageError("--flipped is for --embeddings: --run embeds the mirror images itself, unless --no-flip")
        return FaceRun(args.run_folder, not args.no_flip, args.name, args.size)
    if args.no_flip:
        raise UsageError("--no-flip is for --run: --embeddings are taken as they are, unless --flipped names others")
    return EmbeddingFiles(args.embeddings, args.flipped, args.name, args.size)


def _evaluate(function: Callable[..., list[FaceResult]], out: Path, *values: Any, **options: Any) -> int:
    """Call an evaluation, which saves its results, and print them."""
    from pinets.report import aligned
    from pinets.tasks.faces import MismatchError, face_table

    try:
        results = function(*values, **options, out=out)
    except MismatchError as error:
        raise UsageError(str(error)) from error
    for protocol in dict.fromkeys(result.protocol for result in results):
        some = [result for result in results if result.protocol == protocol]
        print(f"{some[0].model}, {protocol}, {', '.join(dict.fromkeys(result.data for result in some))}")
        for name, value in some[0].settings.items():
            print(f"  {name}: {value}")
        for line in aligned(face_table(some)):
            print(f"  {line}")
    print(f"report: {out / 'report.html'}")
    return 0
