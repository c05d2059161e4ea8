"""IR-ResNets and their Π-nets, against the equations and against insightface's names written out here."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F

from pinets.convert import to_pinet
from pinets.models import create_model, insightface_keys, load_insightface

NAMES = ["iresnet50", "prodpoly_iresnet50"]
TOY = {"depths": (1, 2), "width": 8, "embedding": 16, "size": 24}


def on_meta(name, **arguments):
    with torch.device("meta"):
        return create_model(name, **arguments)


def toy(name, **arguments):
    return create_model(name, **{**TOY, **arguments})


def randomised(model):
    """Weights and statistics such that every layer matters."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                module.running_mean.normal_(std=0.2)
                module.running_var.uniform_(0.5, 1.5)
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(std=0.2)
    return model


@pytest.mark.parametrize(
    "name, parameters, statistics", [("iresnet50", 43_590_848, 38_144), ("prodpoly_iresnet50", 45_384_256, 49_792)]
)
def test_the_papers_sizes(name, parameters, statistics):
    model = on_meta(name)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    running = [buffer for key, buffer in model.named_buffers() if "running" in key]
    assert sum(buffer.numel() for buffer in running) == statistics


def equation(state, x, depths, eps, products):
    """The network of the paper, from its weights by name."""

    def norm(x, name):
        return F.batch_norm(
            x,
            state[f"{name}.running_mean"],
            state[f"{name}.running_var"],
            state[f"{name}.weight"],
            state[f"{name}.bias"],
            eps=eps,
        )

    def conv(x, name, stride=1):
        weight = state[f"{name}.weight"]
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)

    x = F.prelu(norm(conv(x, "conv1"), "bn1"), state["prelu.weight"])
    for stage, depth in enumerate(depths, 1):
        for block in range(depth):
            name, stride = f"layer{stage}.{block}", 1 if block else 2
            r = F.prelu(
                norm(conv(norm(x, f"{name}.bn1"), f"{name}.conv1"), f"{name}.bn2"), state[f"{name}.prelu.weight"]
            )
            r = norm(conv(r, f"{name}.conv2", stride), f"{name}.bn3")
            s = x if block else norm(conv(x, f"{name}.downsample.0", stride), f"{name}.downsample.1")
            x = r + s
            if products:
                inner = f"{name}.join.step.norm"
                x = x + norm(conv(torch.tanh(r * s), f"{inner}.1"), f"{inner}.2")
    x = norm(x, "bn2").flatten(1)
    return norm(F.linear(x, state["fc.weight"], state["fc.bias"]), "features")


@pytest.mark.parametrize("name", NAMES)
def test_the_equation(name):
    model = randomised(toy(name).double()).eval()
    x = torch.randn(3, 3, 24, 24, dtype=torch.float64)
    expected = equation(model.state_dict(), x, (1, 2), 2e-5, products=name.startswith("prodpoly"))
    torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-10)


def insightface_names(depths):
    """The ``state_dict`` of insightface's iresnet, in its order."""

    def norm(name):
        return [f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]

    names = ["conv1.weight", *norm("bn1"), "prelu.weight"]
    for stage, depth in enumerate(depths, 1):
        for block in range(depth):
            path = f"layer{stage}.{block}"
            names += [*norm(f"{path}.bn1"), f"{path}.conv1.weight", *norm(f"{path}.bn2"), f"{path}.prelu.weight"]
            names += [f"{path}.conv2.weight", *norm(f"{path}.bn3")]
            if block == 0:
                names += [f"{path}.downsample.0.weight", *norm(f"{path}.downsample.1")]
    return [*names, *norm("bn2"), "fc.weight", "fc.bias", *norm("features")]


@pytest.mark.parametrize(
    "name, depths", [("iresnet18", (2, 2, 2, 2)), ("iresnet34", (3, 4, 6, 3)), ("iresnet50", (3, 4, 14, 3))]
)
def test_the_names_are_insightfaces(name, depths):
    assert list(on_meta(name).state_dict()) == insightface_names(depths)
    assert insightface_keys(on_meta(f"prodpoly_{name}")) == insightface_names(depths)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prefix", ["", "module.", "module.backbone."])
def test_insightfaces_weights_load_and_give_its_function(name, prefix):
    theirs = randomised(toy("iresnet50").double()).state_dict()
    model = randomised(toy(name).double()).eval()  # a Π-net that had learnt something else
    load_insightface(model, {prefix + key: value for key, value in theirs.items()})
    x = torch.randn(3, 3, 24, 24, dtype=torch.float64)
    torch.testing.assert_close(model(x), equation(theirs, x, (1, 2), 1e-5, products=False), rtol=1e-10, atol=1e-10)


def test_a_file_without_counts_of_batches_loads():
    theirs = randomised(toy("iresnet50")).state_dict()
    whole, without = toy("prodpoly_iresnet50").eval(), toy("prodpoly_iresnet50").eval()
    load_insightface(whole, theirs)
    load_insightface(without, {key: value for key, value in theirs.items() if "num_batches" not in key})
    x = torch.randn(2, 3, 24, 24)
    assert torch.equal(without(x), whole(x))


def test_a_converted_network_learns_its_products():
    pinet = toy("prodpoly_iresnet50")
    load_insightface(pinet, randomised(toy("iresnet50")).state_dict())
    pinet(torch.randn(4, 3, 24, 24)).square().sum().backward()
    for stage in (pinet.layer1, pinet.layer2):
        for block in stage:
            assert block.join.step.norm[-1].weight.grad.abs().min() > 0


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda state: state.pop("layer2.1.bn3.bias"), r"depths \(1, 2\): layer2\.1\.bn3\.bias is missing"),
        (
            lambda state: state.update({"layer2.2.bn1.bias": torch.zeros(16)}),
            r"layer2\.2\.bn1\.bias is not part of it",
        ),
    ],
)
def test_weights_of_another_network_are_refused(change, message):
    model = toy("iresnet50")
    before = copy.deepcopy(model.state_dict())
    state = toy("iresnet50").state_dict()
    change(state)
    with pytest.raises(ValueError, match=message):
        load_insightface(model, state)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_the_general_conversion_takes_it_too():
    model = randomised(toy("iresnet50")).eval()
    pinet, report = to_pinet(model, tanh=True)
    x = torch.randn(2, 3, 24, 24)
    assert torch.equal(pinet(x), model(x))
    assert len(report.converted) == 3


def test_weights_are_drawn_by_fan_out():
    model = create_model("prodpoly_iresnet50", depths=(1, 1), width=64, size=32)
    drawn = [m for m in model.modules() if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear))]
    assert len(drawn) == 1 + 2 * 4 + 1
    for module in drawn:
        fan_out = module.weight.shape[0] * math.prod(module.weight.shape[2:])
        assert module.weight.std().item() == pytest.approx(math.sqrt(2 / fan_out), rel=0.05)


def test_the_scale_of_the_embedding_is_fixed():
    model = toy("iresnet50")
    assert not model.features.weight.requires_grad
    assert model.features.weight.eq(1).all()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"size": 3}, "size must be at least 4, since 2 stages halve it, got 3"),
        ({"width": 0}, "width must be at least 1, got 0"),
        ({"embedding": 0}, "embedding must be at least 1, got 0"),
        ({"depths": ()}, "at least one stage"),
        ({"depths": (1, 0)}, "at least 1, got 0"),
    ],
)
def test_bad_arguments_are_refused_with_the_rule(arguments, message):
    with pytest.raises(ValueError, match=message):
        toy("prodpoly_iresnet50", **arguments)


def test_faces_of_another_size_are_refused():
    with pytest.raises(ValueError, match=r"faces must have shape \(3, 24, 24\), got a batch of shape \(1, 3, 32, 32\)"):
        toy("iresnet50")(torch.randn(1, 3, 32, 32))
