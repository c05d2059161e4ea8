"""What every registered model promises. Those of meshes, which need a template, are in test_spiral.py."""

from __future__ import annotations

import copy
import io
import re
from pathlib import Path

import pytest
import torch

from pinets.models import create_model, list_models, model_entry, register

CLASSES = 5
CLASSIFIERS, FACES = list_models("classification"), list_models("faces")
GENERATORS, DISCRIMINATORS = list_models("generation"), list_models("discrimination")
ALL = [*CLASSIFIERS, *FACES, *GENERATORS, *DISCRIMINATORS]


def toy(name, **arguments):
    entry = model_entry(name)
    classes = {"num_classes": CLASSES} if entry.task == "classification" else {}
    return create_model(name, **{**entry.toy, **classes, **arguments})


def batch(name, samples=2, dtype=torch.float32):
    entry = model_entry(name)
    if entry.task == "generation":
        return torch.randn(samples, entry.toy["latent"], dtype=dtype)
    channels, height, _ = entry.input_shape
    side = entry.toy.get("size", min(height, 64))
    return torch.randn(samples, channels, side, side, dtype=dtype)


def with_products(model):
    """The model with 0.5 in place of scales that start at zero, which would hide its products."""
    with torch.no_grad():
        for module in model.modules():
            for scale in (getattr(module, "alpha", None), getattr(module, "weight", None)):
                if isinstance(scale, torch.nn.Parameter) and not scale.any():
                    scale.fill_(0.5)
    return model


def seeded(model, x):
    """The output with the same random numbers each time: of dropout, and of the noise in StyleGAN's maps."""
    torch.manual_seed(0)
    return model(x)


every_model = pytest.mark.parametrize("name", ALL)
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)
# toys of models that differ in depth or width alone are the same network
every_distinct_model = pytest.mark.parametrize(
    "name", sorted({repr(toy(name)): name for name in reversed(ALL)}.values())
)


@every_classifier
def test_outputs_features_and_head(name):
    model, x = toy(name).eval(), batch(name)
    features = model.forward_features(x)
    assert model(x).shape == (2, CLASSES)
    assert features.shape[:2] == (2, model.num_features)
    assert model.forward_head(features, pre_logits=True).shape == (2, model.num_features)
    assert torch.equal(model.forward_head(features), model(x))


@every_classifier
def test_the_classifier_can_be_changed(name):
    model, x = toy(name).double(), batch(name).double()
    model.reset_classifier(3)
    assert model(x).shape == (2, 3)
    assert model.fc.out_features == model.num_classes == 3
    assert model.fc.weight.dtype == torch.float64
    model.reset_classifier(0)
    assert model.num_classes == 0
    assert list(model.fc.parameters()) == []
    assert torch.equal(model.eval()(x), model.forward_head(model.forward_features(x), pre_logits=True))
    with pytest.raises(ValueError, match="at least 0, got -1"):
        model.reset_classifier(-1)


@every_classifier
def test_a_classifier_put_on_later_starts_as_that_of_a_fresh_network(name):
    many = 1000  # so that the spread of the weights is known well
    fresh, model = toy(name, num_classes=many).fc, toy(name)
    model.reset_classifier(many)
    torch.testing.assert_close(model.fc.weight.std(), fresh.weight.std(), rtol=0.1, atol=0.0)
    torch.testing.assert_close(model.fc.bias.std(), fresh.bias.std(), rtol=0.1, atol=0.0)


@pytest.mark.parametrize("name", [*CLASSIFIERS, *FACES])
def test_a_network_starts_anew(name):
    arguments = model_entry(name).toy
    torch.manual_seed(0)
    fresh = create_model(name, **arguments).state_dict()
    model, states = create_model(name, **arguments), []
    for _ in range(2):
        with torch.no_grad():
            for value in model.state_dict().values():
                value.fill_(7)
        torch.manual_seed(0)
        model.reset_parameters()
        states.append(copy.deepcopy(model.state_dict()))
    for key, expected in fresh.items():
        first, second = (state[key] for state in states)
        assert torch.equal(first, second), key
        if name.startswith("ccp"):  # made with a head that is drawn and left out
            assert 0.5 < first.std() / expected.std() < 2, key
        else:
            assert torch.equal(first, expected), key


@every_model
def test_a_network_is_made_on_a_device_and_moved_to_a_type(name):
    with torch.device("meta"):
        model = toy(name).double()
    for tensor in [*model.parameters(), *model.buffers()]:
        assert tensor.is_meta
        assert tensor.dtype == torch.float64 or not tensor.is_floating_point()


@every_distinct_model
def test_a_network_made_on_the_meta_device_gets_all_of_itself_from_a_file(name):
    model, x = toy(name).eval(), batch(name)
    with torch.device("meta"):
        empty = toy(name).eval()
    empty.load_state_dict(model.state_dict(), assign=True)
    assert torch.equal(seeded(empty, x), seeded(model, x))


@pytest.mark.parametrize("name", GENERATORS)
def test_images_have_the_size_asked_for(name):
    assert toy(name).eval()(batch(name)).shape[2:] == (16, 16)


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_an_image_gets_one_number(name):
    assert toy(name).eval()(batch(name)).shape == (2,)


@every_model
def test_copies_and_files_give_the_same_outputs(name):
    model, x = toy(name).eval(), batch(name)
    other = toy(name).eval()
    assert not torch.equal(other(x), model(x))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), model(x))
    assert torch.equal(copy.deepcopy(model)(x), model(x))


@every_model
def test_no_tensor_appears_twice_in_a_file(name):
    state = toy(name).state_dict(keep_vars=True)
    assert len({id(value) for value in state.values()}) == len(state)


@every_model
def test_all_parameters_learn(name):
    """After one step, since what a product's scale of zero hides has no gradient before."""
    model, x = toy(name), batch(name, samples=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        out = model(x)
        (out * torch.randn_like(out)).sum().backward()
        optimizer.step()
    learnt = {key: parameter for key, parameter in model.named_parameters() if parameter.requires_grad}
    idle = [key for key, parameter in learnt.items() if not parameter.grad.abs().sum() > 0]
    # in classifiers, a normalisation undoes any bias before it
    assert [key for key in idle if name not in CLASSIFIERS or not key.endswith("bias")] == []


@every_model
def test_channels_last_gives_the_same_outputs(name):
    model, x = with_products(toy(name).double().eval()), batch(name, dtype=torch.float64)
    with torch.no_grad():
        expected = seeded(model, x)
        model.to(memory_format=torch.channels_last)
        out = seeded(model, x.to(memory_format=torch.channels_last) if x.ndim == 4 else x)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)


@every_distinct_model
def test_exports_with_any_batch_size(name):
    group = 4 if name == "stylegan_discriminator" else 1  # it compares the images of a group
    model, x = with_products(toy(name).eval()), batch(name, samples=2 * group)
    sizes = group * torch.export.Dim("groups", min=1, max=64)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: sizes},))
    more = batch(name, samples=5 * group)
    found, expected = (seeded(module, more) for module in (exported.module(), model))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# tracing without generating code is fast and finds what breaks the graph; the rest is for `make verify`
@every_distinct_model
@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiles_without_breaks(name, backend):
    torch.compiler.reset()
    model, x = toy(name).double(), batch(name, samples=4, dtype=torch.float64)
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, backend=backend)
    with torch._inductor.config.patch(fallback_random=True):  # else a compiled network draws other random numbers
        for module in (model, compiled):
            seeded(module, x).square().sum().backward()
        # a shift before a norm has no gradient, but the rounding errors of the largest
        known = {key: parameter.grad for key, parameter in model.named_parameters() if parameter.requires_grad}
        rounding = 1e-14 * max(float(gradient.abs().max()) for gradient in known.values())
        for key, gradient in known.items():
            found = compiled.get_parameter(f"_orig_mod.{key}").grad
            torch.testing.assert_close(found, gradient, rtol=1e-6, atol=max(1e-9, rounding))
        torch.testing.assert_close(seeded(compiled.eval(), x), seeded(model.eval(), x))


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


def test_unknown_names_and_arguments_get_the_nearest():
    with pytest.raises(ValueError, match="no model named 'prodpoly_resnet5'; did you mean 'prodpoly_resnet50'"):
        create_model("prodpoly_resnet5")
    with pytest.raises(TypeError, match="resnet18_cifar has no argument 'widht'; did you mean 'width'"):
        create_model("resnet18_cifar", widht=4)


def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="already is a model named 'resnet50'"):
        register("resnet50", torch.nn.Identity, summary="", input_shape=(1,))


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"width": 0}, ValueError, "width must be at least 1, got 0"),
        ({"width": 1.5}, TypeError, "width must be an int"),
        ({"depths": ()}, ValueError, "at least one stage"),
        ({"depths": (1, 0)}, ValueError, "at least 1, got 0"),
        ({"num_classes": -1}, ValueError, "at least 0, got -1"),
        ({"in_channels": 0}, ValueError, "in_channels must be at least 1, got 0"),
        ({"local_convs": -1}, ValueError, "local_convs must be a whole number of at least 0, got -1"),
        ({"local_where": "nowhere"}, ValueError, "local_where must be one of everywhere, identity, projection"),
    ],
)
def test_bad_arguments_are_refused_with_the_rule(arguments, error, message):
    with pytest.raises(error, match=message):
        create_model("prodpoly_resnet18_cifar", **arguments)


@pytest.mark.parametrize(
    "name, arguments, error",
    [
        ("polynext_cifar", {"in_channels": 0}, ValueError),
        ("polynext_cifar", {"width": -4}, ValueError),
        ("ncp_generator", {"latent": 0}, ValueError),
        ("linear_generator", {"width": -4}, ValueError),
        ("ccp4_conv_cifar", {"stride": 0}, ValueError),
        ("sngan_discriminator", {"width": None}, TypeError),
        ("resnet18_cifar", {"num_classes": "10"}, TypeError),
        ("resnet18_cifar", {"num_classes": 2.5}, TypeError),
    ],
)
def test_sizes_of_every_model_are_refused_by_name(name, arguments, error):
    ((key, value),) = arguments.items()
    with pytest.raises(error, match=f"{key} must be .*, got {value!r}"):
        create_model(name, **arguments)


@pytest.mark.parametrize("name", list_models())
def test_every_entry_says_what_it_is(name):
    entry = model_entry(name)
    assert entry.summary
    assert entry.summary == entry.summary.strip()
    assert len(entry.summary) <= 110
