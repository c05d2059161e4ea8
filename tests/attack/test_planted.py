"""Every fuzzer finds, within a minute, a bug that was planted in what it attacks."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import subprocess
import sys
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from unittest import mock

import pytest

from tests.attack.__main__ import FUZZERS

SECONDS = 60.0  # of CPU time, own and of processes that it starts: other work of the machine does not count


def forgotten_rounding() -> AbstractContextManager[object]:
    """Bounds do not grow by the rounding errors of single precision."""
    return mock.patch("pinets.algebra.domains.rounding.Rounding.slack", lambda self, count, size: 0 * size)


def unsymmetric_coefficients() -> AbstractContextManager[object]:
    """The coefficient of z1 z2 is not shared between its two places in the tensor."""
    return mock.patch("pinets.algebra._expand.symmetrize", lambda tensor, features, degree: tensor)


def errors_of_seal() -> AbstractContextManager[object]:
    """What SEAL raises for malformed content is not turned into an error of ours."""
    from pinets.encrypted import seal

    def read(self: seal.SealScheme, kind: str, content: bytes) -> object:
        made = getattr(seal._seal(), kind)()
        seal._through_file(lambda path: made.load(self.context, path), content)
        return made

    return mock.patch.object(seal.SealScheme, "read", read)


def any_depth() -> AbstractContextManager[object]:
    """Expressions may be nested without limit."""
    return mock.patch("pinets.spec._DEEPEST", 100_000)


def nameless_errors() -> AbstractContextManager[object]:
    """The error for a broken JSON file does not name the file."""
    return mock.patch("pinets._storage.read_json", lambda path: json.loads(path.read_text(encoding="utf-8")))


def units_of_features() -> AbstractContextManager[object]:
    """Features are centred, and not divided by their deviation."""
    return mock.patch("pinets.estimators.scaling.Scaling.apply", lambda self, x: x - self.mean)


def functions_by_name() -> AbstractContextManager[object]:
    """Pickles may name functions outside of NumPy; only of the tests, lest one does harm."""
    from pinets.data.formats.pickles import _ArrayUnpickler

    strict = _ArrayUnpickler.find_class

    def find_class(self: pickle.Unpickler, module: str, name: str) -> object:
        lax = module.startswith("tests.")
        return pickle.Unpickler.find_class(self, module, name) if lax else strict(self, module, name)

    return mock.patch.object(_ArrayUnpickler, "find_class", find_class)


PLANTED = {
    "boxes": forgotten_rounding,
    "ciphertexts": errors_of_seal,
    "expressions": any_depth,
    "files": nameless_errors,
    "fits": units_of_features,
    "pickles": functions_by_name,
    "programs": unsymmetric_coefficients,
}

# a fuzzer that forks needs a process of its own; random numbers are not restored when a run is resumed
KILLS = """
from unittest import mock
from tests.attack.kills import attack_from_here
with mock.patch("pinets.engine.loop.restore_random_state", lambda *_: None):
    print(*attack_from_here({seconds}, {seed}).failures, sep="\\n")
"""


def failures_of(name: str, seconds: float, seed: int) -> list[str]:
    if name == "kills":
        code = KILLS.format(seconds=seconds, seed=seed)
        root = Path(__file__).parents[2]
        ended = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
        return ended.stdout.split("\n")[:-1] if ended.stdout.strip() else []
    with PLANTED[name]():
        return import_module(f"tests.attack.{name}").attack(seconds, seed).failures


def cpu_seconds() -> float:
    return sum(os.times()[:4])


@pytest.mark.slow
@pytest.mark.parametrize("name", FUZZERS)
def test_a_planted_bug_is_found(name):
    start = cpu_seconds()
    for seed in itertools.count():
        try:
            found = failures_of(name, 5.0, seed)
        except ModuleNotFoundError as error:
            pytest.skip(f"needs {error.name}")
        if found:
            break
        assert cpu_seconds() - start < SECONDS, f"{name} found nothing"
    print(f"{name}: found after {cpu_seconds() - start:.0f} s of CPU time: {found[0]}")
