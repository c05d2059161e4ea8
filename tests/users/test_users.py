"""What three new users do, from the built package in an environment of its own.

The environment holds the wheel. With PINETS_FRESH=1, as in ``make verify``, pip installs what it depends on; otherwise
that is lent from the environment of the tests, and no network is needed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from pinets.cli.app import VERBS

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FRESH = os.environ.get("PINETS_FRESH") == "1"


def run(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def pip_install(environment, *words):
    run(sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", *words)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source archive."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """An environment with the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    pip_install(folder, "--no-deps", "--no-index", built[0])
    return folder


@pytest.fixture(scope="module")
def complete(installed, built):
    """The same with all that pinets[all] depends on."""
    if FRESH:
        pip_install(installed, "-c", ROOT / "constraints.txt", f"pinets[all] @ {built[0].as_uri()}")
    else:
        places = sysconfig.get_paths(vars={"base": str(installed), "platbase": str(installed)})
        (Path(places["purelib"]) / "lent.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    return installed


@pytest.fixture
def shell(complete, tmp_path):
    """Runs a program of the environment in an empty folder."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PINETS_DATA")}
    environment |= {"PATH": f"{complete / 'bin'}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}

    def call(*words):
        return run(*words, cwd=tmp_path, env=environment, timeout=3000)

    return call


def test_the_package_is_sound(built):
    pytest.importorskip("twine")
    assert "PASSED" in run(sys.executable, "-m", "twine", "check", "--strict", *map(str, built))
    names = zipfile.ZipFile(built[0]).namelist()
    assert {"pinets/py.typed", "pinets/cli/templates/recipe.py.txt", "pinets/export/page.html"} <= set(names)
    assert not [name for name in names if name.startswith(("tests", "docs", "benchmarks"))]


def test_help_needs_nothing_else(built, installed, tmp_path):
    program = installed / "bin" / "pinets"
    environment = {"PATH": os.environ["PATH"]}
    version = built[0].name.split("-")[1]
    assert run(program, "--version", cwd=tmp_path, env=environment) == f"pinets {version}\n"
    for verb in VERBS:
        assert "example:" in run(program, verb, "--help", cwd=tmp_path, env=environment)


def test_a_researcher(shell):
    assert "a polynomial of degree 3" in shell("sh", HERE / "researcher.sh")


def test_a_user_of_scikit_learn(shell):
    assert "R²" in shell("python", HERE / "scikit_learn_user.py")


def test_somebody_with_images(shell):
    shown = shell("sh", HERE / "own_images.sh")
    assert "photos-resnet" in shown
    assert "a polynomial of degree 16" in shown
