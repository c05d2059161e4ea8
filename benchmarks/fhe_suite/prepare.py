"""Put our submission into a clone of the suite's repository: plans, and a launcher for each stage.

Example:
  python -m benchmarks.fhe_suite.prepare suite runs/mnist_ccp4-small/seed-0
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

from benchmarks.fhe_suite.stages import KINDS, SIZES, STAGES
from pinets import resolve
from pinets.data import Normalize, load
from pinets.encrypted import split_source, write_plan

__all__ = ["main", "prepare"]

_ROOT = Path(__file__).parents[2]
_STAND_IN = '''"""A stand-in for the parts of torchvision that the harness uses, on the MNIST of pinets.data."""
from types import SimpleNamespace
import torch
from pinets.data import load

class _MNIST(torch.utils.data.Dataset):
    def __init__(self, root, train, download=False, transform=None):
        mnist = load("mnist")
        self.part, self.transform = mnist.train if train else mnist.test, transform

    def __len__(self):
        return len(self.part.images)

    def __getitem__(self, number):
        return self.transform(self.part.images[number]), int(self.part.labels[number])

class _Compose:
    def __init__(self, steps):
        self.steps = steps

    def __call__(self, image):
        for step in self.steps:
            image = step(image)
        return image

datasets = SimpleNamespace(MNIST=_MNIST)
transforms = SimpleNamespace(
    Compose=_Compose,
    ToTensor=lambda: lambda image: image.float() / 255,
    Normalize=lambda mean, std: lambda image: (image - mean[0]) / std[0],
)
'''


def prepare(suite: Path, run: str, *, data_dir: str | None = None, stand_in: bool = False) -> None:
    """Write ``submission``, and scripts that build nothing.

    Args:
        suite: A clone of the suite's repository.
        run: The run of a classifier of MNIST.
        data_dir: Where datasets are.
        stand_in: Whether to write a stand-in for torchvision, which the harness reads MNIST with.
    """
    missing = [name for name in ("harness", "scripts", "submission") if not (suite / name).is_dir()]
    if missing:
        raise FileNotFoundError(f"{suite} is no clone of fhe-benchmarking/ml-inference: it has no {missing[0]}")
    found = resolve(run, data_dir=data_dir)
    source = split_source(found.network, found.data.read)
    own = suite / "submission" / "pinets"
    for kind in sorted(set(KINDS)):
        plan, circuit = source.plan(packing=kind)
        write_plan(plan, circuit, client=own / kind / "client", server=own / kind / "server")
        print(f"{kind}\n{plan}\n", flush=True)
    normalize = Normalize.of(load("mnist", data_dir).train)
    (own / "input.json").write_text(json.dumps({"mean": normalize.mean[0], "std": normalize.std[0]}))
    build = suite / "submission" / "build"
    build.mkdir(parents=True, exist_ok=True)
    for name in ("get_openfhe.sh", "build_task.sh"):
        _write_script(suite / "scripts" / name, "exit 0")
    python = f"PYTHONPATH={shlex.quote(str(_ROOT))}:$PYTHONPATH exec {shlex.quote(sys.executable)}"
    for stage in STAGES:
        _write_script(build / stage, f'{python} -m benchmarks.fhe_suite.stages {stage} "$@"')
    if stand_in:
        folder = suite / "submission" / "stand_in" / "torchvision"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text(_STAND_IN)
    print(f"run it in {suite}: python3 harness/run_submission.py 0 (sizes: {', '.join(SIZES)})")


def _write_script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fhe_suite.prepare", description=__doc__)
    parser.add_argument("suite", type=Path, help="a clone of github.com/fhe-benchmarking/ml-inference")
    parser.add_argument("run", help="run folder of a classifier of MNIST")
    parser.add_argument("--data", metavar="DIR", help="where datasets are (default: $PINETS_DATA)")
    parser.add_argument(
        "--stand-in", action="store_true", help="write a stand-in for torchvision to submission/stand_in"
    )
    args = parser.parse_args(arguments)
    prepare(args.suite, args.run, data_dir=args.data, stand_in=args.stand_in)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
