"""The stages of the suite's workload, each a process of its own; the harness starts them in its root folder.

Stages import what they need themselves, since the harness counts the time of imports.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

__all__ = ["KINDS", "SIZES", "STAGES", "main"]

EVALUATION_KEYS = "evaluation.keys"  # as the server's folder calls them
SIZES = ("single", "small", "medium", "large")
KINDS = ("latency", "latency", "throughput", "throughput")  # the packing for each size


class _Folders:
    """The harness's folders for a size. One or 15 images are evaluated one by one, 1,000 and 10,000 together."""

    def __init__(self, size: int) -> None:
        root = Path.cwd()
        self.model = root / "submission" / "pinets"
        self.plan = self.model / KINDS[size]
        self.data = root / "datasets" / SIZES[size] / "intermediate"
        self.io = root / "io" / SIZES[size]
        self.client = self.io / "client"
        self.keys = self.io / "public_keys"
        self.prepared = self.io / "intermediate"
        self.asked = self.io / "ciphertexts_upload" / "asked"
        self.answered = self.io / "ciphertexts_download" / "answered"
        for folder in (self.keys, self.prepared, self.asked.parent, self.answered.parent):
            folder.mkdir(parents=True, exist_ok=True)


def _make_keys(folders: _Folders) -> None:
    from pinets.encrypted import make_key_files

    shutil.copytree(folders.plan / "client", folders.client)
    make_key_files(folders.client, folders.keys / EVALUATION_KEYS)


def _preprocess_input(folders: _Folders) -> None:
    """Pixels from 0 to 1, one image per line, become images as the network takes them."""
    scaling = json.loads((folders.model / "input.json").read_text())
    pixels = np.loadtxt(folders.data / "test_pixels.txt", ndmin=2)
    np.save(folders.prepared / "inputs.npy", ((pixels - scaling["mean"]) / scaling["std"]).reshape(-1, 1, 28, 28))


def _encrypt(folders: _Folders) -> None:
    from pinets.encrypted import encrypt_file

    encrypt_file(np.load(folders.prepared / "inputs.npy"), folders.client, folders.asked)


def _compute(folders: _Folders) -> None:
    from pinets.encrypted import evaluate_file

    server = folders.io / "server"
    if not server.exists():
        shutil.copytree(folders.plan / "server", server)
        (server / EVALUATION_KEYS).symlink_to((folders.keys / EVALUATION_KEYS).resolve())
    evaluate_file(folders.asked, server, folders.answered)


def _decrypt(folders: _Folders) -> None:
    from pinets.encrypted import decrypt_file

    decrypt_file(folders.answered, folders.client, folders.prepared / "scores.npy")


def _postprocess(folders: _Folders) -> None:
    classes = np.load(folders.prepared / "scores.npy").argmax(1)
    (folders.io / "encrypted_model_predictions.txt").write_text("".join(f"{one}\n" for one in classes))


def _preprocess_model() -> None:
    """The network is compiled with the plan; this reads it once, so that a broken file is found here."""
    from pinets.encrypted import read_circuit

    for kind in sorted(set(KINDS)):
        read_circuit(Path.cwd() / "submission" / "pinets" / kind / "server")


_OF_A_SIZE: dict[str, Callable[[_Folders], None]] = {
    "client_key_generation": _make_keys,
    "client_preprocess_input": _preprocess_input,
    "client_encode_encrypt_input": _encrypt,
    "server_encrypted_compute": _compute,
    "client_decrypt_decode": _decrypt,
    "client_postprocess": _postprocess,
}
STAGES = (*_OF_A_SIZE, "server_preprocess_model")


def main(arguments: list[str]) -> int:
    stage, *rest = arguments
    if stage == "server_preprocess_model":
        _preprocess_model()
    elif stage in _OF_A_SIZE and rest and rest[0] in map(str, range(len(SIZES))):
        _OF_A_SIZE[stage](_Folders(int(rest[0])))
    else:
        print(f"expected a stage ({', '.join(STAGES)}) and a size from 0 to 3, got {arguments}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
