"""What every registered model promises."""

from __future__ import annotations

import copy
import io

import pytest
import torch

from pinets.models import DropBlock, create_model, list_models, model_entry, register

CLASSES = 5


def toy(name, **arguments):
    return create_model(name, **{**model_entry(name).toy, "num_classes": CLASSES, **arguments})


def batch(name, samples=2):
    channels, height, width = model_entry(name).input_shape
    return torch.randn(samples, channels, min(height, 64), min(width, 64))


@pytest.fixture(params=list_models("classification"))
def name(request):
    return request.param


# toys of models that differ in depth or width alone are the same network
DISTINCT = sorted({repr(toy(name)): name for name in reversed(list_models("classification"))}.values())


def test_outputs_features_and_head(name):
    model, x = toy(name).eval(), batch(name)
    features = model.forward_features(x)
    assert model(x).shape == (2, CLASSES)
    assert features.shape[:2] == (2, model.num_features)
    assert model.forward_head(features, pre_logits=True).shape == (2, model.num_features)
    assert torch.equal(model.forward_head(features), model(x))


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


def test_a_classifier_put_on_later_starts_as_that_of_a_fresh_network(name):
    many = 1000  # so that the spread of the weights is known well
    fresh, model = toy(name, num_classes=many).fc, toy(name)
    model.reset_classifier(many)
    torch.testing.assert_close(model.fc.weight.std(), fresh.weight.std(), rtol=0.1, atol=0.0)
    torch.testing.assert_close(model.fc.bias.std(), fresh.bias.std(), rtol=0.1, atol=0.0)


@pytest.mark.parametrize("name", [*list_models("classification"), *list_models("faces")])
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


def test_a_network_is_made_on_the_device_asked_for(name):
    with torch.device("meta"):
        assert all(parameter.is_meta for parameter in toy(name).parameters())


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


def test_no_tensor_appears_twice_in_a_file(name):
    state = toy(name).state_dict(keep_vars=True)
    assert len({id(value) for value in state.values()}) == len(state)


def test_all_parameters_learn(name):
    """After one step, since what a product's scale of zero hides has no gradient before."""
    model, x = toy(name), batch(name, samples=4)
    target = torch.arange(4) % CLASSES
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()
    idle = [key for key, parameter in model.named_parameters() if not parameter.grad.abs().sum() > 0]
    # a normalisation undoes any bias before it
    assert [key for key in idle if not key.endswith("bias")] == []


def test_channels_last_gives_the_same_outputs(name):
    model, x = toy(name).double().eval(), batch(name).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.numel() == 1:
                parameter.fill_(0.5)  # the scales of products
        expected = model(x)
        model.to(memory_format=torch.channels_last)
        out = model(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(out, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", DISTINCT)
def test_exports_with_any_batch_size(name):
    model, x = toy(name).eval(), batch(name)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    more = batch(name, samples=5)
    torch.testing.assert_close(exported.module()(more), model(more), rtol=1e-4, atol=1e-5)


def without_randomness(model):
    for module in model.modules():
        if isinstance(module, DropBlock):
            module.rate = 0.0
    return model


# tracing without generating code is fast and finds what breaks the graph; the rest is for `make verify`
@pytest.mark.parametrize("name", DISTINCT)
@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiles_without_breaks(name, backend):
    torch.compiler.reset()
    model, x = without_randomness(toy(name).double()), batch(name).double()
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, backend=backend)
    model(x).square().sum().backward()
    compiled(x).square().sum().backward()
    for expected, parameter in zip(model.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected.grad, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(compiled.eval()(x), model.eval()(x))


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


def test_every_entry_says_what_it_is(name):
    entry = model_entry(name)
    assert entry.summary
    assert entry.summary == entry.summary.strip()
    assert len(entry.summary) <= 110
