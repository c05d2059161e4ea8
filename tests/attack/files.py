"""Mutated files for every reader: each is read as it was meant, or refused by name."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import shutil
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from pinets import CCP, spec
from pinets._storage import digest
from pinets.convert.weights import load_weights
from pinets.data import CentreCrop
from pinets.data.formats.idx import read_idx
from pinets.data.formats.images import decode_image, encode_png
from pinets.data.formats.npy import open_array
from pinets.data.formats.pickles import load_arrays
from pinets.data.formats.shards import open_shards, write_shards
from pinets.data.samples import ImageSet, Splits
from pinets.data.sets.cifar import read_cifar10
from pinets.engine.checkpoint import Checkpoints
from pinets.engine.run import RunFolder
from pinets.export import export, read_metadata
from pinets.operators.hierarchy import Hierarchy
from pinets.report import group_runs, write_report
from pinets.tasks import get_recipe, recipe_from_json, to_json
from pinets.tasks.faces.data.lists import parse_pairs, read_image_list, read_noises
from pinets.tasks.faces.data.pairs import open_pack
from pinets.tasks.faces.data.recordio import open_records
from pinets.tasks.generation.metrics.statistics import FeatureStatistics
from pinets.tasks.meshes.geometry.files import read_mesh, write_mesh
from tests.attack.guard import survive
from tests.attack.mutation import mutate
from tests.attack.tally import Tally, cases

__all__ = ["attack"]

CROP = CentreCrop(8, 8)


@dataclass(frozen=True)
class Reader:
    """A kind of file: how to make a small one in a folder, and how to read it."""

    make: Callable[[Path], object]
    read: Callable[[Path], object]


def attack(seconds: float, seed: int) -> Tally:
    """Mutate one file of one reader at a time."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary, "made")
        for name, random in cases(seconds, seed):
            kind = random.choice(list(READERS))
            original = made / kind
            if not original.exists():
                original.mkdir(parents=True)
                READERS[kind].make(original)
                READERS[kind].read(original)  # as it is, it is read
            mutated = Path(temporary, "mutated")
            shutil.rmtree(mutated, ignore_errors=True)
            shutil.copytree(original, mutated)
            file = random.choice(sorted(path for path in mutated.rglob("*") if path.is_file()))
            file.write_bytes(_mutated(file, random))
            told = (file.name, file.parent.name, file.stem)
            survive(
                tally,
                f"{name}, {kind}, {file.relative_to(mutated)}",
                lambda k=kind, m=mutated: READERS[k].read(m),
                told,
            )
    return tally


def _mutated(file: Path, random: Random) -> bytes:
    content = mutate(file.read_bytes(), random)
    if file.name == "checkpoint.json" and random.random() < 0.7:  # malformed, and with the right checksum
        try:
            document = json.loads(content)
            document["sha256"] = digest(document["content"])
            return json.dumps(document).encode()
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
    return content


def _write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def _bytes_of(save: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def _images() -> ImageSet:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (12, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return ImageSet(pixels, torch.arange(12) % 3, ("a", "b", "c"))


def _png() -> bytes:
    return encode_png(_images().images[0])


def _encode(kind: str) -> bytes:
    from PIL import Image

    picture = Image.open(io.BytesIO(_png()))
    return _bytes_of(lambda file: picture.save(file, kind))


def _make_checkpoint(folder: Path) -> None:
    process = SimpleNamespace(is_main_process=True, process_index=0, num_processes=1, wait_for_everyone=lambda: None)
    shared = {
        "networks": {"model": nn.Linear(3, 2).state_dict()},
        "optimizers": {"a": {"lr": 0.1, "state": {0: (1, 2)}}},
    }
    Checkpoints(folder, "me").save(3, shared, {"random": [torch.zeros(3), None]}, process)  # type: ignore[arg-type]


def _read_checkpoint(folder: Path) -> None:
    checkpoint = Checkpoints(folder, "me").newest()
    assert checkpoint is not None
    checkpoint.require_fits("model", nn.Linear(3, 2))
    checkpoint.local(0)


def _make_run(folder: Path) -> None:
    run = RunFolder(folder)
    run.start(to_json(get_recipe("mnist_ccp4", "small")), processes=1)
    run.finish(
        {"test": {"accuracy": 0.5}, "validation": {"accuracy": 0.5}, "parameters": {"model": 9}, "seconds": 60.0}
    )
    run.metrics_file.write_text(
        "".join(json.dumps({"split": "train", "step": n, "epoch": 0, "loss": 1 / (n + 1)}) + "\n" for n in range(9))
    )


def _read_run(folder: Path) -> None:
    run = RunFolder(folder)
    recipe = run.recipe()
    recipe_from_json(recipe)
    run.result()
    run.metrics("train")
    run.changed_environment(1, recipe)


def _read_report(folder: Path) -> None:
    write_report(group_runs([folder]), folder / "report.html")


def _make_plan(folder: Path) -> None:
    from pinets.encrypted import plan_network, write_plan

    network = CCP(4, 2, rank=3, order=2)
    plan, circuit = plan_network(network, torch.rand(9, 4), rings=(2048,), insecure=True, estimate_time=False)
    write_plan(plan, circuit, client=folder / "client", server=folder / "server")


def _read_plan(folder: Path) -> None:
    from pinets.encrypted import read_circuit, read_plan

    read_plan(folder / "client")
    read_circuit(folder / "server")


def _exported(ending: str) -> Reader:
    targets = {"onnx": "onnx", "pt2": "torch_export", "safetensors": "safetensors"}

    def make(folder: Path) -> None:
        export(CCP(4, 2, rank=3, order=2), torch.zeros(1, 4), folder / f"m.{ending}", to=targets[ending])  # type: ignore[arg-type]

    return Reader(make, lambda folder: read_metadata(folder / f"m.{ending}"))


def _make_cifar(folder: Path) -> None:
    batch = {b"data": np.zeros((4, 3072), np.uint8), b"labels": [0, 1, 0, 1]}
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    for name in names:
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"cat", b"dog"]}, protocol=2))


def _make_binary_cifar(folder: Path) -> None:
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    for name in names:
        (folder / name).write_bytes(b"".join(bytes([label]) + bytes(3072) for label in (0, 1, 0, 1)))
    (folder / "batches.meta.txt").write_text("cat\ndog\n")


def _make_records(folder: Path) -> None:
    data, lines = b"", []
    for key in range(5):
        record = struct.pack("<IfQQ", 0, float(key % 2), key, 0) + _png()
        lines.append(f"{key}\t{len(data)}\n")
        data += struct.pack("<II", 0xCED7230A, len(record)) + record + bytes(-len(record) % 4)
    (folder / "train.rec").write_bytes(data)
    (folder / "train.idx").write_text("".join(lines))


def _read_all(samples: object) -> None:
    """Every image of a set."""
    for index in range(min(len(samples), 20)):  # type: ignore[arg-type]
        samples.read(torch.tensor([index]), torch.zeros(1, samples.draws))  # type: ignore[attr-defined]


def _mesh(ending: str) -> Reader:
    corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = torch.tensor([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])
    return Reader(
        lambda folder: write_mesh(folder / f"mesh{ending}", corners, faces),
        lambda folder: read_mesh(folder / f"mesh{ending}"),
    )


def _make_hierarchy(folder: Path) -> None:
    Hierarchy.blank((6, 3), (4, 4)).save(folder / "hierarchy.safetensors")


def _make_statistics(folder: Path) -> None:
    FeatureStatistics("set", "small", (8, 8), 9, torch.zeros(3), torch.eye(3), torch.zeros(9, 3)).save(
        folder / "s.safetensors"
    )


def _make_sound(folder: Path) -> None:
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + 3200, b"WAVE", b"fmt ", 16, 1, 1, 16000, 32000, 2, 16, b"data", 3200
    )
    (folder / "a.wav").write_bytes(header + bytes(3200))


def _read_sound(folder: Path) -> None:
    from pinets.tasks.classification.speech.audio import read_sound

    read_sound(folder / "a.wav")


NUMBERS = np.arange(12.0, dtype=np.float32).reshape(3, 4)
IDX = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 3, 4) + bytes(range(24))
BATCH = {b"data": np.zeros((4, 3072), np.uint8), b"labels": [0, 1, 2, 3], b"batch_label": b"x"}
PAIRS = b"1\t2\nAnn\t1\t2\nBob\t1\t3\nAnn\t1\tBob\t2\nBob\t2\tAnn\t2\n"
STATE = {"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}

READERS = {
    "network": Reader(
        lambda folder: spec.save(
            folder / "m.safetensors", spec.build("CCP(3, 2, rank=2, order=2)"), "CCP(3, 2, rank=2, order=2)"
        ),
        lambda folder: spec.load(folder / "m.safetensors"),
    ),
    "weights of torch": Reader(
        lambda folder: torch.save(STATE, folder / "w.pth"),
        lambda folder: load_weights(nn.Linear(3, 2), folder / "w.pth"),
    ),
    "checkpoint": Reader(_make_checkpoint, _read_checkpoint),
    "run": Reader(_make_run, _read_run),
    "report": Reader(_make_run, _read_report),
    "plan": Reader(_make_plan, _read_plan),
    "export onnx": _exported("onnx"),
    "export pt2": _exported("pt2"),
    "export safetensors": _exported("safetensors"),
    "npy": Reader(
        _write("a.npy", _bytes_of(lambda file: np.lib.format.write_array(file, NUMBERS))),
        lambda folder: np.array(open_array(folder / "a.npy")),
    ),
    "idx": Reader(_write("images", IDX), lambda folder: read_idx(folder / "images", dimensions=3)),
    "idx gz": Reader(
        _write("images.gz", gzip.compress(IDX, mtime=0)), lambda folder: read_idx(folder / "images.gz", dimensions=3)
    ),
    "pickle": Reader(_write("batch", pickle.dumps(BATCH, protocol=2)), lambda folder: load_arrays(folder / "batch")),
    "pickle 4": Reader(_write("batch", pickle.dumps(BATCH, protocol=4)), lambda folder: load_arrays(folder / "batch")),
    "cifar": Reader(_make_cifar, read_cifar10),
    "binary cifar": Reader(_make_binary_cifar, read_cifar10),
    "pack": Reader(
        _write("lfw.bin", pickle.dumps(([_png()] * 4, [True, False]), protocol=2)),
        lambda folder: _read_all(open_pack(folder / "lfw.bin", size=8).faces),
    ),
    "shards": Reader(
        lambda folder: write_shards(Splits(_images(), _images(), _images()), folder / "shards"),
        lambda folder: _read_all(open_shards(sorted((folder / "shards").glob("train-*.tar")), CROP)),
    ),
    "records": Reader(_make_records, lambda folder: _read_all(open_records(folder / "train.rec", CROP))),
    **{
        f"image {kind}": Reader(
            _write(f"a.{kind}", _encode(kind)),
            lambda folder, kind=kind: decode_image((folder / f"a.{kind}").read_bytes(), f"a.{kind}", CROP, ()),  # type: ignore[misc]
        )
        for kind in ("png", "jpeg", "bmp", "ppm", "webp", "gif", "tiff")
    },
    "sound": Reader(_make_sound, _read_sound),
    **{f"mesh {ending}": _mesh(ending) for ending in (".ply", ".obj", ".off", ".stl")},
    "hierarchy": Reader(_make_hierarchy, lambda folder: Hierarchy.load(folder / "hierarchy.safetensors")),
    "statistics": Reader(_make_statistics, lambda folder: FeatureStatistics.load(folder / "s.safetensors")),
    "pairs": Reader(_write("pairs.txt", PAIRS), lambda folder: parse_pairs(folder / "pairs.txt")),
    "image list": Reader(
        _write("list.json", b'{"path": ["a.png", "b.png"], "id": ["1", "2"]}'),
        lambda folder: read_image_list(folder / "list.json"),
    ),
    "noises": Reader(_write("noises.txt", b"a_1.png\nb_2.png\n"), lambda folder: read_noises(folder / "noises.txt")),
}
