"""What is computed in a faster or thriftier way is what the plain way gives, also where others look on."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad

from pinets.models import Multiply, Scale, create_model
from pinets.models.batch_norm import KnownBatchNorm
from pinets.models.instance_norm import InstanceNorm
from pinets.models.recompute import RecomputingMultiply
from pinets.models.tanh import Tanh

LAYOUTS = pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])


def maps(*shape, layout=torch.contiguous_format, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype).to(memory_format=layout).requires_grad_()


def norm_of_product():
    norm = nn.Sequential(nn.Tanh(), Scale(dtype=torch.float64))
    nn.init.constant_(norm[1].alpha, 0.7)
    return norm


def batch_norm(channels=4, training=True):
    last = nn.BatchNorm2d(channels, dtype=torch.float64).train(training)
    for value in (last.weight, last.bias, last.running_mean):
        nn.init.normal_(value)
    nn.init.uniform_(last.running_var, 0.5, 1.5)
    return last


@LAYOUTS
@pytest.mark.parametrize("training", [True, False], ids=["training", "frozen"])
@pytest.mark.parametrize(
    "activation", [nn.ReLU(inplace=True), nn.ReLU(), nn.Identity()], ids=["in place", "relu", "none"]
)
def test_recomputing_gives_the_plain_outputs_gradients_and_statistics(layout, training, activation):
    s, c, g = (maps(3, 4, 5, 5, layout=layout) for _ in range(3))
    norm, last = norm_of_product(), batch_norm(training=training)
    results = []
    for kind in (Multiply, RecomputingMultiply):
        join, own = kind(copy.deepcopy(norm), activation), copy.deepcopy(last)
        out = join(s, c, own)
        gradients = torch.autograd.grad(out, (s, c, own.weight, own.bias, *join.parameters()), g)
        with torch.no_grad():
            again = join(s, c, own.eval())
        results.append([out, *gradients, again, *own.buffers()])
    for plain, recomputed in zip(*results, strict=True):
        torch.testing.assert_close(recomputed, plain, rtol=1e-10, atol=1e-12)


def test_recomputing_has_the_right_derivatives_of_first_and_second_order():
    s, c = maps(2, 3, 2, 2), maps(2, 3, 2, 2)
    join, last = RecomputingMultiply(norm_of_product(), nn.Identity()), batch_norm(3)
    inputs = (s, c, last.weight, last.bias, *join.parameters())
    assert torch.autograd.gradcheck(lambda s, c, *rest: join(s, c, last), inputs)
    assert torch.autograd.gradgradcheck(lambda s, c, *rest: join(s, c, last), inputs)


@LAYOUTS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
def test_the_joins_of_prodpoly_resnet50_have_the_gradients_of_their_formula(layout, dtype):
    s, c, g = (maps(3, 4, 5, 5, layout=layout, dtype=dtype) for _ in range(3))
    last = batch_norm().to(dtype)
    inputs = (s, c, last.weight, last.bias)
    r = F.batch_norm(c, None, None, last.weight, last.bias, training=True, eps=last.eps)
    expected = torch.autograd.grad(F.relu(torch.tanh(torch.einsum("nchw,nchw->nchw", s, r)) + s + r), inputs, g)
    found = torch.autograd.grad(RecomputingMultiply(Tanh(inplace=True), nn.ReLU())(s, c, last), inputs, g)
    for value, formula in zip(found, expected, strict=True):
        torch.testing.assert_close(value, formula, rtol=1e-4, atol=1e-5)


class Steeper(Tanh):
    def forward(self, input):
        return super().forward(3 * input)


def test_a_norm_made_from_another_has_its_own_gradient():
    s, c, last = maps(2, 3, 4, 4), maps(2, 3, 4, 4), batch_norm(3, training=False)
    plain, recomputed = (
        torch.autograd.grad(kind(Steeper(), nn.Identity())(s, c, last).sum(), s)
        for kind in (Multiply, RecomputingMultiply)
    )
    torch.testing.assert_close(recomputed, plain)


@LAYOUTS
def test_a_trained_batch_norm_is_torchs_to_the_last_bit(layout):
    x, norm = maps(4, 32, 7, 7, layout=layout, dtype=torch.float32), batch_norm(32, training=False).float()
    with torch.no_grad():
        assert torch.equal(KnownBatchNorm.of(norm)(x), norm(x))


def test_a_batch_of_one_number_is_refused_as_torch_refuses_it():
    s, c = maps(1, 4, 1, 1), maps(1, 4, 1, 1)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        RecomputingMultiply(Tanh(), nn.ReLU())(s, c, batch_norm())


class Shifted(nn.ReLU):
    def forward(self, x):
        return super().forward(x) + 1


class Twice(nn.Module):
    def forward(self, x):
        return 2 * x


@pytest.mark.parametrize("other", ["activation", "carry"])
def test_pieces_of_ones_own_get_their_own_gradients(other):
    s, c, last, found = maps(2, 3, 4, 4), maps(2, 3, 4, 4), batch_norm(3), []
    for kind in (Multiply, RecomputingMultiply):
        join = kind(nn.Tanh(), Shifted() if other == "activation" else nn.ReLU())
        if other == "carry":
            join.step.carry["gate"] = Twice()
        out = join(s, c, copy.deepcopy(last))
        found.append([out, *torch.autograd.grad(out.square().sum(), (s, c))])
    for plain, recomputed in zip(*found, strict=True):
        torch.testing.assert_close(recomputed, plain, rtol=1e-10, atol=1e-12)


def kept_bytes(join, s, c, last):
    """What autograd keeps for the backward pass beyond its inputs."""
    known = {value.untyped_storage().data_ptr() for value in (s, c, last.weight, last.bias, *join.parameters())}
    kept = {}

    def pack(value):
        kept[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        out = join(s, c, last)
    known.add(out.untyped_storage().data_ptr())  # the next layer keeps it anyway
    return sum(size for pointer, size in kept.items() if pointer not in known)


def test_recomputing_keeps_no_map_that_the_baseline_does_not():
    s, c, last = maps(4, 8, 16, 16), maps(4, 8, 16, 16), batch_norm(8)
    one_map = s.untyped_storage().nbytes()
    plain = kept_bytes(Multiply(norm_of_product(), nn.ReLU(inplace=True)), s, c, last)
    recomputed = kept_bytes(RecomputingMultiply(norm_of_product(), nn.ReLU(inplace=True)), s, c, last)
    assert plain > 2 * one_map
    assert recomputed < one_map / 10


def test_local_convolutions_are_computed_again_to_the_same_gradients():
    size = {"width": 4, "depths": (1, 2), "dtype": torch.float64}
    kept, again = (create_model("prodpoly_resnet18_cifar", **size) for _ in range(2))
    joins = [module for module in kept.modules() if isinstance(module, RecomputingMultiply)]
    assert len(joins) == 3
    for join in joins:
        join.__class__ = Multiply
    with torch.no_grad():
        for key, parameter in kept.named_parameters():
            if key.endswith("alpha"):
                parameter.fill_(0.7)
    again.load_state_dict(kept.state_dict())
    x = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    for model in (kept, again):
        model(x).square().sum().backward()
    for expected, parameter in zip(kept.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected.grad)
    torch.testing.assert_close(again.eval()(x), kept.eval()(x))


def test_a_frozen_scale_gets_no_gradient_and_the_rest_do():
    s, c, last = maps(3, 4, 5, 5), maps(3, 4, 5, 5), batch_norm()
    join = RecomputingMultiply(norm_of_product(), nn.ReLU())
    join.requires_grad_(False)
    last.weight.requires_grad_(False)
    join(s, c, last).sum().backward()
    assert join.step.norm[1].alpha.grad is None
    assert last.weight.grad is None
    assert s.grad.abs().sum() > 0
    assert last.bias.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "last",
    [
        nn.Identity(),
        nn.GroupNorm(2, 4, dtype=torch.float64),
        nn.BatchNorm2d(4, affine=False, dtype=torch.float64),
        nn.BatchNorm2d(4, momentum=None, dtype=torch.float64),
        nn.BatchNorm2d(4, track_running_stats=False, dtype=torch.float64),
    ],
    ids=lambda last: str(last).replace(" ", ""),
)
def test_other_last_layers_run_as_they_are(last):
    s, c = maps(3, 4, 5, 5), maps(3, 4, 5, 5)
    join = RecomputingMultiply(norm_of_product(), nn.ReLU())
    r = copy.deepcopy(last)(c)
    torch.testing.assert_close(
        join(s, c, last), F.relu(0.7 * torch.tanh(torch.einsum("nchw,nchw->nchw", s, r)) + s + r)
    )


def test_hooks_on_the_last_layer_are_called_and_what_they_saw_stays():
    s, c, seen, last = maps(3, 4, 5, 5), maps(3, 4, 5, 5), [], batch_norm(training=False)
    expected = last(c)
    last.register_forward_hook(lambda module, args, out: seen.append(out))
    join = RecomputingMultiply(norm_of_product(), nn.ReLU())
    join(s, c, last)
    with torch.no_grad():
        join(s, c, last)
    assert len(seen) == 2
    assert torch.equal(seen[0], expected)
    assert torch.equal(seen[1], expected)


@LAYOUTS
@pytest.mark.parametrize("training", [True, False], ids=["training", "frozen"])
def test_the_size_of_the_pieces_does_not_matter(layout, training, monkeypatch):
    s, c, g = (maps(5, 4, 3, 3, layout=layout) for _ in range(3))
    join, results = RecomputingMultiply(norm_of_product(), nn.ReLU()), []
    for size in (1, 700, 2**20):  # bytes: one sample at a time, two, all
        monkeypatch.setattr("pinets.models.recompute._PIECE", size)
        torch.manual_seed(0)
        last = batch_norm(training=training)
        out = join(s, c, last)
        with torch.no_grad():
            results.append([out, *torch.autograd.grad(out, (s, c), g), join(s, c, last)])
    for values in zip(*results, strict=True):
        torch.testing.assert_close(values[0], values[2], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(values[1], values[2], rtol=1e-10, atol=1e-12)


def test_what_comes_in_is_not_overwritten():
    s, c, last = maps(3, 4, 5, 5), maps(3, 4, 5, 5), batch_norm(training=False)
    before = s.detach().clone(), c.detach().clone()
    with torch.no_grad():
        RecomputingMultiply(norm_of_product(), nn.ReLU(inplace=True))(s, c, last)
    assert torch.equal(s, before[0])
    assert torch.equal(c, before[1])


def small_network():
    torch.manual_seed(0)
    return create_model("prodpoly_resnet50", width=2, depths=(1,), num_classes=3).eval()


def test_function_transforms_and_forward_mode_work():
    model, x = small_network(), torch.randn(2, 3, 32, 32)
    v = torch.randn_like(x)
    x.requires_grad_()
    (expected,) = torch.autograd.grad(model(x).sum(), x)
    gradient = torch.func.grad(lambda x: model(x).sum())(x.detach())
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(model(forward_ad.make_dual(x.detach(), v)).sum()).tangent
    torch.testing.assert_close(tangent, (expected * v).sum(), rtol=1e-3, atol=1e-4)


def test_forward_mode_along_the_parameters_works():
    model, x = small_network(), torch.randn(2, 3, 32, 32)
    parameters = dict(model.named_parameters())
    along = {name: torch.randn_like(value) for name, value in parameters.items()}
    gradients = torch.autograd.grad(model(x).sum(), tuple(parameters.values()))
    expected = sum((slope * along[name]).sum() for name, slope in zip(parameters, gradients, strict=True))
    with forward_ad.dual_level():
        dual = {name: forward_ad.make_dual(value.detach(), along[name]) for name, value in parameters.items()}
        tangent = forward_ad.unpack_dual(torch.func.functional_call(model, dual, x).sum()).tangent
    torch.testing.assert_close(tangent, expected, rtol=1e-3, atol=1e-3)


def test_mixed_precision_works():
    model, x = small_network().train(), torch.randn(2, 3, 32, 32)
    plain = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model(x)
    mixed.float().sum().backward()
    torch.testing.assert_close(mixed.float(), plain, rtol=0.2, atol=0.2)
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.slow
def test_compiled_training_gives_the_eager_gradients():
    """In single precision, which has a tanh of its own; the others are in test_registry.py."""
    torch.compiler.reset()
    model = create_model("prodpoly_resnet50", width=4, depths=(1,), num_classes=3).to(memory_format=torch.channels_last)
    compiled = copy.deepcopy(model)
    x = torch.randn(2, 3, 32, 32).to(memory_format=torch.channels_last)
    model(x).square().sum().backward()
    torch.compile(compiled, fullgraph=True)(x).square().sum().backward()
    for expected, parameter in zip(model.parameters(), compiled.parameters(), strict=True):
        assert (parameter.grad - expected.grad).norm() <= 1e-4 * expected.grad.norm()


@LAYOUTS
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 1, 2, 2), (3, 8, 1, 1)], ids=str)
def test_instance_norm_is_torchs(layout, shape):
    x = maps(*shape, layout=layout)
    expected = (x - x.mean((2, 3), keepdim=True)) / (x.var((2, 3), correction=0, keepdim=True) + 1e-5).sqrt()
    if shape[-1] > 1:
        torch.testing.assert_close(nn.InstanceNorm2d(shape[1])(x), expected)
    torch.testing.assert_close(InstanceNorm()(x), expected)
    assert torch.autograd.gradcheck(InstanceNorm(), x)


@LAYOUTS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["half", "bfloat"])
def test_instance_norm_is_right_in_half_precision(layout, dtype):
    x = (400 * torch.randn(2, 3, 8, 8) + 1000).to(dtype).to(memory_format=layout)
    expected = InstanceNorm()(x.double())
    assert InstanceNorm()(x).dtype == dtype
    assert (InstanceNorm()(x) - expected).abs().max() < 8 * torch.finfo(dtype).eps


def test_instance_norm_can_be_differentiated_twice_with_channels_last():
    assert torch.autograd.gradgradcheck(InstanceNorm(), maps(2, 3, 3, 3, layout=torch.channels_last))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_tanh_is_torchs_to_rounding(compiled):
    torch.compiler.reset()
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([0.0, 1e-6, 60, -60, 1e4, -1e4, float("inf")])])
    x.requires_grad_()
    function = torch.compile(Tanh(), fullgraph=True) if compiled else Tanh()
    out, expected = function(x), torch.tanh(x.detach().double())
    assert (out - expected).abs().max() < 4e-7
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert (gradient - (1 - expected**2)).abs().max() < 1e-6
    nan = torch.tensor([float("nan")])
    assert function(nan).isnan().all()
    with torch.no_grad():
        assert (function(x) - expected).abs().max() < 4e-7


def test_tanh_has_the_right_second_derivative():
    x = torch.linspace(-3, 3, 50, requires_grad=True)
    (first,) = torch.autograd.grad(Tanh()(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    y = torch.tanh(x.detach())
    torch.testing.assert_close(second, -2 * y * (1 - y**2), rtol=1e-4, atol=1e-6)


def test_gradients_of_gradients_with_a_frozen_norm():
    torch.manual_seed(0)
    join, norm = RecomputingMultiply(Tanh(), nn.ReLU()), nn.BatchNorm2d(3).requires_grad_(False)
    shortcut, branch = torch.randn(2, 4, 3, 2, 2).requires_grad_().unbind(0)
    plain = Multiply(Tanh(), nn.ReLU())
    second = []
    for one in (join, plain):
        (first,) = torch.autograd.grad(one(shortcut, branch, norm.eval()).square().sum(), branch, create_graph=True)
        second.append(torch.autograd.grad(first.square().sum(), shortcut)[0])
    torch.testing.assert_close(*second, rtol=1e-4, atol=1e-5)


def test_hooks_see_whole_batches():
    join, norm = RecomputingMultiply(Tanh(), nn.ReLU()), nn.BatchNorm2d(64).eval()
    seen = []
    join.step.norm.register_forward_hook(lambda module, given, out: seen.append(len(out)))
    with torch.no_grad():
        join(torch.randn(64, 64, 16, 16), torch.randn(64, 64, 16, 16), norm)
    assert seen == [64]
