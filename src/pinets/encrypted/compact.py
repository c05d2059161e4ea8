"""SEAL's ciphertexts and keys in as few bytes as they need, the same for every version of SEAL.

SEAL saves each coefficient in eight bytes, under headers that carry the library's version; zstd leaves a fifth of what
could go, and SEAL 4.1 (in browsers) and 4.3 (in TenSEAL) refuse each other's headers though the formats are equal. The
compact form has no headers, and a coefficient takes the bits of its prime. Everything else follows from the plan, so a
stranger's bytes choose no size: those that do not have the length they must have are refused before SEAL sees them.

A ciphertext is its scale (a double), its number of primes and whether it is seeded (a byte each), the seed if it is
seeded, and its polynomials, prime by prime. Keys are a list of their indices (a count and the indices, four bytes each)
and for each of them a seeded polynomial for every level. All numbers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pinets._extras import require
from pinets.encrypted.errors import FileError

__all__ = ["CompactForm", "looks_like_secret_key"]

Coefficients = NDArray[np.uint64]

MAGIC, HEADER_SIZE = 0xA15E, 16
VERSION = (4, 3)  # of the SEAL in TenSEAL's wheel; versions before 4.0 have another format
_PLAIN, _ZSTD = 0, 2  # modes of compression

_HEADER = struct.Struct("<HBBBBHQ")  # magic, size of the header, version, compression, reserved, size with the header
_CIPHERTEXT = struct.Struct("<32sBQQQdQ")  # parameters, is transformed, polynomials, ring, primes, scale, correction
_PLAINTEXT = struct.Struct("<32sQd")  # parameters, coefficients, scale: a secret key is a plaintext
_COUNT = struct.Struct("<Q")
_SEED = struct.Struct("<B64s")  # generator, seed
_COMPACT = struct.Struct("<dBB")  # scale, primes, is seeded
_NO_CIPHERTEXT = "this is not a Ciphertext for these parameters"
_GROUP = 8  # coefficients that together fill whole bytes
_CANDIDATES = 1000  # places that are looked at for a secret key; random content has one in 16 MB


class CompactForm:
    """Translates between SEAL's format and the compact one.

    Args:
        ring: The ring size.
        prime_bits: The bits of the primes, the special prime last.
        levels: SEAL's identifiers of the parameters with one prime, with two, and so on; the last are those of keys.
    """

    def __init__(self, ring: int, prime_bits: Sequence[int], levels: Sequence[Sequence[int]]) -> None:
        self._ring = ring
        self._widths = [_width(bits) for bits in prime_bits]
        self._levels = [struct.pack("<4Q", *level) for level in levels]

    # Ciphertexts

    def pack_ciphertext(self, native: bytes) -> bytes:
        """A ciphertext that SEAL saved, in the compact form."""
        scale, seed, polynomials, _ = self._read_ciphertext(memoryview(_content(native)))
        head = _COMPACT.pack(scale, polynomials.shape[1], bool(seed))
        return b"".join([head, seed, *self._pack(polynomials)])

    def unpack_ciphertext(self, compact: bytes) -> bytes:
        """The ciphertext as SEAL loads it."""
        if len(compact) < _COMPACT.size:
            raise FileError(f"{_NO_CIPHERTEXT}: it has at least {_COMPACT.size} bytes, got {len(compact)}")
        scale, primes, seeded = _COMPACT.unpack_from(compact)
        if not 1 <= primes < len(self._widths) or seeded > 1:
            raise FileError(f"{_NO_CIPHERTEXT}: it has from 1 to {len(self._widths) - 1} primes, got {primes}")
        expected = self.ciphertext_bytes(primes, seeded=bool(seeded))
        if len(compact) != expected:
            raise FileError(f"{_NO_CIPHERTEXT}: with {primes} primes it has {expected} bytes, got {len(compact)}")
        seed = compact[_COMPACT.size :][: _SEED.size if seeded else 0]
        body = memoryview(compact)[_COMPACT.size + len(seed) :]
        return _with_header(self._ciphertext(body, primes, scale, seed))

    def ciphertext_bytes(self, primes: int, *, seeded: bool) -> int:
        """The size of a compact ciphertext."""
        halves = 1 if seeded else 2
        return _COMPACT.size + seeded * _SEED.size + halves * self._ring // _GROUP * sum(self._widths[:primes])

    # Keys

    def pack_keys(self, native: bytes) -> bytes:
        """Keys for relinearisation or for rotations that SEAL saved, in the compact form."""
        content = memoryview(_content(native))
        (count,) = _COUNT.unpack_from(content, 32)
        at, indices, pieces = 32 + _COUNT.size, [], []
        for index in range(count):
            (digits,) = _COUNT.unpack_from(content, at)
            at += _COUNT.size
            if digits:
                indices.append(index)
            for _ in range(digits):
                _, seed, polynomials, size = self._read_ciphertext(content[at + HEADER_SIZE :])
                if not seed:
                    raise FileError("keys without a seed have no compact form")
                pieces += [seed, *self._pack(polynomials)]
                at += HEADER_SIZE + size
        return b"".join([struct.pack(f"<I{len(indices)}I", len(indices), *indices), *pieces])

    def unpack_keys(self, compact: bytes, indices: Sequence[int]) -> bytes:
        """The keys as SEAL loads them; they must be those with the given indices."""
        head = struct.pack(f"<I{len(indices)}I", len(indices), *indices)
        expected = self.key_bytes(len(indices))
        if len(compact) != expected:
            raise FileError(
                f"these are not {len(indices)} keys for these parameters: {expected} bytes, got {len(compact)}"
            )
        if compact[: len(head)] != head:
            raise FileError("these are not the keys that the plan asks for")
        body, at = memoryview(compact), len(head)
        primes = len(self._widths)
        pieces = [self._levels[-1], _COUNT.pack(indices[-1] + 1)]
        for index in range(indices[-1] + 1):
            digits = primes - 1 if index in indices else 0
            pieces.append(_COUNT.pack(digits))
            for _ in range(digits):
                seed = bytes(body[at : at + _SEED.size])
                at += _SEED.size
                pieces.append(_with_header(self._ciphertext(body[at : at + self._half], primes, 1.0, seed)))
                at += self._half
        return _with_header(b"".join(pieces))

    def key_bytes(self, count: int) -> int:
        """The size of a number of compact keys."""
        return 4 + 4 * count + count * (len(self._widths) - 1) * (_SEED.size + self._half)

    # Parts of both

    @property
    def _half(self) -> int:
        """The bytes of a polynomial with all primes."""
        return self._ring // _GROUP * sum(self._widths)

    def _read_ciphertext(self, content: memoryview) -> tuple[float, bytes, Coefficients, int]:
        """The scale, the seed if there is one, the polynomials (number, primes, ring), and the bytes read."""
        _, transformed, size, ring, primes, scale, _ = _CIPHERTEXT.unpack_from(content)
        start = _CIPHERTEXT.size + HEADER_SIZE + _COUNT.size
        _require_header(content[_CIPHERTEXT.size :], start - _CIPHERTEXT.size)
        (count,) = _COUNT.unpack_from(content, start - _COUNT.size)
        if (size, ring, transformed) != (2, self._ring, 1) or count not in (primes * ring, 2 * primes * ring):
            raise FileError(f"a ciphertext of SEAL has two polynomials in a ring of {self._ring}, got {size} in {ring}")
        end = start + 8 * count
        polynomials = np.frombuffer(content[start:end], dtype="<u8").reshape(-1, primes, ring)
        seed = b""
        if len(polynomials) == 1:
            _require_header(content[end:], HEADER_SIZE + _SEED.size)
            seed = bytes(content[end + HEADER_SIZE : end + HEADER_SIZE + _SEED.size])
            end += HEADER_SIZE + _SEED.size
        return scale, seed, polynomials, end

    def _ciphertext(self, body: memoryview, primes: int, scale: float, seed: bytes) -> bytes:
        """A ciphertext in SEAL's format, without its header."""
        level = self._levels[primes - 1]
        head = _CIPHERTEXT.pack(level, 1, 2, self._ring, primes, scale, 1)
        polynomials = b"".join(self._unpack(body, primes, 1 if seed else 2))
        data = _with_header(_COUNT.pack(len(polynomials) // 8) + polynomials)
        return b"".join([head, data, _with_header(seed) if seed else b""])

    def _pack(self, polynomials: Coefficients) -> Iterator[bytes]:
        for polynomial in polynomials:
            for width, coefficients in zip(self._widths, polynomial, strict=False):
                yield pack_bits(coefficients, width)

    def _unpack(self, body: memoryview, primes: int, polynomials: int) -> Iterator[bytes]:
        at = 0
        for _ in range(polynomials):
            for width in self._widths[:primes]:
                size = self._ring // _GROUP * width
                yield unpack_bits(body[at : at + size], width).tobytes()
                at += size


def pack_bits(coefficients: Coefficients, width: int) -> bytes:
    """Write numbers of ``width`` bits one after the other; eight of them take ``width`` bytes.

    >>> pack_bits(np.array([1] + [0] * 7, dtype=np.uint64), 20).hex()
    '0100000000000000000000000000000000000000'
    """
    groups = coefficients.reshape(-1, _GROUP)
    out = np.zeros(len(groups) * width + 8, dtype=np.uint8)  # eight more: each write covers eight bytes
    for place in range(_GROUP):
        byte, shift = divmod(place * width, 8)
        window = np.ndarray(len(groups), dtype="<u8", buffer=out.data, offset=byte, strides=(width,))
        window |= groups[:, place] << np.uint64(shift)
    return out[:-8].tobytes()


def unpack_bits(content: bytes | memoryview, width: int) -> Coefficients:
    """Undo :func:`pack_bits`."""
    groups = len(content) // width
    padded = np.frombuffer(bytes(content) + bytes(8), dtype=np.uint8)
    out = np.empty((groups, _GROUP), dtype="<u8")
    for place in range(_GROUP):
        byte, shift = divmod(place * width, 8)
        window = np.ndarray(groups, dtype="<u8", buffer=padded.data, offset=byte, strides=(width,))
        out[:, place] = (window >> np.uint64(shift)) & np.uint64((1 << width) - 1)
    return out.reshape(-1)


def _width(bits: int) -> int:
    """The bits that a coefficient takes: a shift by up to seven must not push it out of eight bytes."""
    return bits if bits <= 57 else bits + bits % 2


def looks_like_secret_key(content: bytes) -> bool:
    """Whether the content has a secret key of SEAL in it, plain or compressed by SEAL."""
    magic, view, at = struct.pack("<HB", MAGIC, HEADER_SIZE), memoryview(content), -1
    for _ in range(_CANDIDATES):
        at = content.find(magic, at + 1)
        if at < 0:
            break
        try:
            start = _content(view[at:], at_most=_PLAINTEXT.size + HEADER_SIZE + _COUNT.size)
            _, coefficients, scale = _PLAINTEXT.unpack_from(start)
            (count,) = _COUNT.unpack_from(start, _PLAINTEXT.size + HEADER_SIZE)
            magic_inside, *_ = _HEADER.unpack_from(start, _PLAINTEXT.size)
        except (FileError, struct.error):
            continue
        if magic_inside == MAGIC and coefficients == count and scale == 1.0:
            return True
    return False


# SEAL's headers


def _with_header(content: bytes) -> bytes:
    return _HEADER.pack(MAGIC, HEADER_SIZE, *VERSION, _PLAIN, 0, HEADER_SIZE + len(content)) + content


def _require_header(content: memoryview, at_least: int) -> tuple[int, int]:
    """Check a header; gives the mode of compression and the size, which includes the header."""
    if len(content) < HEADER_SIZE:
        raise FileError("what SEAL saved ends in the middle of a header")
    magic, length, major, _, mode, _, size = _HEADER.unpack_from(content)
    if (magic, length, major) != (MAGIC, HEADER_SIZE, VERSION[0]) or mode not in (_PLAIN, _ZSTD):
        raise FileError("this is not in the format of SEAL 4")
    if not at_least <= size <= len(content):
        raise FileError(f"a header of SEAL promises {size} bytes, and {len(content)} are there")
    return mode, size


def _content(native: bytes | memoryview, at_most: int = -1) -> bytes:
    """The content that SEAL saved, or its first bytes, without header and decompressed."""
    mode, size = _require_header(memoryview(native), HEADER_SIZE)
    if mode == _PLAIN:
        return bytes(native[HEADER_SIZE : size if at_most < 0 else min(size, HEADER_SIZE + at_most)])
    zstandard = require("zstandard", extra="deploy")
    try:
        return zstandard.ZstdDecompressor().stream_reader(native[HEADER_SIZE:size]).read(at_most)
    except zstandard.ZstdError as error:
        raise FileError("what SEAL saved is not in the format of zstd") from error
