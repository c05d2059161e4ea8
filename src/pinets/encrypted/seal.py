"""Microsoft SEAL, through the bindings in TenSEAL's wheel.

The bindings read and write files only, so serialised objects pass through a folder with owner-only rights.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pinets._extras import require
from pinets.encrypted.backend import Vector
from pinets.encrypted.compact import CompactForm
from pinets.encrypted.errors import EncryptedError, FileError, PlanError
from pinets.encrypted.plan import Parameters

__all__ = ["SealDecryptor", "SealEvaluator", "SealScheme", "make_seal_keys", "refusals"]

_GENERATOR = 3  # generates SEAL's group of rotations
_SAME = 1e-9  # scales with a smaller relative difference count as equal


def _seal() -> Any:
    return require("tenseal.sealapi", extra="deploy")


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Turn an error that SEAL raises into a :class:`FileError`: only malformed content leads to one."""
    try:
        yield
    except EncryptedError:
        raise
    except (ValueError, RuntimeError, IndexError, OverflowError) as error:
        raise FileError(f"{what}: SEAL refuses it ({error})") from error


class SealScheme:
    """SEAL's context and encoder for some parameters, and SEAL's identifiers of the levels."""

    def __init__(self, parameters: Parameters) -> None:
        seal = _seal()
        settings = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
        settings.set_poly_modulus_degree(parameters.ring)
        settings.set_coeff_modulus(seal.CoeffModulus.Create(parameters.ring, list(parameters.prime_bits)))
        security = seal.SEC_LEVEL_TYPE.NONE if parameters.insecure else seal.SEC_LEVEL_TYPE.TC128
        self.parameters = parameters
        self.context = seal.SEALContext(settings, True, security)
        if not self.context.parameters_set():
            raise PlanError(f"SEAL refuses these parameters: {self.context.parameters_error_message()}")
        self.encoder = seal.CKKSEncoder(self.context)
        self.primes = [float(prime.value()) for prime in settings.coeff_modulus()]
        self.level_names: list[list[int]] = []  # SEAL's identifiers, by level
        data = self.context.first_context_data()
        while data is not None:
            self.level_names.insert(0, data.parms_id())
            data = data.next_context_data()
        self._levels = {tuple(name): level for level, name in enumerate(self.level_names)}
        keys = self.context.key_context_data().parms_id()
        self.compact = CompactForm(parameters.ring, parameters.prime_bits, [*self.level_names, keys])

    def level(self, ciphertext: Any) -> int:
        return self._levels[tuple(ciphertext.parms_id())]

    def encode(self, values: Vector | float, level: int, scale: float) -> Any:
        plaintext = _seal().Plaintext()
        numbers = values if isinstance(values, float) else values.tolist()
        self.encoder.encode(numbers, self.level_names[level], scale, plaintext)
        return plaintext

    def read(self, kind: str, native: bytes) -> Any:
        """Load an object in SEAL's format; SEAL checks it against the parameters."""
        made = getattr(_seal(), kind)()
        try:
            _through_file(lambda path: made.load(self.context, path), native)
        except (RuntimeError, ValueError) as error:
            raise FileError(f"this is not a {kind} for these parameters") from error
        return made

    def read_ciphertext(self, content: bytes) -> Any:
        """Load a ciphertext in the compact form."""
        return self.read("Ciphertext", self.compact.unpack_ciphertext(content))

    def save_ciphertext(self, ciphertext: Any) -> bytes:
        """Serialise a ciphertext in the compact form."""
        return self.compact.pack_ciphertext(_save(ciphertext))

    def galois_elements(self, rotations: Sequence[int]) -> list[int]:
        """The elements of the Galois group for rotation steps; the bindings take these."""
        ring = self.parameters.ring
        return sorted({pow(_GENERATOR, step % (ring // 2), 2 * ring) for step in rotations})


def _save(value: Any) -> bytes:
    """Serialise an object in SEAL's format, compressed by SEAL."""
    return _through_file(value.save)


def _through_file(action: Callable[[str], object], content: bytes | None = None) -> bytes:
    with tempfile.TemporaryDirectory(prefix="pinets-") as folder:  # has owner-only rights
        path = os.path.join(folder, "value")
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)
        action(path)
        with open(path, "rb") as file:
            return file.read() if content is None else b""


def make_seal_keys(scheme: SealScheme, rotations: Sequence[int]) -> tuple[bytes, bytes, bytes]:
    """Make a secret key, and the keys for relinearisation and for rotations that the server gets; serialised.

    The server's are in the compact form, with the seed of the random half of each key instead of the half itself.
    """
    generator = _seal().KeyGenerator(scheme.context)
    elements = scheme.galois_elements(rotations)
    rotation = scheme.compact.pack_keys(_save(generator.create_galois_keys(elements))) if elements else b""
    relinearisation = scheme.compact.pack_keys(_save(generator.create_relin_keys()))
    return _save(generator.secret_key()), relinearisation, rotation


class SealDecryptor:
    """Encrypts and decrypts with the secret key; encrypting with a public key would add more noise."""

    def __init__(self, scheme: SealScheme, secret_key: bytes) -> None:
        self._scheme = scheme
        key = scheme.read("SecretKey", secret_key)
        self._encryptor = _seal().Encryptor(scheme.context, key)
        self._decryptor = _seal().Decryptor(scheme.context, key)

    def encrypt(self, values: Vector, scale: float) -> bytes:
        plaintext = self._scheme.encode(values, self._scheme.parameters.levels, scale)
        return self._scheme.save_ciphertext(self._encryptor.encrypt_symmetric(plaintext))  # a seed for one half

    def decrypt(self, ciphertext: bytes) -> Vector:
        plaintext, loaded = _seal().Plaintext(), self._scheme.read_ciphertext(ciphertext)
        with refusals("this cannot be decrypted"):
            self._decryptor.decrypt(loaded, plaintext)
            return np.array(self._scheme.encoder.decode_double(plaintext))


class SealEvaluator:
    """SEAL's evaluator as :class:`pinets.encrypted.backend.Evaluator`.

    Keys are given in the compact form; ``rotations`` are the steps that those for rotations must be for.
    """

    def __init__(
        self, scheme: SealScheme, relinearisation: bytes, rotation: bytes, rotations: Sequence[int] = ()
    ) -> None:
        self.scheme = scheme
        self._seal = _seal()
        self._evaluator = self._seal.Evaluator(scheme.context)
        self._relinearisation = scheme.read("RelinKeys", scheme.compact.unpack_keys(relinearisation, [0]))
        if not self._relinearisation.has_key(2):  # keys for rotations have the same form, and SEAL would crash
            raise FileError("the key for relinearisation is missing from the relinearisation keys")
        indices = [element // 2 for element in scheme.galois_elements(rotations)]
        if bool(rotation) != bool(indices):
            raise FileError(f"the plan asks for {len(indices)} keys for rotations, got {len(rotation)} bytes of them")
        self._rotation = scheme.read("GaloisKeys", scheme.compact.unpack_keys(rotation, indices)) if indices else None

    @property
    def parameters(self) -> Parameters:
        return self.scheme.parameters

    def load(self, content: bytes) -> Any:
        return self.scheme.read_ciphertext(content)

    def save(self, ciphertext: Any) -> bytes:
        return self.scheme.save_ciphertext(ciphertext)

    def prime(self, level: int) -> float:
        return self.scheme.primes[level]

    def level(self, ciphertext: Any) -> int:
        return self.scheme.level(ciphertext)

    def scale(self, ciphertext: Any) -> float:
        return float(ciphertext.scale)

    def encode(self, values: Vector | float, level: int, scale: float) -> Any:
        return self.scheme.encode(values, level, scale)

    def add(self, left: Any, right: Any) -> Any:
        self._require_same_scale(left.scale, right.scale)
        right.scale = left.scale
        self._evaluator.add_inplace(left, right)
        return left

    def add_plain(self, left: Any, right: Any) -> Any:
        self._require_same_scale(left.scale, right.scale)
        left.scale = right.scale
        self._evaluator.add_plain_inplace(left, right)
        return left

    def multiply(self, left: Any, right: Any) -> Any:
        out = self._seal.Ciphertext()
        if left is right:
            self._evaluator.square(left, out)
        else:
            self._evaluator.multiply(left, right, out)
        self._evaluator.relinearize_inplace(out, self._relinearisation)
        self._evaluator.rescale_to_next_inplace(out)
        return out

    def multiply_plain(self, left: Any, right: Any) -> Any:
        out = self._seal.Ciphertext()
        self._evaluator.multiply_plain(left, right, out)
        return out

    def weighted_sum(self, ciphertexts: Sequence[Any], weights: Vector, scale: float) -> Any:
        weights = weights if np.rint(weights * scale).any() else np.eye(1, len(weights))[0] / scale
        out, term, weight = None, self._seal.Ciphertext(), self._seal.Plaintext()
        name = self.scheme.level_names[self.level(ciphertexts[0])]
        for ciphertext, value in zip(ciphertexts, weights.tolist(), strict=True):
            if round(value * scale) == 0:
                continue  # SEAL refuses products with 0, which would be readable
            self.scheme.encoder.encode(value, name, scale, weight)
            if out is None:
                out = self._seal.Ciphertext()
                self._evaluator.multiply_plain(ciphertext, weight, out)
            else:
                self._evaluator.multiply_plain(ciphertext, weight, term)
                self._evaluator.add_inplace(out, term)
        return out

    def rotate(self, ciphertext: Any, step: int) -> Any:
        out = self._seal.Ciphertext()
        self._evaluator.rotate_vector(ciphertext, step, self._rotation, out)
        return out

    def rescale(self, ciphertext: Any) -> Any:
        self._evaluator.rescale_to_next_inplace(ciphertext)
        return ciphertext

    def lower(self, ciphertext: Any, level: int) -> Any:
        out = self._seal.Ciphertext()
        self._evaluator.mod_switch_to(ciphertext, self.scheme.level_names[level], out)
        return out

    @staticmethod
    def _require_same_scale(left: float, right: float) -> None:
        if abs(left - right) > _SAME * left:
            raise ValueError(f"numbers of scales {left:.6g} and {right:.6g} cannot be added")
