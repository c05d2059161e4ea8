"""The client: makes the keys, encrypts inputs, decrypts outputs. Only it ever has the secret key.

Its folder holds ``plan.json`` and ``secret.key``; what it gives away are ``evaluation.keys`` and encrypted inputs.
"""

from __future__ import annotations

import json
import math
import secrets
import warnings
from pathlib import Path

import numpy as np

from pinets._files import PathLike
from pinets.deploy.encrypted.backend import Vector
from pinets.deploy.encrypted.errors import EncryptedError, FileError, RangeWarning
from pinets.deploy.encrypted.files import Container, naming, read_container, write_container
from pinets.deploy.encrypted.latency import pack, unpack
from pinets.deploy.encrypted.memory import available_memory
from pinets.deploy.encrypted.plan import Plan, in_units
from pinets.deploy.encrypted.seal import SealDecryptor, SealScheme, make_keys

__all__ = ["EVALUATION_KEYS", "PLAN", "SECRET_KEY", "Client", "make_client_keys", "read_plan"]

PLAN, SECRET_KEY, EVALUATION_KEYS = "plan.json", "secret.key", "evaluation.keys"


def read_plan(folder: PathLike) -> Plan:
    """The plan in a client's or a server's folder."""
    path = Path(folder) / PLAN
    if not path.is_file():
        raise FileNotFoundError(f"there is no {PLAN} in {folder}; `pinets encrypt plan ... --out` writes it")
    try:
        return Plan.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is not a plan: {error}") from error


def require_no_secret_key(folder: PathLike) -> None:
    if (path := Path(folder) / SECRET_KEY).exists():
        raise FileExistsError(f"{path} exists, and what it encrypted is lost without it: move it away first")


def make_client_keys(folder: PathLike, evaluation_keys: PathLike) -> None:
    """Make the keys for the plan in a client's folder.

    Args:
        folder: The client's; the secret key is written there, readable by its owner alone.
        evaluation_keys: Where to write what the server needs; it cannot decrypt with it.
    """
    plan, secret_path = read_plan(folder), Path(folder) / SECRET_KEY
    require_no_secret_key(folder)
    if (needed := 2 * plan.key_bytes) > (memory := available_memory()):  # the keys, and what is written of them
        raise MemoryError(f"making the keys takes {in_units(needed)} of memory, and {in_units(memory)} is there")
    secret, relinearisation, rotation = make_keys(SealScheme(plan.parameters), plan.rotations)
    identity = secrets.token_hex(16)  # not derived from the keys, so it tells nothing about them
    parts = {"relinearisation": relinearisation, "rotation": rotation}
    # the large file first: where the disk is full, there is no secret key yet that must not be overwritten
    write_container(evaluation_keys, Container("evaluation keys", plan.identity, identity, parts))
    write_container(secret_path, Container("secret key", plan.identity, identity, {"key": secret}), private=True)


class Client:
    """Encrypts inputs and decrypts outputs.

    Args:
        folder: With the plan and the secret key.
    """

    def __init__(self, folder: PathLike) -> None:
        self.plan = read_plan(folder)
        path = Path(folder) / SECRET_KEY
        container = read_container(path, "secret key").require(plan=self.plan.identity, parts=["key"], path=path)
        self._keys = container.keys
        with naming(path):
            self._decryptor = SealDecryptor(SealScheme(self.plan.parameters), container.parts["key"])

    def encrypt(self, inputs: Vector, path: PathLike) -> None:
        """Encrypt a batch of inputs into a file for the server.

        Inputs beyond the range of the plan are encrypted all the same, with a :class:`RangeWarning` that says what
        that can do.
        """
        plan = self.plan
        inputs = np.asarray(inputs, dtype=np.float64)
        if inputs.shape[1:] != plan.input_shape or len(inputs) == 0:
            raise EncryptedError(
                f"the plan is for inputs of shape {plan.input_shape}, with a batch axis before it; got {inputs.shape}"
            )
        if not np.isfinite(inputs).all():
            raise EncryptedError(f"inputs must be finite, got {int((~np.isfinite(inputs)).sum())} that are not")
        _warn_of_range(inputs, plan)
        flat, slots, scale = inputs.reshape(len(inputs), -1), plan.parameters.slots, plan.parameters.scale
        if plan.layout is not None:
            packed = [pack(row, plan.layout, slots) for row in flat]
        else:
            packed = [column for at in range(0, len(flat), slots) for column in flat[at : at + slots].T]
        parts = {
            str(number): self._decryptor.encrypt(np.ascontiguousarray(one), scale) for number, one in enumerate(packed)
        }
        facts = {"count": len(inputs)}
        write_container(path, Container("inputs", plan.identity, self._keys, parts, facts))

    def decrypt(self, path: PathLike) -> Vector:
        """The outputs in a file of the server's, one row for each input."""
        plan = self.plan
        container = read_container(path, "outputs").require(plan=plan.identity, keys=self._keys, path=path)
        count, slots = container.facts.get("count"), plan.parameters.slots
        if not isinstance(count, int) or count < 1:
            raise FileError(f"{path} does not say for how many inputs it is")
        plain = []
        for number, part in enumerate(container.parts.values()):
            with naming(f"ciphertext {number} of {path}"):
                plain.append(self._decryptor.decrypt(part))
        sets = count if plan.layout is not None else math.ceil(count / slots) * plan.outputs
        if len(plain) != sets:
            raise FileError(f"{path} holds {len(plain)} ciphertexts for {count} inputs, expected {sets}")
        if plan.layout is not None:
            outputs = np.stack([unpack(one, plan.outputs) for one in plain])
        else:
            batches = [np.stack(plain[at : at + plan.outputs], axis=1) for at in range(0, sets, plan.outputs)]
            outputs = np.concatenate(batches)[:count]
        if (largest := float(np.abs(outputs).max())) > plan.output_bound / 2:
            warnings.warn(
                f"an output of {largest:.3g} is near the largest that fits, {plan.output_bound:.3g}: outputs beyond "
                "come out as something else, so this one may be wrong; plan with inputs more like these",
                RangeWarning,
                stacklevel=2,
            )
        return outputs


def _warn_of_range(inputs: Vector, plan: Plan) -> None:
    low, high = float(inputs.min()), float(inputs.max())
    slack = 1e-6 * (plan.high - plan.low)
    if low >= plan.low - slack and high <= plan.high + slack:
        return
    growth = max(abs(low), abs(high)) / max(abs(plan.low), abs(plan.high), 1e-300)
    middle, half = (plan.low + plan.high) / 2, (plan.high - plan.low) / 2
    if growth <= 1 and half:  # not larger, but further from the middle of what the plan was made with
        growth = max(abs(low - middle), abs(high - middle)) / half
    lost = plan.degree * math.log2(max(growth, 1.0))
    text = (
        f"inputs from {low:.4g} to {high:.4g} are outside the range the plan was made for, {plan.low:.4g} to "
        f"{plan.high:.4g}: at degree {plan.degree} numbers and their errors can grow by {lost:.1f} bits"
    )
    if lost > plan.headroom_bits:
        text += f", and {plan.headroom_bits:.1f} bits are free: the outputs can be wrong altogether"
    warnings.warn(text, RangeWarning, stacklevel=3)
