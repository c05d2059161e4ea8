"""The words of ``pinets eval faces``."""

from __future__ import annotations

from pathlib import Path

from pinets.cli.arguments import positive
from pinets.cli.eval_faces.protocols import run_ijb, run_megaface, run_pairs, run_rfw, run_yaleb
from pinets.cli.parser import Parser, Verbs, Words, add_verb

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
