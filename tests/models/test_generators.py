"""What every registered generator and discriminator promises."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import torch

from pinets.models import create_model, list_models, model_entry

GENERATORS, DISCRIMINATORS = list_models("generation"), list_models("discrimination")


@pytest.fixture(params=[*GENERATORS, *DISCRIMINATORS])
def name(request):
    return request.param


def toy(name, **arguments):
    return create_model(name, **{**model_entry(name).toy, **arguments})


def batch(name, samples=3, dtype=torch.float32):
    if name in GENERATORS:
        return torch.randn(samples, toy(name).latent, dtype=dtype)
    channels = model_entry(name).input_shape[0]
    side = model_entry(name).toy.get("size", 32)
    return torch.randn(samples, channels, side, side, dtype=dtype)


def test_the_documented_numbers_of_parameters():
    """The table of docs/generation.md, each name with its number."""
    table = (Path(__file__).parents[2] / "docs" / "generation.md").read_text(encoding="utf-8")
    told = {}
    for line in table.splitlines():
        if line.startswith("| `"):
            names, numbers = re.findall(r"`(\w+)`", line.split("|")[1]), re.findall(r"\d[\d,]{4,}", line.split("|")[2])
            told |= dict(zip(names, [int(number.replace(",", "")) for number in numbers], strict=False))
    with torch.device("meta"):
        networks = {name: create_model(name) for name in (*GENERATORS, *DISCRIMINATORS)}
    counts = {name: sum(parameter.numel() for parameter in model.parameters()) for name, model in networks.items()}
    assert told == counts


def test_outputs_and_entries(name):
    out = toy(name).eval()(batch(name))
    if name in GENERATORS:
        assert out.shape[0] == 3
        assert out.shape[2:] == (16, 16)
    else:
        assert out.shape == (3,)
    assert model_entry(name).summary


def test_networks_are_made_on_a_device_and_moved_to_a_type(name):
    with torch.device("meta"):
        model = toy(name).double()
    for tensor in [*model.parameters(), *model.buffers()]:
        assert tensor.device.type == "meta"
        assert tensor.dtype == torch.float64 or not tensor.is_floating_point()


def test_copies_and_files_give_the_same_outputs(name):
    model, x = toy(name).eval(), batch(name)
    other = toy(name).eval()
    assert not torch.equal(other(x), model(x))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x), model(x))
    assert torch.equal(copy.deepcopy(model)(x), model(x))


def test_all_parameters_learn(name):
    model, x = toy(name).train(), batch(name, samples=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        out = model(x)
        (out * torch.randn_like(out)).sum().backward()
        optimizer.step()
    idle = [key for key, parameter in model.named_parameters() if not parameter.grad.abs().sum() > 0]
    assert idle == []


def test_channels_last_gives_the_same_outputs(name):
    model, x = toy(name).double().eval(), batch(name, dtype=torch.float64)
    expected = model(x)
    model.to(memory_format=torch.channels_last)
    torch.testing.assert_close(model(x), expected, rtol=1e-9, atol=1e-9)


def seeded(model, x):
    """The output with the same random numbers each time: StyleGAN adds noise to its maps."""
    torch.manual_seed(0)
    return model(x)


def test_exports_with_any_batch_size(name):
    model, x = toy(name).eval(), batch(name, samples=8)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: 4 * torch.export.Dim("groups", min=1, max=16)},))
    more = batch(name, samples=12)
    found, expected = (seeded(module, more) for module in (exported.module(), model))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiles_without_breaks(name, backend):
    torch.compiler.reset()
    model, x = toy(name).double().eval(), batch(name, samples=4, dtype=torch.float64)
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, backend=backend)
    seeded(model, x).square().sum().backward()
    with torch._inductor.config.patch(fallback_random=True):  # else a compiled network draws other noise
        seeded(compiled, x).square().sum().backward()
    # a shift before an instance norm has no gradient, but the rounding errors of the largest
    rounding = 1e-14 * max(float(parameter.grad.abs().max()) for parameter in model.parameters())
    for expected, parameter in zip(model.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected.grad, rtol=1e-6, atol=max(1e-9, rounding))
    assert compiled.train()(x).shape == model(x).shape  # the other half of the code
