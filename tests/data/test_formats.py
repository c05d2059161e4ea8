"""Damaged and hostile files: an error that names the file, soon and without much memory."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile

import numpy as np
import pytest

from pinets.data import DataError
from pinets.data.formats.idx import read_idx
from pinets.data.formats.images import CentreCrop
from pinets.data.formats.npy import open_array
from pinets.data.formats.pickles import load_arrays
from pinets.data.formats.shards import open_shards


def nested(levels, width=10):
    """A list of lists of the same lists: few bytes, and ``width ** levels`` items."""
    value = [0]
    for _ in range(levels):
        value = [value] * width
    return pickle.dumps(value, protocol=2)


def shared_arrays(count):
    """Many arrays that are each made of the same bytes."""
    array = pickle.dumps(np.zeros(10_000, np.uint8), protocol=2)
    start = b"c_codecs\nencode\nX\x10'\x00\x00" + bytes(10_000) + b"X\x06\x00\x00\x00latin1\x86Rq\x01"
    one = (
        b"cnumpy.core.numeric\n_frombuffer\n(h\x01cnumpy\ndtype\nX\x02\x00\x00\x00u1K\x00K\x01\x87RM\x10'\x85"
        b"X\x01\x00\x00\x00CtR"
    )
    assert len(array) > 10_000
    return b"\x80\x02" + start + b"](" + one * count + b"e."


HOSTILE = {
    "shared lists": (nested(12), "it has more than 10,000,000 items"),
    "a list in itself": (b"\x80\x02]q\x00h\x00a.", "nested more than 50 levels deep, or hold themselves"),
    "deep lists": (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "nested more than 50 levels"),
    "deep tuples": (b"\x80\x02)" + b"\x85" * 100_000 + b".", "nested more than 50 levels"),
    "deep keys": (b"\x80\x02})" + b"\x85" * 1_000_000 + b"K\x01s.", "nested more than 50 levels"),
    "a place far away": (b"\x80\x02K\x01r\xff\xff\xff\x7f.", "numbers its objects with gaps"),
    "arrays of the same bytes": (shared_arrays(50), "more bytes than it has itself"),
    "bytes of the same text": (
        b"\x80\x02X\x10'\x00\x00" + b"a" * 10_000 + b"q\x01]("
        + b"c_codecs\nencode\nh\x01X\x06\x00\x00\x00latin1\x86R" * 50 + b"e.",
        "more bytes than it has itself",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused(tmp_path, name):
    content, reason = HOSTILE[name]
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(DataError, match=f"batch: refused.*{reason}"):
        load_arrays(tmp_path / "batch")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_is_shared_in_a_pickle_stays_shared(tmp_path, protocol):
    array, inner = np.arange(6.0).reshape(2, 3).T, [1, b"two", ("three", None)]
    (tmp_path / "batch").write_bytes(pickle.dumps({"a": [array, inner, inner], "b": array}, protocol=protocol))
    found = load_arrays(tmp_path / "batch")
    assert np.array_equal(found["b"], array)
    assert found["b"].flags.writeable
    assert found["a"][0] is found["b"]
    assert found["a"][1] is found["a"][2]
    assert found["a"][1] == inner


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), '",
        "(" * 5000,
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}",
        "\0",
    ],
)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_damaged_npy_files_are_refused(tmp_path, header, version):
    text = header.encode() + b"\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY" + bytes([version, 0]) + length + text + bytes(8))
    with pytest.raises(DataError, match=r"a\.npy"):
        open_array(tmp_path / "a.npy")


@pytest.mark.parametrize("shape", [(3, 2), (0, 2), ()])
def test_npy_files_are_read(tmp_path, shape):
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, np.ones(shape, np.float32))
    assert np.array_equal(open_array(tmp_path / "a.npy"), np.ones(shape))


def test_a_bomb_of_zeros_is_refused_before_it_is_unpacked(tmp_path):
    sizes = (1 << 12, 1 << 11, 1 << 11)  # 16 GB
    with gzip.open(tmp_path / "images.gz", "wb") as file:
        file.write(bytes([0, 0, 8, 3]) + struct.pack(">3I", *sizes) + bytes(1 << 24))
    with pytest.raises(DataError, match=r"images\.gz: its header asks for 4096 x 2048 x 2048 bytes, too many"):
        read_idx(tmp_path / "images.gz", dimensions=3)


@pytest.mark.parametrize("size", [2**60, -1024, 2**33 - 1])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_tar_members_of_impossible_size_are_refused(tmp_path, size, kind):
    member = tarfile.TarInfo("0.jpg")
    member.size, member.type = size, kind
    buffer = io.BytesIO()
    buffer.write(member.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    (tmp_path / "train-000000.tar").write_bytes(buffer.getvalue())
    with pytest.raises(DataError, match=r"train-000000\.tar: "):
        open_shards([tmp_path / "train-000000.tar"], CentreCrop(8, 8))
