"""SEAL for browsers: node-seal, installed by npm into our cache in the version and with the hash of its lock file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from pinets._files import user_cache

__all__ = ["COMMAND", "FILES", "folder", "install"]

FILES = ("seal_throws.js", "seal_throws.wasm")
COMMAND = "python -m pinets.encrypted.service.wasm"
_LOCKED = Path(__file__).parent / "npm"


def folder() -> Path:
    """Where the files are, or will be."""
    return user_cache("page") / "node_modules" / "node-seal" / "dist"


def install() -> None:
    """Install the files, unless they are there."""
    if all((folder() / name).is_file() for name in FILES):
        return
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm is needed to install SEAL for browsers; it comes with Node.js")
    target = user_cache("page")
    target.mkdir(parents=True, exist_ok=True)
    for path in _LOCKED.iterdir():
        shutil.copy(path, target)
    # `ci` refuses a package whose hash is not that of the lock file
    subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=target, check=True)


if __name__ == "__main__":
    install()
    print(folder())
