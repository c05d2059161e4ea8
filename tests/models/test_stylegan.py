"""StyleGAN as an instance of NCP; its sizes are those of the original."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pinets.models import create_model
from pinets.models.stylegan import Blur, MinibatchDeviation, StyleGenerator, equalize
from pinets.polynomial import Polynomial, Step

TOY = {"size": 16, "base": 64, "most": 8, "latent": 8}


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_sizes_of_the_original_at_1024():
    """The original keeps, for growing, a layer to or from RGB for every size; here there is the last one alone."""
    widths = [512, 512, 512, 512, 256, 128, 64, 32]
    with torch.device("meta"):
        generator, discriminator = (
            create_model(f"stylegan_{kind}", size=1024) for kind in ("generator", "discriminator")
        )
    assert size(generator) + sum(3 * width + 3 for width in widths) == 26_219_627
    assert size(discriminator) + sum(3 * width + width for width in widths) == 23_087_249


@pytest.mark.parametrize("image", [32, 64, 128, 256, 512, 1024])
def test_prodpoly_differs_in_the_mapping_network_alone(image):
    with torch.device("meta"):
        baseline, prodpoly = (create_model(f"stylegan_{kind}generator", size=image) for kind in ("", "prodpoly_"))
    shapes = [
        {key: value.shape for key, value in model.synthesis.state_dict().items()} for model in (baseline, prodpoly)
    ]
    assert shapes[0] == shapes[1]
    assert size(prodpoly.mapping) / size(baseline.mapping) == pytest.approx(1, abs=0.01)
    assert prodpoly.mapping[1].order == 4


def test_the_synthesis_is_a_polynomial_of_steps():
    synthesis = create_model("stylegan_generator", **TOY).synthesis
    assert isinstance(synthesis, Polynomial)
    assert len(synthesis.steps) == 2 * 3  # 4, 8 and 16 pixels
    assert all(isinstance(step, Step) for step in synthesis.steps)


def test_a_step_is_adaptive_instance_normalisation():
    step = create_model("stylegan_generator", **TOY).double().synthesis.steps[1]
    w, x = torch.randn(3, 6, 8, dtype=torch.float64), torch.randn(3, 8, 4, 4, dtype=torch.float64)
    conv = step.body[0]
    y = F.instance_norm(F.leaky_relu(F.conv2d(x, conv.weight, padding=1), 0.2), eps=1e-8)
    scale, shift = (w[:, 1] @ part[1].weight.T + part[1].bias for part in (step.gate, step.shift))
    torch.testing.assert_close(step(w, x), torch.einsum("nc,nchw->nchw", scale, y) + shift[:, :, None, None])


@pytest.mark.parametrize("name", ["stylegan_generator", "stylegan_prodpoly_generator"])
def test_styles_begin_with_the_variance_of_the_noise(name):
    mapping = create_model(name, size=8, base=64, most=8).mapping
    assert 0.3 < mapping(torch.randn(256, 512)).var() < 3


def test_truncation_goes_from_the_mean_to_the_sample():
    generator = create_model("stylegan_generator", **TOY).train()
    for _ in range(5):
        generator(torch.randn(32, 8))
    generator.eval()
    z = torch.randn(4, 8)
    mean = generator.truncated(z, 0.0)
    assert torch.allclose(mean, mean[:1].expand_as(mean), atol=1e-6)
    torch.testing.assert_close(generator.truncated(z, 1.0), generator(z))
    half = generator.synthesis(
        (0.5 * generator.mean_style + 0.5 * generator.mapping(z))[:, None].expand(-1, generator.steps, -1)
    )
    torch.testing.assert_close(generator.truncated(z, 0.5), half)
    torch.testing.assert_close(generator.truncated(z, 0.0, steps=0), generator(z))


def test_the_mean_of_the_styles_is_followed_in_training_only():
    generator = create_model("stylegan_generator", **TOY)
    z = torch.randn(64, 8)
    with torch.no_grad():
        expected = 0.005 * generator.mapping(z).mean(dim=0)
    generator.train()(z)
    torch.testing.assert_close(generator.mean_style, expected)
    generator.eval()(z)
    torch.testing.assert_close(generator.mean_style, expected)


def test_mixed_styles_change_once_in_nine_of_ten_images():
    synthesis = Polynomial(nn.Identity(), [Step(nn.Identity()) for _ in range(6)])
    generator = StyleGenerator(nn.Identity(), synthesis, latent=1)
    mixed = generator._mix(torch.zeros(4000, 6, 1), torch.ones(4000, 1))[..., 0]
    assert (mixed.diff(dim=1) >= 0).all()  # from the first style to the other, and never back
    assert (mixed[:, 0] == 0).all()
    assert mixed[:, -1].mean().item() == pytest.approx(0.9, abs=0.02)
    later = mixed[mixed[:, -1] == 1].sum(dim=1)
    assert torch.bincount(later.long(), minlength=6)[1:].float().std() < 60  # every place equally often, about 720


def test_noise_inputs_are_off_at_first_and_then_differ():
    generator = create_model("stylegan_generator", **TOY).eval()
    z = torch.randn(2, 8)
    assert torch.equal(generator(z), generator(z))
    for step in generator.synthesis.steps:
        nn.init.ones_(step.body[-3].strength)
    assert not torch.equal(generator(z), generator(z))


def test_equalised_layers_learn_alike_whatever_their_width():
    """One step of Adam changes a weight by the learning rate times its typical size."""
    for width in (4, 400):
        layer = nn.Linear(width, 8, bias=False)
        nn.init.normal_(layer.weight, std=width**-0.5)
        equalize(layer, gain=1.0, multiplier=0.5)
        before = layer.weight.detach().clone()
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
        layer(torch.randn(16, width)).sum().backward()
        optimizer.step()
        change = (layer.weight - before).abs().mean().item()
        assert change == pytest.approx(0.01 * 0.5 * width**-0.5, rel=1e-3)


def test_the_deviation_tells_how_groups_differ():
    x = torch.randn(8, 3, 4, 4)
    x[4:] = x[4]
    out = MinibatchDeviation(group=4)(x)
    assert torch.equal(out[:, :3], x)
    expected = x[:4].std(dim=0, correction=0).mean()
    torch.testing.assert_close(out[:4, 3], expected.expand(4, 4, 4))
    assert out[4:, 3].max() < 1e-3


def test_the_blur_keeps_what_is_even_and_spreads_a_point():
    x = torch.zeros(1, 2, 5, 5)
    x[0, 0, 2, 2] = 16.0
    x[0, 1] = 3.0
    out = Blur()(x)
    expected = torch.tensor([[1.0, 2, 1], [2, 4, 2], [1, 2, 1]])
    assert torch.equal(out[0, 0, 1:4, 1:4], expected)
    assert torch.equal(out[0, 1, 1:4, 1:4], x[0, 1, 1:4, 1:4])
