import numpy as np
import pytest
import torch
from PIL import Image

from pinets.data import (
    Chunked,
    Compose,
    ImageSet,
    Normalize,
    RandomCrop,
    RandomFlip,
    precompute,
)
from pinets.data.transforms import RandomColour, RandomErase, RandomGrain, RandomLight, RandomSimilarity


def images(count=64, channels=3, height=9, width=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, channels, height, width), dtype=torch.uint8, generator=generator)


def test_crop_is_a_window_of_the_padded_image():
    batch, padding = images(), 2
    uniforms = torch.rand(64, 2, dtype=torch.float64)
    out = RandomCrop(padding).apply(batch, uniforms)
    for image, (down, right), got in zip(batch, uniforms.tolist(), out, strict=True):
        padded = torch.zeros(3, 9 + 4, 7 + 4, dtype=torch.uint8)
        padded[:, 2:-2, 2:-2] = image
        y, x = int(5 * down), int(5 * right)
        assert torch.equal(got, padded[:, y : y + 9, x : x + 7])


def test_every_crop_is_equally_likely():
    count = 90_000
    batch = torch.ones(count, 1, 1, 1, dtype=torch.uint8)  # one white pixel: it stays in one crop of nine
    share = RandomCrop(1)(batch, torch.Generator().manual_seed(0)).double().mean()
    deviation = (1 / 9 * 8 / 9 / count) ** 0.5
    assert abs(share - 1 / 9) < 4 * deviation


def test_flip_mirrors_with_its_probability():
    batch = images(4000, 1, 2, 3)
    out = RandomFlip(0.3)(batch, torch.Generator().manual_seed(0))
    mirrored = (out == batch[..., [2, 1, 0]]).flatten(1).all(1)
    kept = (out == batch).flatten(1).all(1)
    assert (mirrored | kept).all()
    assert abs(mirrored.double().mean() - 0.3) < 4 * (0.3 * 0.7 / 4000) ** 0.5


def test_normalize_against_the_formula():
    batch = images(5)
    mean, std = (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)
    wanted = torch.stack([(batch[:, c].double() / 255 - mean[c]) / std[c] for c in range(3)], dim=1)
    got = Normalize(mean, std)(batch)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), wanted, rtol=0, atol=2e-6)


def test_normalize_of_a_set_gives_mean_zero_and_deviation_one():
    samples = ImageSet(images(500), torch.zeros(500).long(), ("a",))
    whole = Normalize.of(samples)(samples.images).double()
    torch.testing.assert_close(whole.mean((0, 2, 3)), torch.zeros(3).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(whole.std((0, 2, 3), correction=0), torch.ones(3).double(), rtol=0, atol=1e-6)


def test_a_channel_that_is_empty_in_all_images_stays_so():
    pixels = images(50)
    pixels[:, 2] = 0
    samples = ImageSet(pixels, torch.zeros(50).long(), ("a",))
    normalize = Normalize.of(samples)
    assert normalize.std[2] == 1
    assert (normalize(pixels)[:, 2] == 0).all()


def test_the_same_generator_gives_the_same_batch_whatever_the_global_one_does():
    transform = Compose(RandomCrop(2), RandomFlip(), Normalize((0.0,) * 3, (1.0,) * 3))
    torch.manual_seed(0)
    first = transform(images(), torch.Generator().manual_seed(5))
    torch.manual_seed(1)
    assert torch.equal(first, transform(images(), torch.Generator().manual_seed(5)))
    assert not torch.equal(first, transform(images(), torch.Generator().manual_seed(6)))


@pytest.mark.parametrize("make", [lambda t: t, lambda t: Chunked(t, rows=5)])
def test_rows_depend_on_their_own_numbers_only(make):
    steps = (RandomCrop(2), RandomFlip(), RandomErase(3), RandomGrain(0.5), Normalize((0.0,) * 3, (1.0,) * 3))
    transform = make(Compose(*steps))
    batch, uniforms = images(), torch.rand(64, transform.draws, dtype=torch.float64)
    whole = transform.apply(batch, uniforms)
    assert torch.equal(whole[20:37], transform.apply(batch[20:37], uniforms[20:37]))


def test_inputs_are_left_alone():
    batch = torch.rand(4, 1, 3, 3)
    before = batch.clone()
    Normalize((0.5,), (0.5,), maximum=1.0)(batch)
    assert torch.equal(batch, before)


def test_random_transforms_need_a_generator():
    with pytest.raises(TypeError, match=r"RandomFlip is random: pass the torch\.Generator"):
        RandomFlip()(images())


@pytest.mark.parametrize(
    "make, rule",
    [
        (lambda: RandomCrop(0), "padding must be at least 1, got 0"),
        (lambda: RandomFlip(1.5), r"between 0 and 1, got 1\.5"),
        (lambda: RandomErase(0), "side must be at least 1, got 0"),
        (lambda: RandomGrain(0.1, probability=0.0), r"above 0 and be at most 1, got 0\.0"),
        (lambda: Normalize((0.0,), (1.0, 1.0)), "got 1 and 2"),
        (lambda: Normalize((0.0,), (0.0,)), "must be positive"),
        (lambda: Normalize((0.0,), (1.0,))(images()), "is for 1 channels, got a batch of shape"),
    ],
)
def test_what_cannot_work_is_refused(make, rule):
    with pytest.raises(ValueError, match=rule):
        make()


def test_precompute_equals_transforming_batch_by_batch():
    samples = ImageSet(images(21), torch.arange(21) % 3, tuple("abc"))
    transform = Normalize((0.5,) * 3, (0.25,) * 3)
    features = precompute(samples, transform, batch_size=4)
    assert torch.equal(features.inputs, transform(samples.images))
    assert torch.equal(features.labels, samples.labels)
    with pytest.raises(ValueError, match="is random"):
        precompute(samples, RandomFlip())


def blurred(size=33):
    """A smooth image, in which interpolation makes no difference."""
    across, down = np.meshgrid(np.linspace(0, 3, size), np.linspace(0, 2, size))
    return (128 + 60 * np.sin(across + 1) * np.cos(down * 1.5)).astype(np.float32)


def inner(image, border=9):
    return image[border:-border, border:-border]


@pytest.mark.parametrize("uniform, degrees", [(1.0, 20), (0.0, -20), (0.75, 10)])
def test_turning_is_pillows(uniform, degrees):
    image = blurred()
    uniforms = torch.tensor([[uniform, 0.5, 0.5, 0.5]], dtype=torch.float64)
    turned = RandomSimilarity(20, 0.1, 3).apply(torch.from_numpy(image)[None, None], uniforms)[0, 0].numpy()
    expected = np.asarray(Image.fromarray(image).rotate(degrees, resample=Image.Resampling.BILINEAR))
    assert np.abs(inner(turned) - inner(expected)).max() < 1


def test_shifting_moves_by_pixels():
    image = torch.from_numpy(blurred())[None, None]
    uniforms = torch.tensor([[0.5, 0.5, 1.0, 0.0]], dtype=torch.float64)  # what lay 3 pixels to the right and 3 above
    moved = RandomSimilarity(0, 0, 3).apply(image, uniforms)
    torch.testing.assert_close(moved[..., 9:-9, 9:-9], image[..., 6:-12, 12:-6], rtol=0, atol=1e-2)


def test_growing_enlarges_about_the_centre():
    image = blurred()
    grown = RandomSimilarity(0, 0.5, 0).apply(
        torch.from_numpy(image)[None, None], torch.tensor([[0.5, 1.0, 0.5, 0.5]], dtype=torch.float64)
    )
    size = image.shape[0]
    edge = size / 2 * (1 - 1 / 1.5)
    picture = Image.fromarray(image).resize(
        (size, size), Image.Resampling.BILINEAR, box=(edge, edge, size - edge, size - edge)
    )
    assert np.abs(inner(grown[0, 0].numpy(), 2) - inner(np.asarray(picture), 2)).max() < 1


def test_every_image_has_its_own_numbers():
    images = torch.from_numpy(blurred())[None, None].expand(3, 3, -1, -1)
    uniforms = torch.rand(3, 4, dtype=torch.float64)
    jitter = RandomSimilarity(10, 0.1, 3)
    together = jitter.apply(images, uniforms)
    for row in range(3):
        torch.testing.assert_close(jitter.apply(images[row : row + 1], uniforms[row : row + 1])[0], together[row])
    assert not torch.allclose(together[0], together[1])


def test_light_changes_contrast_about_the_mean_and_adds():
    images = torch.tensor([[[[100.0, 120.0]]]]).expand(2, 3, 1, 2)
    uniforms = torch.tensor([[1.0, 0.5], [0.5, 0.0]], dtype=torch.float64)
    changed = RandomLight(0.5, 0.1).apply(images, uniforms)
    torch.testing.assert_close(changed[0, 0, 0], torch.tensor([95.0, 125.0]))
    torch.testing.assert_close(changed[1, 0, 0], torch.tensor([74.5, 94.5]))
    assert RandomLight(0.5, 1.0).apply(images, torch.ones(2, 2).double()).max() == 255


def test_colours_move_from_grey_or_towards_it():
    images = torch.tensor([80.0, 100.0, 150.0]).reshape(1, 3, 1, 1).expand(3, 3, 1, 1)  # its grey is 110
    changed = RandomColour(2.0).apply(images, torch.tensor([[0.0], [0.5], [1.0]], dtype=torch.float64))
    expected = torch.tensor([[95.0, 105.0, 130.0], [80.0, 100.0, 150.0], [50.0, 90.0, 190.0]])
    torch.testing.assert_close(changed[:, :, 0, 0], expected)
    assert RandomColour(9.0).apply(images, torch.ones(3, 1).double()).aminmax() == (0, 255)


def test_erasing_fills_a_square_with_the_mean_colour():
    batch = images(2, height=8, width=6)
    uniforms = torch.tensor([[0.5, 0.5], [0.0, 0.99]], dtype=torch.float64)  # centres (4, 3) and (0, 5)
    expected = batch.float()
    expected[0, :, 2:6, 1:5] = batch[0].float().mean((1, 2))[:, None, None]
    expected[1, :, :2, 3:] = batch[1].float().mean((1, 2))[:, None, None]
    torch.testing.assert_close(RandomErase(4).apply(batch, uniforms), expected)


def test_grain_is_gaussian_noise_on_some_images():
    batch = torch.full((4000, 3, 8, 8), 127.5)
    changes = RandomGrain(0.1, probability=0.25)(batch, torch.Generator().manual_seed(0)) - batch
    deviations = changes.flatten(1).std(1) / 255
    noisy = deviations > 0
    assert abs(noisy.double().mean() - 0.25) < 4 * (0.25 * 0.75 / 4000) ** 0.5
    assert abs(deviations[noisy].mean() - 0.05) < 4 * 0.1 / (12 * 1000) ** 0.5  # uniform between 0 and 0.1
    assert abs((changes[noisy] / changes[noisy].std((1, 2, 3), keepdim=True)).pow(4).mean() - 3) < 0.1  # Gaussian
    assert RandomGrain(9.0, probability=1.0)(batch, torch.Generator()).aminmax() == (0, 255)


@pytest.mark.parametrize("arguments", [(-1, 0, 0), (0, 1, 0), (0, 0, -1)])
def test_values_out_of_range_are_refused(arguments):
    with pytest.raises(ValueError, match="must not be negative"):
        RandomSimilarity(*arguments)
