"""The version comes from git's newest tag, and from pyproject.toml where there is none."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def clone(tmp_path):
    """What the build reads, without git."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def version(folder):
    pytest.importorskip("hatch_vcs")
    return subprocess.check_output([sys.executable, "-m", "hatchling", "version"], cwd=folder, text=True).strip()


def git(folder, *words):
    author = ("-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


def last_release():
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return configuration["tool"]["hatch"]["version"]["fallback-version"]


def test_an_archive_without_git_has_the_last_release(clone):
    assert version(clone) == last_release()


def test_a_tag_is_the_version_and_later_commits_are_of_the_next(clone):
    git(clone, "init")
    git(clone, "add", ".")
    git(clone, "commit", "--message", "first")
    assert version(clone).startswith(f"{last_release().rpartition('.')[0]}.")  # a clone without tags builds too
    git(clone, "tag", "v7.8.9")
    assert version(clone) == "7.8.9"
    git(clone, "commit", "--allow-empty", "--message", "second")
    assert re.fullmatch(r"7\.8\.10\.dev1\+g[0-9a-f]+", version(clone))


def test_the_last_release_is_the_one_of_change_log_and_citation():
    released = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    cited = re.search(r"^version: (\S+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert released is not None
    assert cited is not None
    assert released[1] == cited[1] == last_release()
