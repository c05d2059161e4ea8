"""A converted network computes what it computed before, and can learn more."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pinets.convert import Parts, register_block, to_pinet
from pinets.models import create_model

# by the name of the block in strangers.py: options, and what its formula has after the sum
KNOWN = {
    "torchvision basic": ("VisionBasic", {}),
    "torchvision bottleneck": ("VisionBottleneck", {}),
    "timm": ("TimmBasic", {}),
    "timm, all options": ("TimmBasic", {"se": True, "drop": 0.3, "aa": True, "activation": nn.SiLU}),
    "timm, learnt activation": ("TimmBasic", {"activation": nn.PReLU}),
    "functions": ("FunctionalBasic", {}),
    "norms of another name": ("Normed", {}),
    "no activation after the sum": ("LinearSum", {}),
}
PRODUCTS = {
    "scale": {},
    "tanh": {"tanh": True},
    "local": {"local_convs": 2},
    "tanh and local": {"tanh": True, "local_convs": 1},
}


@pytest.fixture(params=KNOWN)
def network(request, strangers):
    block, options = KNOWN[request.param]
    return strangers.Network(getattr(strangers, block), **options)


@pytest.fixture
def x():
    return torch.randn(3, 3, 12, 12)


def run(model, x, training=False):
    """One pass, always with the same random numbers."""
    torch.manual_seed(1)
    return model.train(training)(x)


@pytest.mark.parametrize("training", [False, True], ids=["evaluating", "training"])
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_outputs_are_equal_to_the_last_bit(network, product, training, x):
    pinet, report = to_pinet(network, **product)
    assert list(report.converted) == ["layer1.0", "layer1.1", "layer2.0", "layer2.1"]
    assert report.kept == {}
    before, after = run(network, x, training), run(pinet, x, training)
    assert (after - before).abs().max().item() == 0.0
    # also what a training step changes besides the weights
    ours = pinet.state_dict()
    assert all(torch.equal(value, ours[key]) for key, value in network.state_dict().items())


@pytest.mark.parametrize("training", [False, True], ids=["evaluating", "training"])
@pytest.mark.parametrize("gradients", [False, True], ids=["no gradients", "gradients"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat", "half"])
def test_outputs_in_half_precision_are_equal_to_the_last_bit(dtype, gradients, training):
    network = create_model("resnet18_cifar", width=8, depths=(1, 1)).to(dtype)
    for norm in network.modules():
        if isinstance(norm, nn.BatchNorm2d):
            nn.init.uniform_(norm.running_var, 0.5, 1.5)
            nn.init.normal_(norm.running_mean)
    pinet, _ = to_pinet(network)
    x = torch.randn(4, 3, 16, 16, dtype=dtype)
    with torch.set_grad_enabled(gradients):
        assert torch.equal(run(pinet, x, training), run(network, x, training))


def test_the_network_given_is_left_alone(network, x):
    before, state, text = run(network, x), copy.deepcopy(network.state_dict()), repr(network)
    pinet, _ = to_pinet(network)
    assert repr(network) == text
    assert network.state_dict().keys() == state.keys()
    assert torch.equal(run(network, x), before)
    for parameter in pinet.parameters():
        nn.init.zeros_(parameter)
    assert torch.equal(run(network, x), before)


def test_names_in_the_state_dict_stay_and_only_the_product_is_new(network):
    old, new = network.state_dict(), to_pinet(network, local_convs=1).model.state_dict()
    assert set(old) <= set(new)
    assert all(".join.step.norm." in key for key in set(new) - set(old))
    assert len({value.data_ptr() for value in new.values() if value.numel()}) == sum(
        v.numel() > 0 for v in new.values()
    )


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=PRODUCTS)
def test_the_first_step_moves_the_scale_of_every_product(network, product, x):
    pinet, _ = to_pinet(network, **product)
    run(pinet, x, training=True).square().sum().backward()
    scales = {key: parameter for key, parameter in pinet.named_parameters() if key.endswith("alpha")}
    assert len(scales) == 4
    assert all(scale == 0 and scale.grad.abs() > 0 for scale in scales.values())


def test_a_converted_block_is_its_formula(strangers):
    block = strangers.VisionBasic(4, 8, 2).double().eval()
    pinet = to_pinet(nn.Sequential(block), tanh=True).model.double().eval()
    nn.init.constant_(pinet[0].join.step.norm[-1].alpha, 0.7)
    x = torch.randn(2, 4, 6, 6, dtype=torch.float64)
    r = block.bn2(block.conv2(F.relu(block.bn1(block.conv1(x)))))
    s = block.downsample(x)
    expected = F.relu(r + s + 0.7 * torch.tanh(torch.einsum("nchw,nchw->nchw", r, s)))
    torch.testing.assert_close(pinet(x), expected)


@pytest.mark.parametrize("name", ["resnet18_cifar", "resnet34_speech", "resnet18", "resnet50"])
def test_models_of_pinets_convert_to_themselves(name):
    model = create_model(name, width=4, depths=(1, 2), num_classes=3)
    pinet, report = to_pinet(model, tanh=True)
    assert type(pinet) is type(model)
    assert len(report.converted) == 3
    x = torch.randn(2, model.conv1.in_channels, 32, 32)
    assert torch.equal(run(pinet, x), run(model, x))
    assert torch.equal(run(pinet, x, training=True), run(model, x, training=True))


def test_a_converted_resnet18_has_the_parameters_of_its_prodpoly_version():
    model = create_model("resnet18_cifar")
    pinet, report = to_pinet(model, local_convs=2, depths=[2, 2, 1, 1])
    assert report.parameters == (11_173_962, 6_009_936)
    assert report.dropped == ["layer3.1", "layer4.1"]
    theirs = create_model("prodpoly_resnet18_cifar")
    theirs.load_state_dict(pinet.state_dict())
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(run(theirs, x), run(pinet, x))


@pytest.mark.parametrize(
    "block, reason",
    [
        ("PreActivation", "not activation\\(branch \\+ shortcut\\)"),
        ("ScaledBranch", "not activation\\(branch \\+ shortcut\\)"),
        ("FunctionalDropout", "not activation\\(branch \\+ shortcut\\)"),
        ("Clipped", "not activation\\(branch \\+ shortcut\\)"),
        ("ExtraLayer", "the place of its layer 'attention' \\(Squeeze\\) is not known"),
        ("OwnParameter", "it has a parameter or buffer 'gamma'"),
        ("TwoInputs", "it takes '\\w+' beside its input, which would be lost"),
        ("OptionalInput", "it takes 'shift' beside its input, which would be lost"),
    ],
)
def test_what_is_not_what_it_seems_is_kept_and_the_reason_given(strangers, block, reason, x):
    mixed = strangers.Network(strangers.VisionBasic)
    stranger = mixed.layer1[1] = getattr(strangers, block)(4, 4)
    before = None if block == "TwoInputs" else run(mixed, x)
    pinet, report = to_pinet(mixed)
    assert list(report.converted) == ["layer1.0", "layer2.0", "layer2.1"]
    assert list(report.kept) == ["layer1.1"]
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(report.kept["layer1.1"])
    assert type(pinet.layer1[1]) is type(stranger)
    if before is not None:
        assert torch.equal(run(pinet, x), before)


def test_a_residual_module_of_no_known_structure_is_told(strangers, x):
    mixed = strangers.Network(strangers.VisionBasic)
    mixed.layer1[1], mixed.layer2[0] = strangers.Plain(4, 4), strangers.Plain(4, 8, 2)
    before = run(mixed, x)
    pinet, report = to_pinet(mixed)
    assert list(report.converted) == ["layer1.0", "layer2.1"]
    assert list(report.kept) == ["layer1.1", "layer2.0"]
    assert "it adds its input to a branch, but its structure is not known" in report.kept["layer2.0"]
    assert torch.equal(run(pinet, x), before)


@pytest.mark.parametrize("block", ["Gated", "Untraceable"])
def test_what_is_not_residual_or_cannot_be_traced_is_not_told(strangers, block):
    mixed = strangers.Network(strangers.VisionBasic)
    mixed.layer1[1] = getattr(strangers, block)(4, 4)
    assert to_pinet(mixed).report.kept == {}


def test_a_branch_that_starts_at_zero_does_not_hide_what_it_is(strangers):
    """With the last batch norm at zero, any order of layers has the same output."""
    for block, converts in (("VisionBasic", True), ("PreActivation", False), ("ScaledBranch", False)):
        stranger = getattr(strangers, block)(4, 4)
        nn.init.zeros_(stranger.bn2.weight)
        nn.init.zeros_(stranger.bn2.bias)
        if converts:
            assert to_pinet(nn.Sequential(stranger)).report.converted
        else:
            with pytest.raises(ValueError, match="not activation"):
                to_pinet(nn.Sequential(stranger))


def test_hooks_are_not_lost(strangers):
    network = strangers.Network(strangers.VisionBasic)
    network.layer1[0].register_forward_hook(lambda *_: None)
    assert to_pinet(network).report.kept == {"layer1.0": "it has hooks, which would be lost"}


def test_a_network_may_ask_its_blocks_for_their_attributes(strangers):
    network = strangers.Network(strangers.VisionBasic)
    pinet, _ = to_pinet(network)
    assert [block.stride for block in pinet.layer2] == [block.stride for block in network.layer2] == [2, 1]


def test_stages_are_chosen_by_path(strangers, x):
    network = strangers.Network(strangers.VisionBasic, depths=(1, 1, 1))
    pinet, report = to_pinet(network, stages=["layer3", "layer1.0"])
    assert list(report.converted) == ["layer1.0", "layer3.0"]
    assert report.kept == {"layer2.0": "outside the stages to convert"}
    assert torch.equal(run(pinet, x), run(network, x))
    with pytest.raises(ValueError, match="no part 'layer9'; did you mean 'layer"):
        to_pinet(network, stages=["layer9"])
    with pytest.raises(TypeError, match="a list of paths"):
        to_pinet(network, stages="layer1")


def test_own_blocks_are_registered_and_checked(strangers, x):
    class Own(strangers.ExtraLayer):
        pass

    network = strangers.Network(Own)
    with pytest.raises(ValueError, match=r"no residual block that could be converted(.|\n)*'attention'"):
        to_pinet(network)
    branch = ("conv1", "bn1", "relu", "attention", "conv2", "bn2")
    register_block(Own, lambda block: Parts(branch, ("downsample",) if block.downsample else (), ("relu",)))
    pinet, report = to_pinet(network)
    assert len(report.converted) == 4
    assert torch.equal(run(pinet, x), run(network, x))
    register_block(Own, lambda block: Parts(branch, ("downsample",) if block.downsample else ()))
    with pytest.raises(ValueError, match="not activation"):
        to_pinet(network)
    register_block(Own, lambda block: Parts((*branch, "bn9"), ("downsample",) if block.downsample else (), ("relu",)))
    with pytest.raises(ValueError, match="no layer 'bn9'"):
        to_pinet(network)


def test_networks_without_maps_can_be_registered():
    class Dense(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(6, 6)

        def forward(self, x):
            return torch.tanh(x + self.body(x))

    register_block(Dense, lambda block: Parts(("body",), activation=(nn.Tanh(),)))
    model, x = nn.Sequential(Dense(), Dense()), torch.randn(3, 6)
    pinet, _ = to_pinet(model)
    assert torch.equal(pinet(x), model(x))
    with pytest.raises(ValueError, match="1x1 convolutions need maps"):
        to_pinet(model, local_convs=1)


def test_a_block_in_two_places_stays_one(strangers, x):
    network = strangers.Network(strangers.VisionBasic)
    network.layer1[1] = network.layer1[0]
    pinet, report = to_pinet(network)
    assert len(report.converted) == 4
    assert pinet.layer1[1] is pinet.layer1[0]
    assert torch.equal(run(pinet, x), run(network, x))


def test_a_stage_in_two_places_stays_one(strangers, x):
    network = strangers.Network(strangers.VisionBasic)
    network.also = network.layer1
    pinet, report = to_pinet(network)
    assert pinet.also is pinet.layer1
    assert len(report.converted) == 4
    assert report.kept == {}
    assert torch.equal(run(pinet, x), run(network, x))


def test_converting_twice_and_converting_a_block_itself(strangers):
    pinet, _ = to_pinet(strangers.Network(strangers.VisionBasic))
    with pytest.raises(ValueError, match="it multiplies already"):
        to_pinet(pinet)
    with pytest.raises(ValueError, match="it multiplies already"):
        to_pinet(create_model("prodpoly_resnet18_cifar", width=4))
    block, x = strangers.VisionBasic(4, 4).eval(), torch.randn(1, 4, 5, 5)
    assert torch.equal(to_pinet(block).model(x), block(x))
    with pytest.raises(ValueError, match="no residual block"):
        to_pinet(nn.Linear(2, 2))


def test_in_place_changes_the_network_itself(strangers):
    network = strangers.Network(strangers.VisionBasic)
    pinet, _ = to_pinet(network, inplace=True)
    assert pinet is network
    assert "layer1.0.join.step.norm.0.alpha" in network.state_dict()


def test_type_mode_and_random_numbers_are_kept(strangers):
    network = strangers.Network(strangers.VisionBasic).double().eval()
    network.layer1.train()
    state = torch.get_rng_state()
    pinet, _ = to_pinet(network, tanh=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert {parameter.dtype for parameter in pinet.parameters()} == {torch.float64}
    assert not pinet.layer2[0].join.training
    assert pinet.layer1[0].join.training


def test_what_is_on_the_meta_device_cannot_be_checked(strangers):
    with torch.device("meta"):
        network = strangers.Network(strangers.VisionBasic)
    with pytest.raises(ValueError, match="meta device"):
        to_pinet(network)


def test_a_converted_network_compiles_exports_and_copies(strangers, x):
    pinet = to_pinet(strangers.Network(strangers.VisionBasic), tanh=True).model.eval()
    expected = pinet(x)
    assert torch.equal(copy.deepcopy(pinet)(x), expected)
    torch.testing.assert_close(torch.compile(pinet, fullgraph=True, backend="aot_eager")(x), expected)
    torch.testing.assert_close(torch.export.export(pinet, (x,)).module()(x), expected)


def test_bad_arguments_are_refused():
    model = create_model("resnet18_cifar", width=4)
    with pytest.raises(ValueError, match="local_convs must be a whole number of at least 0, got -1"):
        to_pinet(model, local_convs=-1)


def test_the_report_reads_well(strangers):
    mixed = strangers.Network(strangers.VisionBasic, depths=(2, 3))
    mixed.layer1[1] = strangers.ScaledBranch(4, 4)
    lines = str(to_pinet(mixed, depths=(2, 2), tanh=True).report).splitlines()
    assert lines[0].startswith("3 converted, 1 kept, 1 dropped; ")
    assert lines[1] == "  converted layer1.0: alpha * tanh(s * r)"
    assert lines[4].startswith("  kept      layer1.1: its output is not activation(branch + shortcut)")
    assert lines[5] == "  dropped   layer2.2"
