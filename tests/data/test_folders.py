import io
import os

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from pinets.data import Batches, CentreCrop, DataError, FolderSet, MissingDataError, RandomResizedCrop, load
from pinets.data.formats.images import decode_image
from pinets.data.sets.folders import read_class_folders, read_image_folder
from pinets.data.sets.imagenet import read_imagenet, read_tiny_imagenet


def picture(colour, size=(12, 10), mode="RGB"):
    image = Image.new("RGB", size, colour).convert(mode)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def write(folder, classes, count, colours=None):
    """Every image has a colour of its own, whose red says its class and whose green says its number."""
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            (folder / name / f"{number}.png").write_bytes(picture((40 * label, number, 0)))


def colours(samples):
    images = Batches(samples.with_crop(CentreCrop(4, 4)), len(samples))
    ((pixels, labels),) = images
    return {(int(label), int(pixel[0]), int(pixel[1])) for label, pixel in zip(labels, pixels[:, :, 2, 2], strict=True)}


def expected(classes, numbers):
    return {(label, 40 * label, number) for label in range(classes) for number in numbers}


def test_a_set_with_all_three_parts(tmp_path):
    for part, count in (("train", 5), ("val", 3), ("test", 2)):
        write(tmp_path / part, ("ant", "bee"), count)
    splits = read_image_folder(tmp_path, size=8)
    assert splits.train.classes == ("ant", "bee")
    assert colours(splits.train) == expected(2, range(5))
    assert colours(splits.validation) == expected(2, range(3))
    assert colours(splits.test) == expected(2, range(2))
    assert isinstance(splits.train.crop, RandomResizedCrop)
    assert isinstance(splits.validation.crop, CentreCrop)
    assert isinstance(splits.test.crop, CentreCrop)


@pytest.mark.parametrize("name", ["val", "test"])
def test_validation_is_held_out_where_there_is_one_other_part(tmp_path, name):
    write(tmp_path / "train", ("ant", "bee"), 10)
    write(tmp_path / name, ("ant", "bee"), 2)
    splits = load("image_folder", tmp_path, size=8, validation=0.2)
    assert colours(splits.test) == expected(2, range(2))
    train, held = colours(splits.train), colours(splits.validation)
    assert (len(train), len(held)) == (16, 4)
    assert train | held == expected(2, range(10))
    assert isinstance(splits.validation.crop, CentreCrop)


@pytest.mark.parametrize("inner", ["", "train"])
def test_both_are_held_out_where_there_is_nothing_else(tmp_path, inner):
    write(tmp_path / inner, ("ant", "bee", "cow"), 10)
    splits = read_image_folder(tmp_path, validation=0.2)
    parts = [colours(part) for part in (splits.train, splits.validation, splits.test)]
    assert [len(part) for part in parts] == [18, 6, 6]
    assert set.union(*parts) == expected(3, range(10))


def test_what_a_folder_lacks_is_named(tmp_path):
    with pytest.raises(MissingDataError, match="nowhere is missing"):
        read_class_folders(tmp_path / "nowhere", CentreCrop(4, 4))
    with pytest.raises(MissingDataError, match="has no folders: there must be one for each class"):
        read_image_folder(tmp_path)
    write(tmp_path / "val", ("ant",), 1)
    with pytest.raises(MissingDataError, match="train is missing"):
        read_image_folder(tmp_path)
    write(tmp_path / "train", ("bee",), 3)
    with pytest.raises(DataError, match=r"val/ant: there is no class 'ant' in the training data"):
        read_image_folder(tmp_path)
    (tmp_path / "train" / "ant").mkdir()
    with pytest.raises(DataError, match=r"train/ant holds no images"):
        read_image_folder(tmp_path)


@pytest.mark.parametrize("damage", [lambda raw: b"", lambda raw: raw[:-30], lambda raw: b"no image at all"])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP"])
def test_image_that_does_not_decode_is_named(tmp_path, damage, kind):
    write(tmp_path, ("ant",), 4)
    buffer = io.BytesIO()
    Image.effect_noise((30, 30), 50).convert("RGB").save(buffer, kind)
    (tmp_path / "ant" / "2.png").write_bytes(damage(buffer.getvalue()))
    samples = read_class_folders(tmp_path, CentreCrop(4, 4))
    with pytest.raises(DataError, match=r"ant/2\.png: cannot be decoded as an image"):
        list(Batches(samples, 4, prefetch=1))
    with pytest.raises(DataError, match=r"ant/2\.png"):
        samples.in_memory()


def test_image_that_went_away_is_named(tmp_path):
    write(tmp_path, ("ant",), 4)
    samples = read_class_folders(tmp_path, CentreCrop(4, 4))
    (tmp_path / "ant" / "1.png").unlink()
    with pytest.raises(MissingDataError, match=r"ant/1\.png .* is gone now"):
        samples.in_memory()


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "LA", "CMYK"])
def test_every_mode_becomes_rgb(mode):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "white").convert(mode).save(buffer, "TIFF")
    pixels = decode_image(buffer.getvalue(), "white", CentreCrop(4, 4), ())
    assert pixels.shape == (3, 4, 4)
    assert (pixels == 255).all()


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("mode", ["L", "1", "LA"])
def test_a_folder_of_grey_images_has_one_channel_until_one_is_in_colour(tmp_path, mode, part):
    for folder in ("train/ant", "train/bee", "test/ant", "test/bee"):
        (tmp_path / folder).mkdir(parents=True)
        for number in range(3):
            (tmp_path / folder / f"{number}.png").write_bytes(picture((90, 90, 90), (8, 8), mode))
    splits = load("image_folder", tmp_path, size=8, validation=0.3)
    for samples in (splits.train, splits.validation, splits.test):
        read = samples.read(torch.tensor([0]), torch.rand(1, samples.draws))
        assert read.shape == (1, 1, 8, 8)
        assert mode == "1" or read.unique().tolist() == [90]  # an image of black and white dots is dithered
    (tmp_path / part / "bee" / "9.png").write_bytes(picture((9, 8, 7), (8, 8)))
    splits = load("image_folder", tmp_path, size=8, validation=0.3)
    for samples in (splits.train, splits.validation, splits.test):
        assert samples.read(torch.tensor([0]), torch.rand(1, samples.draws)).shape == (1, 3, 8, 8)


def test_image_of_the_right_size_is_decoded_exactly():
    pixels = torch.randint(0, 256, (16, 16, 3), dtype=torch.uint8)
    buffer = io.BytesIO()
    Image.frombytes("RGB", (16, 16), bytes(pixels.flatten().tolist())).save(buffer, "PNG")
    assert torch.equal(decode_image(buffer.getvalue(), "x", CentreCrop(16, 16), ()), pixels.permute(2, 0, 1))


@pytest.mark.parametrize("width, height", [(100, 100), (300, 20), (20, 300), (64, 48)])
def test_random_part_keeps_its_area_and_ratio(width, height):
    crop = RandomResizedCrop(8, scale=(0.2, 0.6), ratio=(0.8, 1.25))
    numbers = torch.rand(2000, crop.draws, generator=torch.Generator().manual_seed(0)).tolist()
    areas = []
    for row in numbers:
        left, upper, right, lower = crop.box(width, height, row)
        assert 0 <= left < right <= width + 1e-9
        assert 0 <= upper < lower <= height + 1e-9
        ratio = (right - left) / (lower - upper)
        assert 0.8 - 1e-9 <= ratio <= 1.25 + 1e-9
        areas.append((right - left) * (lower - upper) / (width * height))
    if max(width, height) < 2 * min(width, height):  # a box always fits: the area is uniform in its range
        areas = torch.tensor(areas)
        assert areas.min() >= 0.2 - 1e-6
        assert areas.max() <= 0.6 + 1e-6
        assert abs(areas.mean() - 0.4) < 4 * 0.4 / 12**0.5 / 2000**0.5


def test_random_parts_repeat_after_resuming_and_in_two_processes(tmp_path):
    (tmp_path / "ant").mkdir()
    for number in range(9):
        Image.effect_noise((20, 16), 90).convert("RGB").save(tmp_path / "ant" / f"{number}.png")
    samples = read_class_folders(tmp_path, RandomResizedCrop(8))
    whole = list(Batches(samples, 4, shuffle=True))
    resumed = Batches(samples, 4, shuffle=True)
    resumed.load_state_dict({**resumed.state_dict(), "step": 1})
    for (left, _), (right, _) in zip(whole[1:], resumed, strict=True):
        assert torch.equal(left, right)
    halves = [[inputs for inputs, _ in Batches(samples, 4, shuffle=True, rank=r, world_size=2)] for r in range(2)]
    for (both, _), first, second in zip(whole, *halves, strict=True):
        assert torch.equal(both, torch.cat([first, second]))


def test_random_part_cannot_be_decoded_for_good(tmp_path):
    write(tmp_path, ("ant",), 2)
    with pytest.raises(ValueError, match="is random"):
        read_class_folders(tmp_path, RandomResizedCrop(8)).in_memory()


def test_imagenet_with_folders_of_validation_images(tmp_path):
    write(tmp_path / "imagenet" / "train", ("n01", "n02"), 10)
    write(tmp_path / "imagenet" / "val", ("n01", "n02"), 2)
    splits = load("imagenet", tmp_path, validation=0.1)
    assert [len(splits.train), len(splits.validation), len(splits.test)] == [18, 2, 4]
    ((images, _),) = Batches(splits.train, 18)
    assert images.shape == (18, 3, 224, 224)


@pytest.mark.parametrize(
    "name, line",
    [
        ("LOC_val_solution.csv", "{stem},{wnid} 1 2 3 4 {wnid} 5 6 7 8"),
        ("val.txt", "{stem}.png {wnid}"),
        ("val/val_annotations.txt", "{stem}.png\t{wnid}\t0\t1\t2\t3"),
    ],
)
def test_imagenet_with_a_list_of_validation_images(tmp_path, name, line):
    write(tmp_path / "train", ("n01", "n02"), 10)
    (tmp_path / "val").mkdir()
    lines = ["ImageId,PredictionString"] if name.endswith("csv") else []
    for number in range(6):
        (tmp_path / "val" / f"image_{number}.png").write_bytes(picture((40 * (number % 2), number, 0)))
        lines.append(line.format(stem=f"image_{number}", wnid=("n01", "n02")[number % 2]))
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    test = read_imagenet(tmp_path).test
    assert isinstance(test, FolderSet)
    assert colours(test) == {(number % 2, 40 * (number % 2), number) for number in range(6)}


def test_list_that_does_not_fit(tmp_path):
    write(tmp_path / "train", ("n01",), 10)
    (tmp_path / "val").mkdir()
    (tmp_path / "val" / "a.png").write_bytes(picture("red"))
    with pytest.raises(MissingDataError, match=r"one of LOC_val_solution\.csv, .* must be beside it"):
        read_imagenet(tmp_path)
    for content, rule in [
        ("b.png n01", r"a\.png: is not in the list of classes"),
        ("a.png n02", r"a\.png: has class 'n02', which has no training images"),
        ("a.png", r"val\.txt, line 1: must name an image and its class, got 'a\.png'"),
    ]:
        (tmp_path / "val.txt").write_text(content)
        with pytest.raises(DataError, match=rule):
            read_imagenet(tmp_path)


def test_tiny_imagenet(tmp_path):
    for label, name in enumerate(("n01", "n02")):
        folder = tmp_path / "train" / name / "images"
        folder.mkdir(parents=True)
        (tmp_path / "train" / name / f"{name}_boxes.txt").write_text("boxes")
        for number in range(10):
            mode = "L" if number == 3 else "RGB"
            (folder / f"{name}_{number}.png").write_bytes(picture((40 * label,) * 3, size=(64, 64), mode=mode))
    (tmp_path / "val" / "images").mkdir(parents=True)
    (tmp_path / "val" / "images" / "val_0.png").write_bytes(picture((40, 40, 40), size=(64, 64)))
    (tmp_path / "val" / "val_annotations.txt").write_text("val_0.png\tn02\t0\t0\t62\t62\n")
    splits = read_tiny_imagenet(tmp_path)
    assert splits.train.images.shape == (18, 3, 64, 64)
    assert torch.equal(splits.train.images[:, 0, 0, 0], 40 * splits.train.labels.byte())
    assert splits.test.labels.tolist() == [1]
    assert splits.test.images.unique().tolist() == [40]


def test_too_few_images_are_told_with_the_folder_and_the_number_that_works(tmp_path):
    write(tmp_path / "two", ("ant",), 2)
    told = "two: validation and test samples are held out of 2, for which a class must have at least 3; the largest has"
    with pytest.raises(DataError, match=told):
        load("image_folder", tmp_path / "two", size=8)
    write(tmp_path / "three", ("ant",), 3)
    splits = load("image_folder", tmp_path / "three", size=8)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [1, 1, 1]


@pytest.mark.parametrize("dtype, mode", [("uint16", "I;16"), ("int32", "I"), ("float32", "F")])
def test_images_of_more_than_8_bits_are_refused_and_not_cut_off(dtype, mode):
    buffer = io.BytesIO()
    Image.fromarray(np.full((8, 8), 300, dtype=dtype)).save(buffer, format="TIFF")
    with pytest.raises(DataError, match=rf"^deep\.tif: has mode {mode}.*; images must have 8 bits a channel"):
        decode_image(buffer.getvalue(), "deep.tif", CentreCrop(8, 8), ())


@pytest.mark.parametrize("orientation", range(1, 10))  # there is no 9
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_photos_are_turned_as_their_camera_noted(orientation, kind):
    exif = Image.Exif()
    exif[0x0112] = orientation
    buffer = io.BytesIO()
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(buffer, kind, exif=exif)
    upright = np.array(ImageOps.exif_transpose(Image.open(buffer)))
    found = decode_image(buffer.getvalue(), "photo", CentreCrop(8, 8), (), channels=1)
    assert np.array_equal(found[0].numpy(), upright)


def test_damaged_notes_of_a_camera_do_not_spoil_the_picture():
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "white").save(buffer, "PNG", exif=b"Exif\0\0nonsense")
    assert (decode_image(buffer.getvalue(), "photo", CentreCrop(8, 8), ()) == 255).all()


def test_what_is_hidden_is_no_class_and_no_image(tmp_path):
    write(tmp_path, ["ant", "bee"], 4)
    write(tmp_path / "bee", [".ipynb_checkpoints"], 4)  # copies of images
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / "ant" / "._1.png").write_bytes(b"\0\5\26\7")  # macOS
    samples = read_class_folders(tmp_path, CentreCrop(4, 4))
    assert samples.classes == ("ant", "bee")
    assert samples.labels.tolist() == [0] * 4 + [1] * 4


def test_a_class_whose_name_is_not_utf8_is_told(tmp_path):
    write(tmp_path, ["ant", "bee"], 4)
    try:
        os.rename(os.fsencode(tmp_path / "bee"), os.fsencode(tmp_path) + b"/b\xe4r")
    except OSError:
        pytest.skip("this file system takes UTF-8 alone")
    with pytest.raises(DataError, match=r"the name of a class must be UTF-8, got the folder b'b\\xe4r'"):
        read_class_folders(tmp_path, CentreCrop(4, 4))
