"""The compact form of ciphertexts and keys, against what SEAL itself saves."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinets.encrypted import FileError, Parameters
from pinets.encrypted.compact import _content, _width, _with_header, looks_like_secret_key, pack_bits, unpack_bits
from pinets.encrypted.seal import SealScheme, _save, _seal

PARAMETERS = Parameters(1024, (45, 35, 35, 59), 35, insecure=True)


@pytest.fixture(scope="module")
def scheme():
    return SealScheme(PARAMETERS)


@pytest.fixture(scope="module")
def generator(scheme):
    return _seal().KeyGenerator(scheme.context)


@given(st.integers(20, 60), st.data())
def test_bits_come_back_and_stand_one_after_the_other(bits, data):
    width = _width(bits)
    numbers = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=16, max_size=16))
    packed = pack_bits(np.array(numbers, dtype=np.uint64), width)
    assert int.from_bytes(packed, "little") == sum(number << place * width for place, number in enumerate(numbers))
    assert unpack_bits(packed, width).tolist() == numbers


def test_what_seal_saved_comes_back_byte_for_byte(scheme, generator):
    """Plain ciphertexts of every level, seeded ones, and both kinds of keys."""
    encryptor = _seal().Encryptor(scheme.context, generator.secret_key())
    plaintext = scheme.encode(np.linspace(-1, 1, PARAMETERS.slots), 2, PARAMETERS.scale)
    seeded = _save(encryptor.encrypt_symmetric(plaintext))
    plain = scheme.read("Ciphertext", seeded)
    for native in (seeded, *(_save(_lowered(scheme, plain, level)) for level in range(3))):
        compact = scheme.compact.pack_ciphertext(native)
        assert scheme.compact.unpack_ciphertext(compact) == _with_header(_content(native))
    elements = scheme.galois_elements([1, -5, 64])
    for native, indices in (
        (_save(generator.create_relin_keys()), [0]),
        (_save(generator.create_galois_keys(elements)), [element // 2 for element in elements]),
    ):
        compact = scheme.compact.pack_keys(native)
        assert len(compact) == scheme.compact.key_bytes(len(indices))
        # SEAL also counts the absent keys after the last one
        ours, theirs = scheme.compact.unpack_keys(compact, indices), _with_header(_content(native))
        assert ours[56:] == theirs[56 : len(ours)]
        assert not any(theirs[len(ours) :])


def _lowered(scheme, ciphertext, level):
    out = _seal().Ciphertext()
    _seal().Evaluator(scheme.context).mod_switch_to(ciphertext, scheme.level_names[level], out)
    return out


def test_sizes_are_those_of_the_primes(scheme):
    head, seed = 10, 65
    assert scheme.compact.ciphertext_bytes(3, seeded=True) == head + seed + 1024 * (45 + 35 + 35) // 8
    assert scheme.compact.ciphertext_bytes(1, seeded=False) == head + 2 * 1024 * 45 // 8
    assert scheme.compact.key_bytes(2) == 4 + 8 + 2 * 3 * (seed + 1024 * (45 + 35 + 35 + 60) // 8)


def test_bytes_of_another_length_are_refused_before_seal_sees_them(scheme):
    right = struct.pack("<dBB", 2.0**35, 1, 0) + bytes(2 * 1024 * 45 // 8)
    assert scheme.level(scheme.read_ciphertext(right)) == 0
    for wrong in (right[:-1], right + b"0", right[:5], struct.pack("<dBB", 1.0, 4, 0), struct.pack("<dBB", 1.0, 1, 2)):
        with pytest.raises(FileError, match="not a Ciphertext for these parameters"):
            scheme.read_ciphertext(wrong)
    beyond = right[:10] + b"\xff" * (len(right) - 10)  # coefficients above the prime
    with pytest.raises(FileError, match="not a Ciphertext for these parameters"):
        scheme.read_ciphertext(beyond)


def test_a_secret_key_is_found_wherever_it_stands(scheme, generator):
    compressed = _save(generator.secret_key())
    plain = _with_header(_content(compressed))
    for secret in (compressed, plain):
        assert looks_like_secret_key(secret)
        assert looks_like_secret_key(b"before" + secret + b"after")
    for harmless in (
        _save(generator.create_relin_keys()),
        b"",
        b"\x5e\xa1\x10" * 5000,
        np.random.default_rng(0).bytes(9999),
    ):
        assert not looks_like_secret_key(harmless)
