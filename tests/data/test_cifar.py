import os
import pickle
import struct

import numpy as np
import pytest
import torch

from pinets.data import DataError, MissingDataError
from pinets.data.formats.pickles import load_arrays
from pinets.data.sets import cifar
from pinets.data.sets.cifar import read_cifar10, read_cifar100

OFFICIAL = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
NAMES = ("plane", *OFFICIAL[1:])  # not the official set, so of any size
FILES = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]


def python2_pickle(value):
    """What Python 2 wrote for CIFAR, byte for byte in its opcodes: strings are bytes, arrays of NumPy 1."""

    def string(text):
        return b"T" + struct.pack("<I", len(text)) + text

    def write(value):
        if isinstance(value, dict):
            return b"}(" + b"".join(write(key) + write(item) for key, item in value.items()) + b"u"
        if isinstance(value, list):
            return b"](" + b"".join(map(write, value)) + b"e"
        if isinstance(value, bytes):
            return string(value)
        if isinstance(value, int):
            return b"J" + struct.pack("<i", value)
        rows, columns = value.shape
        dtype = b"cnumpy\ndtype\n(" + string(b"u1") + b"K\x00K\x01tR(K\x03" + string(b"|")
        dtype += b"NNN" + 2 * (b"J" + struct.pack("<i", -1)) + b"K\x00tb"
        return (
            b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t" + string(b"b") + b"tR(K\x01("
            b"J" + struct.pack("<i", rows) + b"J" + struct.pack("<i", columns) + b"t"
            + dtype + b"\x89" + string(value.tobytes()) + b"tb"
        )  # fmt: skip

    return b"\x80\x02" + write(value) + b"."


def batches(count=40):
    generator = np.random.default_rng(0)
    for name in FILES:
        yield name, generator.integers(0, 256, (count, 3072), dtype=np.uint8), [i % 10 for i in range(count)]


def write_binary(folder):
    folder.mkdir()
    for name, pixels, labels in batches():
        records = np.concatenate([np.array(labels, dtype=np.uint8)[:, None], pixels], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(NAMES) + "\n\n")
    return folder


def write_python(folder, dump):
    folder.mkdir()
    for name, pixels, labels in batches():
        content = {b"batch_label": b"some batch", b"labels": labels, b"data": pixels, b"filenames": [b"a.png"]}
        (folder / name).write_bytes(dump(content))
    (folder / "batches.meta").write_bytes(dump({b"label_names": [name.encode() for name in NAMES]}))
    return folder


def same(left, right):
    return torch.equal(left.images, right.images) and torch.equal(left.labels, right.labels)


def test_binary_version(tmp_path):
    splits = read_cifar10(write_binary(tmp_path / "bin"), validation=0.1)
    name, pixels, labels = list(batches())[5]
    assert name == "test_batch"
    assert splits.test.labels.tolist() == labels
    assert splits.test.classes == NAMES
    # the first 1024 bytes are the red plane, row by row
    assert splits.test.images[7, 2, 3, 4] == pixels[7, 2 * 1024 + 3 * 32 + 4]
    assert (len(splits.train), len(splits.validation), len(splits.test)) == (180, 20, 40)
    assert torch.bincount(splits.validation.labels).tolist() == [2] * 10
    pixels_of_all = {bytes(row) for _, pixels, _ in list(batches())[:5] for row in pixels}
    assert {
        bytes(image.flatten().tolist()) for image in torch.cat([splits.train.images, splits.validation.images])
    } == pixels_of_all


@pytest.mark.parametrize("dump", [python2_pickle, pickle.dumps, lambda value: pickle.dumps(value, protocol=2)])
def test_python_version_equals_the_binary_one(tmp_path, dump):
    binary, python = read_cifar10(write_binary(tmp_path / "bin")), read_cifar10(write_python(tmp_path / "py", dump))
    assert binary.test.classes == python.test.classes
    for part in ("train", "validation", "test"):
        assert same(getattr(binary, part), getattr(python, part))


def test_cifar100_takes_the_fine_labels(tmp_path):
    fine = [f"fine{i}" for i in range(100)]
    for folder in ("bin", "py"):
        (tmp_path / folder).mkdir()
    for name, count in (("train", 400), ("test", 100)):
        pixels = np.random.default_rng(1).integers(0, 256, (count, 3072), dtype=np.uint8)
        fines, coarses = [i % 100 for i in range(count)], [i % 20 for i in range(count)]
        records = np.concatenate([np.array([coarses, fines], dtype=np.uint8).T, pixels], axis=1)
        (tmp_path / "bin" / f"{name}.bin").write_bytes(records.tobytes())
        content = {b"data": pixels, b"fine_labels": fines, b"coarse_labels": coarses}
        (tmp_path / "py" / name).write_bytes(python2_pickle(content))
    (tmp_path / "bin" / "fine_label_names.txt").write_text("\n".join(fine))
    (tmp_path / "py" / "meta").write_bytes(python2_pickle({b"fine_label_names": [name.encode() for name in fine]}))
    binary, python = read_cifar100(tmp_path / "bin"), read_cifar100(tmp_path / "py")
    assert binary.test.labels.tolist() == list(range(100))
    assert binary.train.classes == python.train.classes == tuple(fine)
    assert same(binary.train, python.train)
    assert same(binary.test, python.test)


@pytest.mark.parametrize("bytes_left", [0, 100, 3073 * 3 + 1])
def test_cut_short_file_is_named(tmp_path, bytes_left):
    folder = write_binary(tmp_path / "bin")
    path = folder / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:bytes_left])
    with pytest.raises(
        DataError, match=rf"data_batch_3\.bin: {bytes_left} bytes .* record {bytes_left // 3073} is cut"
    ):
        read_cifar10(folder)


@pytest.mark.parametrize("version", ["bin", "py"])
def test_an_official_file_cut_between_two_records_is_refused(tmp_path, monkeypatch, version):
    folder = write_binary(tmp_path / "bin") if version == "bin" else write_python(tmp_path / "py", pickle.dumps)
    if version == "bin":
        (folder / "batches.meta.txt").write_text("\n".join(OFFICIAL))
    else:
        (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": list(OFFICIAL)}))
    with pytest.raises(DataError, match=r"data_batch_1\S*: has 40 records, but the official file has 10,000"):
        read_cifar10(folder)
    monkeypatch.setitem(cifar._RECORDS, (10, "airplane", "truck"), {**dict.fromkeys(FILES, 40), "test_batch": 50})
    with pytest.raises(DataError, match=r"test_batch\S*: has 40 records, but the official file has 50"):
        read_cifar10(folder)


def test_an_official_file_of_cifar100_cut_between_two_records_is_refused(tmp_path):
    (tmp_path / "fine_label_names.txt").write_text("\n".join(["apple", *(f"fine{i}" for i in range(98)), "worm"]))
    (tmp_path / "train.bin").write_bytes(bytes(3074))
    with pytest.raises(DataError, match=r"train\.bin: has 1 records, but the official file has 50,000"):
        read_cifar100(tmp_path)


def test_wrong_label_is_named_with_file_and_record(tmp_path):
    folder = write_binary(tmp_path / "bin")
    raw = bytearray((folder / "test_batch.bin").read_bytes())
    raw[3 * 3073] = 10
    (folder / "test_batch.bin").write_bytes(raw)
    with pytest.raises(DataError, match=r"test_batch\.bin: record 3 has label 10, but labels go from 0 to 9"):
        read_cifar10(folder)


@pytest.mark.parametrize("name", ["data_batch_2.bin", "batches.meta.txt"])
def test_missing_file_is_named(tmp_path, name):
    folder = write_binary(tmp_path / "bin")
    (folder / name).unlink()
    with pytest.raises(MissingDataError, match=name):
        read_cifar10(folder)


@pytest.mark.parametrize(
    "content, rule",
    [
        ([1, 2], "must hold a dictionary"),
        ({b"labels": [1]}, "'data' must be a uint8 array of rows of 3072"),
        ({b"data": np.zeros((2, 3072)), b"labels": [1, 1]}, "'data' must be a uint8 array"),
        ({b"data": np.zeros((2, 3071), dtype=np.uint8), b"labels": [1, 1]}, "'data' must be a uint8 array"),
        ({b"data": np.zeros((2, 3072), dtype=np.uint8), b"labels": [1]}, "'labels' must be a list of 2"),
        ({b"data": np.zeros((2, 3072), dtype=np.uint8), b"labels": [1, 0.5]}, "'labels' must be a list of 2"),
        ({b"data": np.zeros((2, 3072), dtype=np.uint8), b"labels": [1, 11]}, "record 1 has label 11"),
    ],
)
def test_pickle_of_something_else(tmp_path, content, rule):
    folder = write_python(tmp_path / "py", pickle.dumps)
    (folder / "data_batch_1").write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=rf"data_batch_1: .*{rule}"):
        read_cifar10(folder)


class Malicious:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("function", [os.system, eval, exec, getattr, __import__, np.load, np.fromfile, open])
def test_malicious_pickle_is_refused_and_not_run(tmp_path, protocol, function):
    witness = tmp_path / "witness"
    argument = f"touch {witness}" if function is os.system else f"open({str(witness)!r}, 'w')"
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({b"data": Malicious(function, argument)}, protocol=protocol))
    with pytest.raises(DataError, match=r"data_batch_1: refused, .* asks for \S+"):
        load_arrays(path)
    assert not witness.exists()


def test_arrays_of_objects_and_other_encodings_are_refused(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(np.array([{}, []], dtype=object)))
    with pytest.raises(DataError, match="array of Python objects"):
        load_arrays(path)
    path.write_bytes(b"\x80\x02c_codecs\nencode\n(X\x01\x00\x00\x00aX\x03\x00\x00\x00hextR.")
    with pytest.raises(DataError, match="encodes text as 'hex'"):
        load_arrays(path)


class Described:
    """Pickles as a call of a function, and then a state."""

    def __init__(self, function, arguments, state):
        self.described = function, arguments, state

    def __reduce__(self):
        return self.described


@pytest.mark.parametrize("code", ["i8", "V8"])
def test_bytes_that_a_pickle_calls_pointers_stay_bytes(tmp_path, code):
    """NumPy believes the flags in the state of a type: this one says that its numbers are references to objects."""
    dtype = Described(np.dtype, (code, False, True), (3, "|", None, None, None, 8, 1, 1))
    empty = np.empty(0).__reduce__()
    array = Described(empty[0], (np.ndarray, (0,), b"b"), (1, (1,), dtype, False, b"\x01" + bytes(7)))
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps([array]))
    if code == "V8":
        with pytest.raises(DataError, match=r"array of [|]V8, not of numbers"):
            load_arrays(path)
    else:
        (found,) = load_arrays(path)
        assert found.dtype == np.int64
        assert found.tolist() == [1]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_numbers_of_numpy_come_back(tmp_path, protocol):
    """Of all that NumPy can write: both orders of bytes and of axes, an empty array, and single numbers."""
    values = [np.arange(6, dtype=">i4").reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.empty((0, 3))]
    content = {"arrays": values, "numbers": (np.bool_(True), np.float32(0.5))}
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    found = load_arrays(path)
    for array, value in zip(found["arrays"], values, strict=True):
        np.testing.assert_array_equal(array, value, strict=True)
    assert found["numbers"] == (True, 0.5)


@pytest.mark.parametrize("keep", [0, 1, 10, 1000, -1])
def test_damaged_pickle(tmp_path, keep):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps({b"data": np.zeros((2, 3072), dtype=np.uint8)})[:keep])
    with pytest.raises(DataError, match="batch: cannot be unpickled"):
        load_arrays(path)


def test_class_names_that_are_no_text_are_refused_by_name(tmp_path):
    (tmp_path / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"cat", b"\xff"]}, protocol=2))
    with pytest.raises(DataError, match=r"batches\.meta: the names of its classes must be UTF-8"):
        read_cifar10(tmp_path)
    (tmp_path / "batches.meta").unlink()
    (tmp_path / "batches.meta.txt").write_bytes(b"cat\n\xff\n")
    with pytest.raises(DataError, match=r"batches\.meta\.txt: must be text in UTF-8, but byte 4 is none"):
        read_cifar10(tmp_path)
