"""The client: makes the keys, encrypts inputs and decrypts outputs. Only the client has the secret key."""

from __future__ import annotations

import math
import secrets
import warnings

import numpy as np

from pinets.encrypted.backend import Vector
from pinets.encrypted.container import Container, naming
from pinets.encrypted.errors import EncryptedError, FileError, RangeWarning
from pinets.encrypted.latency import unpack
from pinets.encrypted.machine import available_memory
from pinets.encrypted.packings import pack_inputs
from pinets.encrypted.plan import Plan, in_units
from pinets.encrypted.seal import SealDecryptor, SealScheme, make_seal_keys

__all__ = ["Client", "make_keys"]


def make_keys(plan: Plan) -> tuple[Container, Container]:
    """Make the keys for a plan.

    Returns:
        The secret key, which stays with the client, and the evaluation keys for the server. The server can multiply
        and rotate with them, not decrypt.
    """
    # the keys, and their serialised form; counted here, since a stranger's plan may expect too little
    needed, memory = 2 * (1 + len(plan.rotations)) * plan.parameters.key_bytes, available_memory()
    if needed > memory:
        raise MemoryError(f"making the keys takes {in_units(needed)} of memory, and {in_units(memory)} is free")
    secret, relinearisation, rotation = make_seal_keys(SealScheme(plan.parameters), plan.rotations)
    identity = secrets.token_hex(16)  # random, so it tells nothing about the keys
    parts = {"relinearisation": relinearisation, "rotation": rotation}
    return (
        Container("secret key", plan.identity, identity, {"key": secret}),
        Container("evaluation keys", plan.identity, identity, parts),
    )


class Client:
    """Encrypts inputs and decrypts outputs.

    Args:
        plan: The plan of the network.
        secret_key: The serialised secret key of :func:`make_keys`.
        source: The name of the secret key in errors.
    """

    def __init__(self, plan: Plan, secret_key: bytes, *, source: object = "the secret key") -> None:
        self.plan = plan
        container = Container.from_bytes(secret_key, "secret key", source)
        container.require(plan=plan.identity, parts=["key"], source=source)
        self._keys = container.keys
        with naming(source):
            self._decryptor = SealDecryptor(SealScheme(plan.parameters), container.parts["key"])

    def encrypt(self, inputs: Vector, *, allow: bool = False) -> bytes:
        """Encrypt a batch of inputs for the server.

        Inputs outside the range of the plan are encrypted with a :class:`RangeWarning` that states the consequences;
        a plan with a proof refuses them.

        Args:
            inputs: The inputs.
            allow: Warn of inputs outside a proven range, too, instead of refusing them.
        """
        plan = self.plan
        inputs = np.asarray(inputs, dtype=np.float64)
        if inputs.shape[1:] != plan.input_shape or len(inputs) == 0:
            raise EncryptedError(
                f"the plan is for inputs of shape {plan.input_shape}, with a batch axis before it; got {inputs.shape}"
            )
        if not np.isfinite(inputs).all():
            raise EncryptedError(f"inputs must be finite, got {int((~np.isfinite(inputs)).sum())} that are not")
        most = 2.0 ** (sum(plan.parameters.prime_bits[:-1]) - 2) / plan.parameters.scale
        if (largest := float(np.abs(inputs).max())) >= most:
            raise EncryptedError(f"inputs must be below {most:.3g} in size to fit the modulus, got {largest:.3g}")
        if text := _outside(inputs, plan):
            if plan.proven_deviation is not None and not allow:
                raise EncryptedError(f"{text}. The plan's proof does not hold for them")
            warnings.warn(text, RangeWarning, stacklevel=2)
        groups = pack_inputs(inputs.reshape(len(inputs), -1), plan.arrangement, plan.parameters.slots)
        packed = enumerate(one for group in groups for one in group)
        parts = {str(number): self._decryptor.encrypt(one, plan.parameters.scale) for number, one in packed}
        return Container("inputs", plan.identity, self._keys, parts, {"count": len(inputs)}).to_bytes()

    def decrypt(self, outputs: bytes, *, source: object = "the answer") -> Vector:
        """Decrypt the server's answer: one row for each input. Errors name the source.

        A :class:`RangeWarning` says that outputs do not match their check values, which reveals an overflow.
        """
        plan = self.plan
        container = Container.from_bytes(outputs, "outputs", source)
        container.require(plan=plan.identity, keys=self._keys, source=source)
        count, slots = container.facts.get("count"), plan.parameters.slots
        if type(count) is not int or count < 1:
            raise FileError(f"{source} does not say how many inputs it answers")
        expected = count if plan.packing != "throughput" else -(-count // slots) * plan.rows
        if len(container.parts) != expected:
            raise FileError(f"{source} holds {len(container.parts)} ciphertexts for {count} inputs, not {expected}")
        plain = []
        for number, part in enumerate(container.parts.values()):
            with naming(f"ciphertext {number} of {source}"):
                plain.append(self._decryptor.decrypt(part))
        if plan.packing != "throughput":
            values = np.stack([unpack(one, plan.rows) for one in plain])
        else:
            batches = [np.stack(plain[at : at + plan.rows], axis=1) for at in range(0, expected, plan.rows)]
            values = np.concatenate(batches)[:count]
        decrypted, checks = values[:, : plan.outputs], values[:, plan.outputs :]
        _warn_of_overflow(decrypted, checks, plan)
        return decrypted


def _warn_of_overflow(outputs: Vector, checks: Vector, plan: Plan) -> None:
    """Warn if outputs do not match their check values: a number that exceeded the modulus wrapped around."""
    differences = np.abs(outputs @ np.array(plan.check_weights).T - checks).max(1)
    wrong = int((differences > plan.check_tolerance).sum())
    if wrong:
        warnings.warn(
            f"{wrong} of {len(outputs)} outputs do not match their check values (by up to {differences.max():.3g}, "
            f"noise explains {plan.check_tolerance:.3g}): numbers overflowed, and these outputs are wrong",
            RangeWarning,
            stacklevel=3,
        )


def _outside(inputs: Vector, plan: Plan) -> str:
    """The warning for inputs outside the range of the plan; empty for inputs inside."""
    low, high = float(inputs.min()), float(inputs.max())
    slack = 1e-6 * (plan.high - plan.low)
    if low >= plan.low - slack and high <= plan.high + slack:
        return ""
    growth = max(abs(low), abs(high)) / max(abs(plan.low), abs(plan.high), 1e-300)
    middle, half = (plan.low + plan.high) / 2, (plan.high - plan.low) / 2
    if growth <= 1 and half:  # not larger, but further from the middle of the range
        growth = max(abs(low - middle), abs(high - middle)) / half
    lost = plan.degree * math.log2(max(growth, 1.0))
    text = (
        f"inputs from {low:.4g} to {high:.4g} are outside the range of the plan, {plan.low:.4g} to {plan.high:.4g}: "
        f"at degree {plan.degree} numbers and their errors can grow by {lost:.1f} bits"
    )
    if lost > plan.headroom_bits:
        text += f", and {plan.headroom_bits:.1f} bits are free: the outputs can overflow"
    return text
