"""MXNet's RecordIO, read from files that are written here byte by byte."""

from __future__ import annotations

import io
import struct
from contextlib import suppress

import pytest
import torch
from PIL import Image

from pinets.data import Batches, CentreCrop, DataError, MissingDataError, open_shards
from pinets.data.damage import Damage, ForgivingSet
from pinets.tasks.faces.data.identities import open_identities, pack
from pinets.tasks.faces.data.recordio import open_records, read_record

MAGIC = 0xCED7230A
WHOLE = CentreCrop(8, 8)


def frame(data):
    """One record; data that holds the magic number at a multiple of 4 bytes is cut there, as dmlc does it."""
    parts, start = [], 0
    for place in range(0, len(data) - 3, 4):
        if struct.unpack_from("<I", data, place)[0] == MAGIC:
            parts.append(data[start:place])
            start = place + 4
    parts.append(data[start:])
    out = b""
    for number, part in enumerate(parts):
        kind = 0 if len(parts) == 1 else 1 if number == 0 else 3 if number == len(parts) - 1 else 2
        out += struct.pack("<II", MAGIC, kind << 29 | len(part)) + part + bytes(-len(part) % 4)
    return out


def item(labels, image=b"", key=0):
    if isinstance(labels, (int, float)):
        return struct.pack("<IfQQ", 0, labels, key, 0) + image
    return struct.pack("<IfQQ", len(labels), 0.0, key, 0) + struct.pack(f"<{len(labels)}f", *labels) + image


def png(red, size=8):
    buffer = io.BytesIO()
    Image.new("RGB", (size, size), (red, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def write(folder, records, name="train"):
    """A .rec and an .idx file of records by key."""
    folder.mkdir(exist_ok=True, parents=True)
    data, lines = b"", []
    for key, record in records.items():
        lines.append(f"{key}\t{len(data)}\n")
        data += frame(record)
    (folder / f"{name}.rec").write_bytes(data)
    (folder / f"{name}.idx").write_text("".join(lines))
    return folder / f"{name}.rec"


def face_pack(folder, people=(3, 1, 2), damaged=()):
    """A pack as faces are distributed: a head, the images, then a record for each identity."""
    images, ranges, key = {}, [], 1
    for label, count in enumerate(people):
        ranges.append((key, key + count))
        for number in range(count):
            shown = b"no image" if (label, number) in damaged else png(10 * label + number)
            images[key] = item([float(label), 0.0] if label == 1 else label, shown, key)
            key += 1
    identities = {key + number: item(list(map(float, span)), key=key + number) for number, span in enumerate(ranges)}
    head = {0: item([float(key), float(key + len(people))])}
    path = write(folder, {**head, **images, **identities})
    (folder / "property").write_text(f"{len(people)},8,8\n")
    return path


def test_a_pack_of_faces(tmp_path):
    faces = open_records(face_pack(tmp_path), WHOLE)
    assert faces.labels.tolist() == [0, 0, 0, 1, 2, 2]
    assert faces.classes == ("0", "1", "2")
    assert faces.in_memory().images[:, 0, 4, 4].tolist() == [0, 1, 2, 10, 20, 21]
    assert faces.subset(torch.tensor([5, 3])).in_memory().images[:, 0, 0, 0].tolist() == [21, 10]


def test_records_without_a_head(tmp_path):
    path = write(tmp_path, {7: item(1, png(1)), 3: item(0, png(2)), 5: item([1.0, 9.0], png(3))})
    faces = open_records(path, WHOLE)
    assert faces.labels.tolist() == [1, 0, 1]
    assert faces.in_memory().images[:, 0, 0, 0].tolist() == [1, 2, 3]


def test_property_counts_identities_without_images(tmp_path):
    path = write(tmp_path, {0: item(1, png(1))})
    (tmp_path / "property").write_text("4,112,112")
    assert len(open_records(path, WHOLE).classes) == 4


def set_label(path, key, label):
    data = bytearray(path.read_bytes())
    struct.pack_into("<f", data, offset_of(path, key) + 12, label)
    path.write_bytes(data)


@pytest.mark.parametrize("label", [3e6, 3.0, -1.0, 0.5, 1e30])
def test_an_identity_takes_its_label_from_an_image_that_can_have_it(tmp_path, label):
    path = face_pack(tmp_path)
    set_label(path, 5, label)  # the first of person 2
    told = []
    damage = Damage(tell=told.append)
    faces = open_records(path, WHOLE, damage)
    assert faces.classes == ("0", "1", "2")
    assert faces.labels.tolist() == [0, 0, 0, 1, 2]
    assert faces.in_memory().images[:, 0, 4, 4].tolist() == [0, 1, 2, 10, 21]
    assert damage.count == 1
    place = f"the record at byte {offset_of(path, 5)} has label"
    assert place in told[0]
    assert "train.rec" in told[0]
    assert "labels are whole numbers from 0 to 2" in told[0]
    with pytest.raises(DataError, match=place):
        open_records(path, WHOLE, Damage(strict=True))


def test_a_later_label_that_is_no_whole_number_is_damage(tmp_path):
    path = face_pack(tmp_path)
    set_label(path, 6, 2.5)
    with pytest.raises(DataError, match=r"its label is 2\.5, but its place is identity 2"):
        open_records(path, WHOLE).in_memory()


@pytest.mark.parametrize("label", [-1.0, 0.5, 2.0**24, 1e30])
def test_labels_that_number_no_identity_are_damage_without_property_too(tmp_path, label):
    path = write(tmp_path, {1: item(0, png(1)), 2: item(label, png(2)), 3: item(1, png(3))})
    damage = Damage(tell=lambda line: None)
    faces = open_records(path, WHOLE, damage)
    assert (faces.labels.tolist(), faces.classes, damage.count) == ([0, 1], ("0", "1"), 1)


@pytest.mark.parametrize("number", ["many", "0", "99999999999"])
def test_a_wrong_number_of_identities_is_named(tmp_path, number):
    path = face_pack(tmp_path)
    (tmp_path / "property").write_text(f"{number},8,8\n")
    with pytest.raises(DataError, match=rf"property: must begin with the number of identities, .*, got '{number}'"):
        open_records(path, WHOLE)


@pytest.mark.parametrize("places", [(0,), (4,), (0, 8), (4, 8), (0, 4, 8)])
def test_records_cut_at_the_magic_number_are_put_together(tmp_path, places):
    image = bytearray(range(1, 17))
    for place in places:
        struct.pack_into("<I", image, place, MAGIC)
    path = write(tmp_path, {1: item(5, bytes(image)), 2: item(6, b"next")})
    offset = int((tmp_path / "train.idx").read_text().splitlines()[1].split("\t")[1])
    with path.open("rb") as file:
        assert read_record(file, 0).image == bytes(image)
        assert read_record(file, offset) == ((6.0,), b"next")


def test_opening_looks_at_one_image_of_each_identity(tmp_path, monkeypatch):
    path = face_pack(tmp_path, people=(50, 60))
    seen = []
    monkeypatch.setattr(
        "pinets.tasks.faces.data.recordio.read_record",
        lambda file, offset: seen.append(offset) or read_record(file, offset),
    )
    assert len(open_records(path, WHOLE)) == 110
    assert len(seen) == 1 + 2 + 2


def test_a_label_that_disagrees_with_its_place_is_damage(tmp_path):
    head, spans = {0: item([3.0, 4.0])}, {3: item([1.0, 3.0])}
    path = write(tmp_path, {**head, 1: item(0, png(1)), 2: item(7, png(2)), **spans})
    faces = open_records(path, WHOLE)
    with pytest.raises(DataError, match="its label is 7, but its place is identity 0"):
        faces.in_memory()


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda data: b"\0" + data[1:], "there is no record at byte 0"),
        (lambda data: data[:6], "there is no record at byte 0, or it is cut short"),
        (lambda data: data[:40], "the record at byte 0 is cut short"),
        (lambda data: data[:4] + struct.pack("<I", 2 << 29 | 32) + data[8:], "its parts are out of order"),
        (lambda data: frame(b"short"), "too short for its header: 5 of 24 bytes"),
        (lambda data: frame(struct.pack("<IfQQ", 1000, 0, 0, 0)), "announces 1000 labels"),
        (lambda data: frame(struct.pack("<IfQQ", 0, float("nan"), 0, 0)), "a label is no number"),
    ],
)
def test_damaged_records_are_named(tmp_path, change, message):
    path = write(tmp_path, {0: item(0, png(1))})
    path.write_bytes(change(path.read_bytes()))
    with path.open("rb") as file, pytest.raises(DataError, match=message):
        read_record(file, 0)


def test_random_bytes_are_refused_or_read(tmp_path):
    """Whatever a file holds, it is a DataError or a record, never something else."""
    whole = frame(item([1.0, 2.0], png(3)))
    generator = torch.Generator().manual_seed(0)
    for _ in range(300):
        data = bytearray(whole)
        for place in torch.randint(len(data), (3,), generator=generator).tolist():
            data[place] = int(torch.randint(256, (1,), generator=generator))
        path = tmp_path / "fuzz.rec"
        path.write_bytes(data[: int(torch.randint(len(data), (1,), generator=generator))])
        with path.open("rb") as file, suppress(DataError):
            assert isinstance(read_record(file, 0).image, bytes)


@pytest.mark.parametrize(
    "index, message", [("0 0\n", "line 1: must hold a key and an offset"), ("0\t0\nx\t4\n", "line 2")]
)
def test_a_wrong_index_is_named(tmp_path, index, message):
    path = write(tmp_path, {0: item(0, png(1))})
    (tmp_path / "train.idx").write_text(index)
    with pytest.raises(DataError, match=message):
        open_records(path, WHOLE)


def test_a_missing_index_is_named(tmp_path):
    path = write(tmp_path, {0: item(0, png(1))})
    (tmp_path / "train.idx").unlink()
    with pytest.raises(MissingDataError, match=r"train\.idx is missing"):
        open_records(path, WHOLE)


def test_records_that_cannot_be_read_are_counted_told_and_left_out(tmp_path):
    path = write(tmp_path, {1: item(0, png(1)), 2: item(0, png(2)), 3: item(1, png(3))})
    offset = int((tmp_path / "train.idx").read_text().splitlines()[1].split("\t")[1])
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    told = []
    damage = Damage(tell=told.append)
    assert open_records(path, WHOLE, damage).labels.tolist() == [0, 1]
    assert damage.count == 1
    assert f"no record at byte {offset}" in told[0]
    with pytest.raises(DataError, match="no record"):
        open_records(path, WHOLE, Damage(strict=True))


def offset_of(path, key):
    lines = (line.split("\t") for line in path.with_suffix(".idx").read_text().splitlines())
    return {int(name): int(offset) for name, offset in lines}[key]


def spoil(path, key):
    """Damage the frame of a record."""
    data = bytearray(path.read_bytes())
    data[offset_of(path, key)] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("key", [0, 7, 8, 9], ids=["head", "first", "second", "third"])
def test_images_of_an_identity_whose_record_is_damaged_are_found(tmp_path, key):
    path = face_pack(tmp_path)
    spoil(path, key)
    damage = Damage(tell=lambda line: None)
    faces = open_records(path, WHOLE, damage)
    assert sorted(zip(faces.labels.tolist(), faces.in_memory().images[:, 0, 4, 4].tolist(), strict=True)) == [
        *((0, 0), (0, 1), (0, 2), (1, 10), (2, 20), (2, 21)),
    ]
    assert damage.count == 1
    with pytest.raises(DataError, match=f"no record at byte {offset_of(path, key)}"):
        open_records(path, WHOLE, Damage(strict=True))


def test_only_images_without_an_identity_are_looked_at_one_by_one(tmp_path, monkeypatch):
    path = face_pack(tmp_path, people=(50, 3))
    spoil(path, 55)
    seen = []
    monkeypatch.setattr(
        "pinets.tasks.faces.data.recordio.read_record",
        lambda file, offset: seen.append(offset) or read_record(file, offset),
    )
    assert len(open_records(path, WHOLE, Damage(tell=lambda line: None))) == 53
    assert len(set(seen)) == 1 + 2 + 1 + 3


def test_of_a_file_that_is_cut_short_the_rest_is_read(tmp_path):
    path = face_pack(tmp_path)
    path.write_bytes(path.read_bytes()[: offset_of(path, 5) + 20])  # within person 2's first image
    damage = Damage(tell=lambda line: None)
    assert open_records(path, WHOLE, damage).labels.tolist() == [0, 0, 0, 1]
    assert damage.count == 2 + 3  # images and identities
    with pytest.raises(DataError, match="no record at byte"):
        open_records(path, WHOLE, Damage(strict=True))


@pytest.mark.parametrize(
    "key, labels, message",
    [
        (0, [7.0, 1e9], "identities are the records 7 to 999999999, but 10 is not indexed"),
        (8, [4.0, 1e12], "the record 8 of an identity must name a range of keys"),
        (8, [4.0], "the record 8 of an identity must name a range of keys"),
    ],
)
def test_ranges_of_keys_that_cannot_be_are_damage(tmp_path, key, labels, message):
    """Numbers that are damaged and still numbers; nobody waits for a range of a billion keys."""
    records = {0: item([7.0, 10.0]), **{number: item(number // 3, png(number)) for number in range(1, 7)}}
    records |= {7: item([1.0, 3.0]), 8: item([3.0, 6.0]), 9: item([6.0, 7.0]), key: item(labels)}
    path = write(tmp_path, records)
    told = []
    assert sorted(open_records(path, WHOLE, Damage(tell=told.append)).labels.tolist()) == [0, 0, 1, 1, 1, 2]
    assert message in told[0]


def test_images_that_do_not_decode_are_replaced_by_others_of_the_person(tmp_path):
    told = []
    damage = Damage(tell=told.append)
    faces = open_records(face_pack(tmp_path, damaged={(0, 1), (0, 2), (1, 0)}), WHOLE)
    forgiving = ForgivingSet(faces, damage)
    nothing = torch.empty(6, 0)
    for _ in range(2):
        reds = forgiving.read(torch.arange(6), nothing)[:, 0, 0, 0].tolist()
        assert reds == [0, 0, 0, 127, 20, 21]  # the only image of person 1 is grey
    assert damage.count == 3
    assert len(told) == 3
    assert all("cannot be decoded" in line and "train.rec" in line for line in told)
    assert [labels.tolist() for _, labels in Batches(forgiving, 3)] == [[0, 0, 0], [1, 2, 2]]
    with pytest.raises(DataError, match="cannot be decoded"):
        ForgivingSet(faces, Damage(strict=True)).read(torch.arange(6), nothing)


def test_only_the_first_few_are_named(tmp_path):
    told = []
    damage = Damage(tell=told.append)
    for number in range(50):
        damage.note(DataError(f"{number}"))
    assert damage.count == 50
    assert len(told) == 11


def test_packing_copies_what_can_be_read(tmp_path):
    face_pack(tmp_path / "faces", damaged={(0, 1)})
    damage = Damage(tell=lambda line: None)
    packed = pack(tmp_path / "faces", tmp_path / "shards", per_shard=2, damage=damage)
    assert vars(packed) == {"images": 5, "identities": 3, "shards": 3, "damaged": 1}
    shards = open_identities(tmp_path / "shards", WHOLE)
    assert shards.classes == ("0", "1", "2")
    read = shards.in_memory()
    assert sorted(zip(read.labels.tolist(), read.images[:, 0, 0, 0].tolist(), strict=True)) == [
        *((0, 0), (0, 2), (1, 10), (2, 20), (2, 21)),
    ]
    originals = open_identities(tmp_path / "faces", WHOLE)
    encoded = {originals.encoded(index)[1] for index in range(6)}
    assert {shards.encoded(index)[1] for index in range(5)} <= encoded


def test_a_strict_pack_leaves_nothing(tmp_path):
    face_pack(tmp_path / "faces", damaged={(0, 1)})
    with pytest.raises(DataError, match="cannot be decoded"):
        pack(tmp_path / "faces", tmp_path / "shards", damage=Damage(strict=True))
    assert [path.name for path in tmp_path.iterdir()] == ["faces"]


def test_folders_of_people(tmp_path):
    for name, reds in {"Ann": (1, 2), "Bob": (3,)}.items():
        (tmp_path / "faces" / name).mkdir(parents=True)
        for number, red in enumerate(reds):
            (tmp_path / "faces" / name / f"{name}_{number:04d}.png").write_bytes(png(red))
    faces = open_identities(tmp_path / "faces", WHOLE)
    assert (faces.classes, faces.labels.tolist()) == (("Ann", "Bob"), [0, 0, 1])
    pack(tmp_path / "faces", tmp_path / "shards", damage=Damage(strict=True))
    again = open_shards(sorted((tmp_path / "shards").glob("*.tar")), WHOLE).in_memory()
    assert sorted(again.images[:, 0, 0, 0].tolist()) == [1, 2, 3]


def test_an_empty_folder_says_what_it_may_hold(tmp_path):
    with pytest.raises(MissingDataError, match=r"neither train\.rec, nor train-\*\.tar, nor a folder for each person"):
        open_identities(tmp_path, WHOLE)


def test_images_of_two_identities_are_read_one_by_one(tmp_path):
    images = {key: item(label, png(key)) for key, label in ((1, 0), (2, 0), (3, 1), (4, 1))}
    path = write(tmp_path, {0: item([5.0, 7.0]), **images, 5: item([1.0, 3.0]), 6: item([2.0, 5.0])})
    told = []
    faces = open_records(path, WHOLE, Damage(tell=told.append))
    assert faces.labels.tolist() == [0, 0, 1, 1]
    assert faces.in_memory().images[:, 0, 0, 0].tolist() == [1, 2, 3, 4]
    assert "the record 6 of an identity names images 2 to 4, which others have" in told[0]


def test_a_small_pack_cannot_name_more_images_than_it_has(tmp_path):
    """Each of many identities names the same images: their number must not be multiplied."""
    people = 50
    identities = {2 + number: item([1.0, 2.0 + people]) for number in range(people)}
    path = write(tmp_path, {0: item([2.0, 2.0 + people]), 1: item(0, png(1)), **identities})
    faces = open_records(path, WHOLE, Damage(tell=[].append))
    assert len(faces) <= people + 2
