import io
import tarfile
from contextlib import ExitStack

import pytest
import torch
import webdataset
from PIL import Image
from webdataset.tariterators import group_by_keys, tar_file_expander

from pinets.data import (
    Batches,
    CentreCrop,
    DataError,
    ImageSet,
    MissingDataError,
    RandomResizedCrop,
    Splits,
    load,
    open_shards,
    write_shards,
)
from pinets.data.sets.folders import read_image_folder

CENTRE = CentreCrop(8, 8)


def image_set(count, seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, 3, 8, 8), dtype=torch.uint8, generator=generator)
    return ImageSet(images, torch.arange(count) % 3, ("ant", "bee", "cow"))


SPLITS = Splits(image_set(50, 0), image_set(7, 1), image_set(11, 2))


def content(samples):
    return sorted((bytes(image.flatten().tolist()), int(label)) for image, label in zip(*samples, strict=True))


def test_written_shards_hold_the_set(tmp_path):
    write_shards(SPLITS, tmp_path / "shards", per_shard=10)
    names = sorted(path.name for path in (tmp_path / "shards").glob("train-*"))
    assert names == [f"train-{number:06d}.tar" for number in range(5)]
    splits = load("shards", tmp_path / "shards", size=8)
    assert splits.train.classes == ("ant", "bee", "cow")
    for part in ("train", "validation", "test"):
        whole, read = getattr(SPLITS, part), getattr(splits, part).with_crop(CENTRE).in_memory()
        assert content((whole.images, whole.labels)) == content((read.images, read.labels))
    assert isinstance(splits.train.crop, RandomResizedCrop)
    assert [path.name for path in tmp_path.iterdir()] == ["shards"]


def test_shards_of_grey_images_keep_one_channel(tmp_path):
    grey = ImageSet(torch.arange(20).byte().view(20, 1, 1, 1).expand(20, 1, 6, 6), torch.arange(20) % 2, ("ant", "bee"))
    write_shards(Splits(grey, grey, grey), tmp_path / "shards")
    test = load("shards", tmp_path / "shards", size=6).test
    assert test.channels == 1
    assert sorted(test.in_memory().images[:, 0, 3, 3].tolist()) == list(range(20))


def test_webdataset_reads_what_we_write(tmp_path):
    write_shards(SPLITS, tmp_path / "shards", per_shard=10)
    with ExitStack() as stack:  # webdataset.WebDataset itself leaves the files it opens to the garbage collector
        paths = sorted((tmp_path / "shards").glob("train-*.tar"))
        streams = [{"url": str(path), "stream": stack.enter_context(path.open("rb"))} for path in paths]
        samples = list(group_by_keys(tar_file_expander(streams)))
    samples = [webdataset.autodecode.Decoder([webdataset.autodecode.imagehandler("rgb8")])(one) for one in samples]
    images = torch.stack([torch.tensor(sample["png"]).permute(2, 0, 1) for sample in samples])
    labels = torch.tensor([sample["cls"] for sample in samples])
    assert content((images, labels)) == content((SPLITS.train.images, SPLITS.train.labels))


def write_with_webdataset(folder, count=30, per_shard=7):
    pattern = str(folder / "train-%06d.tar")
    with webdataset.ShardWriter(pattern, maxcount=per_shard, verbose=0) as writer:
        for number in range(count):
            buffer = io.BytesIO()
            Image.new("RGB", (8, 8), (number, 0, 0)).save(buffer, "PNG")
            writer.write({"__key__": f"key{number:04d}", "png": buffer.getvalue(), "cls": number % 3, "json": {"n": 1}})
    return sorted(folder.glob("*.tar"))


def test_we_read_what_webdataset_writes(tmp_path):
    shards = open_shards(write_with_webdataset(tmp_path), CENTRE)
    assert shards.classes == ("0", "1", "2")
    images = shards.in_memory()
    assert images.images[:, 0, 0, 0].tolist() == list(range(30))
    assert images.labels.tolist() == [number % 3 for number in range(30)]


def test_missing_parts_are_held_out(tmp_path):
    write_with_webdataset(tmp_path)
    splits = load("shards", tmp_path, size=8, validation=0.2)
    reds = [part.with_crop(CENTRE).in_memory().images[:, 0, 0, 0].tolist() for part in vars(splits).values()]
    assert sorted(red for part in reds for red in part) == list(range(30))
    assert [len(part) for part in reds] == [18, 6, 6]


def test_own_validation_shards_are_the_validation(tmp_path):
    write_shards(SPLITS, tmp_path / "shards")
    for path in (tmp_path / "shards").glob("test-*.tar"):
        path.unlink()
    splits = load("shards", tmp_path / "shards", size=8, validation=0.2)
    read = splits.validation.with_crop(CENTRE).in_memory()
    assert content((read.images, read.labels)) == content((SPLITS.validation.images, SPLITS.validation.labels))
    assert len(splits.train) + len(splits.test) == len(SPLITS.train)


def test_jpeg_is_copied_and_not_coded_again(tmp_path):
    for name in ("ant", "bee"):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(10):
            image = Image.effect_noise((16, 16), 80).convert("RGB")
            image.save(tmp_path / "images" / name / f"{number}.jpg")
    splits = read_image_folder(tmp_path / "images", size=8)
    write_shards(splits, tmp_path / "shards")
    written = load("shards", tmp_path / "shards", size=8)
    originals = {path.read_bytes() for path in (tmp_path / "images").rglob("*.jpg")}
    copies = [part.encoded(index)[1] for part in vars(written).values() for index in range(len(part))]
    assert len(copies) == 20
    assert set(copies) == originals


def test_an_epoch_goes_through_few_shards_at_a_time(tmp_path):
    shards = open_shards(write_with_webdataset(tmp_path, count=200, per_shard=10), CENTRE)
    order = shards.shuffled(torch.Generator().manual_seed(0))
    assert order.sort().values.tolist() == list(range(200))
    used = shards.places[order, 0]
    for group in used.split(80):  # 8 shards of 10
        assert len(group.unique()) <= 8
    assert not torch.equal(used.sort().values, used)
    assert not torch.equal(order, shards.shuffled(torch.Generator().manual_seed(1)))


def test_batches_of_shards_resume_and_are_shared(tmp_path):
    shards = open_shards(write_with_webdataset(tmp_path), RandomResizedCrop(4))
    whole = [inputs for inputs, _ in Batches(shards, 4, shuffle=True)]
    resumed = Batches(shards, 4, shuffle=True, prefetch=2)
    resumed.load_state_dict({**resumed.state_dict(), "step": 5})
    assert all(torch.equal(left, right) for left, (right, _) in zip(whole[5:], resumed, strict=True))
    halves = [[inputs for inputs, _ in Batches(shards, 4, shuffle=True, rank=r, world_size=2)] for r in range(2)]
    assert all(torch.equal(both, torch.cat(parts)) for both, *parts in zip(whole, *halves, strict=True))


@pytest.mark.parametrize("cut", [100, 512 * 3, 512 * 4, 5000])
def test_cut_short_shard_is_named(tmp_path, cut):
    path = write_with_webdataset(tmp_path)[1]
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"train-000001\.tar: damaged or cut short"):
        open_shards(sorted(tmp_path.glob("*.tar")), CENTRE)


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize(
    "members, rule",
    [
        ({"a.jpg": b"?"}, r"train-0\.tar: a lacks its label \(\.cls\)"),
        ({"a.cls": b"1"}, r"train-0\.tar: a lacks its image"),
        ({"a.jpg": b"?", "a.cls": b"one"}, r"train-0\.tar: a\.cls must hold a whole number .*, got b'one'"),
        ({"a.jpg": b"?", "a.cls": b""}, r"train-0\.tar: a\.cls must hold a whole number .*, got b''"),
        ({"a.jpg": b"?", "a.cls": b"-1"}, r"train-0\.tar: a\.cls must hold a whole number .*, got b'-1'"),
        ({"readme.txt": b"?"}, r"train-0\.tar: holds no images with labels"),
        ({"a.jpg": b"?", "a.cls": b"2"}, r"train-0\.tar: record 0 has label 2, but labels go from 0 to 1"),
    ],
)
def test_wrong_content_is_named(tmp_path, members, rule):
    write_tar(tmp_path / "train-0.tar", members)
    (tmp_path / "classes.txt").write_text("ant\nbee\n")
    with pytest.raises(DataError, match=rule):
        load("shards", tmp_path)


@pytest.mark.parametrize("label", [b"-1", b"10000000", b"1000000000000", b"99999999999999999999"])
def test_labels_that_count_no_classes_are_refused_without_their_names_too(tmp_path, label):
    write_tar(tmp_path / "train-0.tar", {"a.jpg": b"?", "a.cls": label})
    with pytest.raises(DataError, match=rf"train-0\.tar: a\.cls must hold .* from 0 to 9999999, got {label!r}"):
        open_shards([tmp_path / "train-0.tar"], CENTRE)


@pytest.mark.parametrize("damage", [b"?", bytes(512)], ids=["wrong checksum", "zeros"])
def test_a_damaged_header_is_not_the_end_of_a_shard(tmp_path, damage):
    path = write_with_webdataset(tmp_path)[1]
    with tarfile.open(path) as tar:
        offset = tar.getmembers()[6].offset
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(damage)
    with pytest.raises(DataError, match=rf"train-000001\.tar: damaged at byte {offset}, where the next member"):
        open_shards([path], CENTRE)


@pytest.mark.parametrize("blocks", [0, 1, 5000])
def test_more_zeros_at_the_end_of_a_shard_are_read_over(tmp_path, blocks):
    path = write_with_webdataset(tmp_path)[0]
    with path.open("ab") as file:
        file.write(bytes(512 * blocks))
    assert len(open_shards([path], CENTRE)) == 7


def test_what_follows_the_end_of_a_shard_is_refused(tmp_path):
    first, second, *_ = write_with_webdataset(tmp_path)
    first.write_bytes(first.read_bytes() + second.read_bytes())
    with pytest.raises(DataError, match=r"train-000000\.tar: damaged at byte"):
        open_shards([first], CENTRE)


def test_image_that_does_not_decode_is_named(tmp_path):
    write_tar(tmp_path / "train-0.tar", {"a.jpg": b"?", "a.cls": b"1"})
    with pytest.raises(DataError, match=r"train-0\.tar, image 0 at byte 512: cannot be decoded"):
        open_shards([tmp_path / "train-0.tar"], CENTRE).in_memory()


def test_no_shards(tmp_path):
    with pytest.raises(MissingDataError, match=r"holds no shards for training, train-000000\.tar"):
        load("shards", tmp_path)


def test_existing_folder_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("data")
    with pytest.raises(FileExistsError, match="exists already"):
        write_shards(SPLITS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_nothing_is_left_of_a_failure(tmp_path):
    (tmp_path / "images" / "ant").mkdir(parents=True)
    for number in range(10):
        file = tmp_path / "images" / "ant" / f"{number}.{'gif' if number == 5 else 'png'}"
        Image.new("RGB", (8, 8)).save(file)
    with pytest.raises(DataError, match=r"5\.gif: shards hold JPEG"):
        write_shards(read_image_folder(tmp_path / "images"), tmp_path / "shards")
    assert [path.name for path in tmp_path.iterdir()] == ["images"]


def test_the_folder_belongs_to_the_key(tmp_path):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "PNG")
    members = {
        "cat/0001.png": buffer.getvalue(),
        "cat/0001.cls": b"0",
        "dog/0001.png": buffer.getvalue(),
        "dog/0001.cls": b"1",
    }
    write_tar(tmp_path / "train-0.tar", members)
    assert open_shards([tmp_path / "train-0.tar"], CENTRE).labels.tolist() == [0, 1]
    write_tar(tmp_path / "train-1.tar", members | {"dog/0001.PNG": buffer.getvalue()})
    with pytest.raises(DataError, match="dog/0001 is there twice"):
        open_shards([tmp_path / "train-1.tar"], CENTRE)
