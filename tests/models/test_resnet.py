"""Sizes, names and formulas of the residual networks, each written out here a second time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pinets.models import BasicBlock, IResNet, Multiply, Site, create_model, resnet_cifar, resnet_imagenet

PARAMETERS = {
    "resnet18_cifar": 11_173_962,
    "resnet34_cifar": 21_282_122,
    "prodpoly_resnet18_cifar": 6_009_936,
    "prodpoly_resnet34_cifar": 12_976_980,
    "prodpoly_resnet34_cifar100": 14_663_088,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "prodpoly_resnet50": 25_557_032,
    "pinet18": 11_693_352,
    "pinet18_1x1": 12_389_672,
    "pinet18_relu": 11_693_352,
    "pinet18_1x1_relu": 12_389_672,
}
IN_MILLIONS = {"prodpoly_resnet34_speech": 13.17, "polynomial_resnet_cifar": 11.87, "monet_t": 10.34, "monet_s": 32.88}


def on_meta(name, **arguments):
    with torch.device("meta"):
        return create_model(name, **arguments)


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_as_published(name):
    assert count(on_meta(name)) == PARAMETERS[name]


@pytest.mark.parametrize("name", IN_MILLIONS)
def test_millions_of_parameters_as_published(name):
    assert round(count(on_meta(name)) / 1e6, 2) == IN_MILLIONS[name]


@pytest.mark.parametrize(
    "convs, where, millions", [(2, "everywhere", 14.30), (1, "everywhere", 13.52), (0, "everywhere", 12.74)]
)
def test_the_speech_network_with_other_local_convolutions(convs, where, millions):
    model = on_meta("prodpoly_resnet34_speech", local_convs=convs, local_where=where)
    assert round(count(model) / 1e6, 2) == millions


def torchvision_state(depths, bottleneck):
    """The names and shapes of a torchvision ResNet's state_dict, by the rule they follow."""
    state = {}

    def convolution(name, outputs, inputs, size):
        state[f"{name}.weight"] = (outputs, inputs, size, size)

    def norm(name, channels):
        state.update({f"{name}.{key}": (channels,) for key in ("weight", "bias", "running_mean", "running_var")})
        state[f"{name}.num_batches_tracked"] = ()

    convolution("conv1", 64, 3, 7)
    norm("bn1", 64)
    expansion = 4 if bottleneck else 1
    inputs = 64
    for stage, depth in enumerate(depths):
        inside = 64 * 2**stage
        outputs = inside * expansion
        sizes = [(1, inside), (3, inside), (1, outputs)] if bottleneck else [(3, inside), (3, outputs)]
        for block in range(depth):
            path = f"layer{stage + 1}.{block}"
            channels = inputs
            for number, (size, wanted) in enumerate(sizes, 1):
                convolution(f"{path}.conv{number}", wanted, channels, size)
                norm(f"{path}.bn{number}", wanted)
                channels = wanted
            if block == 0 and (stage > 0 or bottleneck):
                convolution(f"{path}.downsample.0", outputs, inputs, 1)
                norm(f"{path}.downsample.1", outputs)
            inputs = outputs
    state["fc.weight"] = (1000, inputs)
    state["fc.bias"] = (1000,)
    return state


@pytest.mark.parametrize(
    "name, depths, bottleneck",
    [("resnet18", (2, 2, 2, 2), False), ("resnet34", (3, 4, 6, 3), False), ("resnet50", (3, 4, 6, 3), True)],
)
def test_state_dict_is_torchvisions(name, depths, bottleneck):
    state = {key: tuple(value.shape) for key, value in on_meta(name).state_dict().items()}
    assert state == torchvision_state(depths, bottleneck)


@pytest.mark.parametrize(
    "baseline, polynomial", [("resnet50", "prodpoly_resnet50"), ("resnet18", "pinet18"), ("resnet18", "pinet18_1x1")]
)
def test_weights_of_the_baseline_load_into_the_pi_net(baseline, polynomial):
    state = create_model(baseline, width=4, depths=(1, 2)).state_dict()
    missing, unexpected = create_model(polynomial, width=4, depths=(1, 2)).load_state_dict(state, strict=False)
    assert unexpected == []
    assert all(".join.step.norm." in key for key in missing)


def batch_norm(x, state, path, training=False):
    if training:
        mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    else:
        mean, var = state[f"{path}.running_mean"], state[f"{path}.running_var"]
    mean, var, weight, bias = (
        value[:, None, None] for value in (mean, var, state[f"{path}.weight"], state[f"{path}.bias"])
    )
    return (x - mean) / (var + 1e-5).sqrt() * weight + bias


def instance_norm(x):
    mean, var = x.mean((2, 3), keepdim=True), x.var((2, 3), correction=0, keepdim=True)
    return (x - mean) / (var + 1e-5).sqrt()


def run(model, x, second_order, relu=F.relu):
    """A residual network from its state_dict alone; ``second_order(product, state, path)`` is added to the sum."""
    state, stages = model.state_dict(), len(model.depths)
    conv1 = state["conv1.weight"]
    large = conv1.shape[-1] == 7
    x = relu(batch_norm(F.conv2d(x, conv1, stride=2 if large else 1, padding=conv1.shape[-1] // 2), state, "bn1"))
    if large:
        x = F.max_pool2d(x, 3, stride=2, padding=1)
    for stage in range(1, stages + 1):
        for block in range(model.depths[stage - 1]):
            path = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            s, r = x, x
            numbers = [number for number in (1, 2, 3) if f"{path}.conv{number}.weight" in state]
            for number in numbers:
                weight = state[f"{path}.conv{number}.weight"]
                strided = number == (2 if len(numbers) == 3 else 1)
                r = F.conv2d(r, weight, stride=stride if strided else 1, padding=weight.shape[-1] // 2)
                r = batch_norm(r, state, f"{path}.bn{number}")
                if number < len(numbers):
                    r = relu(r)
            if f"{path}.downsample.0.weight" in state:
                s = F.conv2d(s, state[f"{path}.downsample.0.weight"], stride=stride)
                s = batch_norm(s, state, f"{path}.downsample.1")
            x = relu(r + s + second_order(torch.einsum("nchw,nchw->nchw", r, s), state, f"{path}.join.step.norm"))
    return F.linear(x.mean((2, 3)), state["fc.weight"], state["fc.bias"])


def local(convs, everywhere=True):
    def second_order(p, state, path):
        projection = f"{path.removesuffix('.join.step.norm')}.downsample.0.weight" in state
        count = convs if everywhere or not projection else 0
        for number in range(count):
            p = F.conv2d(p, state[f"{path}.{3 * number}.weight"])
            p = F.leaky_relu(instance_norm(p), 0.01)
        return state[f"{path}.{3 * count}.alpha"] * p

    return second_order


def normed(p, state, path):
    if f"{path}.0.running_mean" in state:
        return batch_norm(p, state, f"{path}.0")
    return batch_norm(F.conv2d(p, state[f"{path}.0.weight"]), state, f"{path}.1")


def mixed(p, state, path):
    return state[f"{path}.2.alpha"] * normed(p, state, path)


FORMULAS = {
    "resnet18_cifar": (lambda p, state, path: 0, F.relu),
    "resnet50": (lambda p, state, path: 0, F.relu),
    "prodpoly_resnet18_cifar": (local(2), F.relu),
    "prodpoly_resnet34_speech": (local(1, everywhere=False), F.relu),
    "prodpoly_resnet50": (lambda p, state, path: torch.tanh(p), F.relu),
    "pinet18": (normed, lambda x: x),
    "pinet18_1x1": (normed, lambda x: x),
    "pinet18_1x1_relu": (normed, F.relu),
    "polynomial_resnet_cifar": (mixed, lambda x: x),
    "polynomial_resnet_cifar_relu": (mixed, F.relu),
}


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_network_is_its_formula(name, layout):
    model = create_model(name, width=4, depths=(2, 1), num_classes=3).double().eval()
    with torch.no_grad():
        for key, value in model.state_dict().items():
            if "running_var" in key:
                value.uniform_(0.5, 1.5)
            elif value.is_floating_point() and value.ndim < 2:
                value.normal_()  # the norms, and the scales of the products
    x = torch.randn(2, model.conv1.in_channels, 32, 32, dtype=torch.float64)
    second_order, relu = FORMULAS[name]
    expected = run(model, x, second_order, relu)
    model.to(memory_format=layout)
    torch.testing.assert_close(model(x.to(memory_format=layout)), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "baseline, polynomial",
    [("resnet18_cifar", "prodpoly_resnet18_cifar"), ("resnet34_speech", "prodpoly_resnet34_speech")],
)
def test_a_fresh_pi_net_is_its_baseline(baseline, polynomial):
    """With the same weights and as many blocks, to the last bit, while training too."""
    size = {"width": 4, "depths": (1, 2)}
    base, pi_net = create_model(baseline, **size), create_model(polynomial, **size)
    pi_net.load_state_dict(base.state_dict(), strict=False)
    x = torch.randn(4, base.conv1.in_channels, 16, 16)
    assert torch.equal(pi_net(x), base(x))
    assert torch.equal(pi_net.eval()(x), base.eval()(x))


@pytest.mark.parametrize("name", ["prodpoly_resnet18_cifar", "pinet18_relu", "polynomial_resnet_cifar"])
def test_the_scale_of_the_product_learns_from_the_first_step(name):
    model = create_model(name, width=4, depths=(1, 1), num_classes=3)
    model(torch.randn(4, 3, 32, 32)).square().sum().backward()
    scales = [
        parameter
        for key, parameter in model.named_parameters()
        if key.endswith("alpha") or (".join." in key and key.endswith("0.weight") and parameter.ndim == 1)
    ]
    assert len(scales) == 2
    for scale in scales:
        assert (scale == 0).all()
        assert scale.grad.abs().min() > 0


@pytest.mark.parametrize("name", ["resnet18_cifar", "prodpoly_resnet18_cifar", "prodpoly_resnet50", "pinet18_1x1"])
def test_a_forward_pass_updates_every_statistic_once(name):
    model = create_model(name, width=4, depths=(1, 2), num_classes=3)
    norms = {key: module for key, module in model.named_modules() if isinstance(module, nn.BatchNorm2d)}
    projection = norms["layer2.0.downsample.1"]
    seen = []
    handle = projection.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    model(torch.randn(4, 3, 32, 32))
    handle.remove()
    assert {norm.num_batches_tracked.item() for norm in norms.values()} == {1}
    assert len(seen) == 1
    expected = 0.1 * seen[0].mean((0, 2, 3))  # momentum 0.1, from a mean of zero
    torch.testing.assert_close(projection.running_mean, expected)


def test_the_branch_does_not_start_at_zero():
    """Its last batch norm at zero, a usual trick, makes the gradients of a normalised product explode."""
    model = create_model("pinet18", width=4, depths=(1, 1))
    assert all((block.bn2.weight == 1).all() for block in (model.layer1[0], model.layer2[0]))


@pytest.mark.parametrize(
    "build, activation",
    [
        (resnet_cifar, nn.ReLU),
        (lambda **k: resnet_imagenet(block=BasicBlock, **k), nn.ReLU),
        (lambda **k: resnet_imagenet(block=BasicBlock, activation=nn.Tanh, **k), nn.Tanh),
        (IResNet, nn.Identity),
    ],
)
def test_a_join_of_ones_own_fits_every_residual_network(build, activation):
    sites = []

    def join(site: Site) -> Multiply:
        sites.append(site)
        return Multiply(nn.Identity(), site.activation())

    model = build(depths=(2, 1), width=4, join=join)
    assert [site.channels for site in sites] == [4, 4, 8]
    assert sites[1].identity
    assert not sites[2].identity
    assert type(model.layer2[0].join.activation) is activation


def test_repr_shows_the_algebra():
    text = repr(create_model("prodpoly_resnet18_cifar", width=4))
    assert "depths=[2, 2, 1, 1], num_features=32, num_classes=10" in text
    assert "(join): Multiply(" in text


def test_published_pinet_has_a_max_pool_that_can_be_replaced():
    assert isinstance(create_model("pinet18", width=4).maxpool, nn.MaxPool2d)
    assert isinstance(create_model("pinet18", width=4, pool="average").maxpool, nn.AvgPool2d)
    with pytest.raises(ValueError, match="pool must be one of max, average, got 'mean'"):
        create_model("pinet18", pool="mean")
