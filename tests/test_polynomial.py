import pytest
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, Polynomial, PowerSum, Step


class Recording(nn.Module):
    """An operator that counts how often it runs."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor, self.calls = factor, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.factor * x


def test_step_adds_what_is_carried_from_each_source():
    step = Step(
        Recording(2.0),
        Recording(3.0),
        norm=Recording(10.0),
        carry={"state": Recording(1.0), "gate": Recording(0.1), "body": Recording(0.01)},
    )
    z, x = torch.tensor([5.0]), torch.tensor([7.0])
    # 10 * (2 * 5) * (3 * 7) + 7 + 0.1 * (2 * 5) + 0.01 * (3 * 7)
    torch.testing.assert_close(step(z, x), torch.tensor([2100.0 + 7 + 1 + 0.21]))


def test_step_evaluates_gate_and_body_once_even_when_carried():
    gate, body = Recording(2.0), Recording(3.0)
    Step(gate, body, carry={"gate": nn.Identity(), "body": nn.Identity()})(torch.ones(2), torch.ones(2))
    assert (gate.calls, body.calls) == (1, 1)


def test_gate_may_be_broadcast_over_the_state_but_not_the_other_way_round():
    step = Step(nn.Identity())
    assert step(torch.ones(2, 3, 1, 1), torch.ones(2, 3, 4, 4)).shape == (2, 3, 4, 4)
    with pytest.raises(ValueError, match=r"gate \(2, 3, 4, 4\) and body \(2, 3, 1, 1\)"):
        step(torch.ones(2, 3, 4, 4), torch.ones(2, 3, 1, 1))
    with pytest.raises(ValueError, match=r"gate \(2, 3\) and body \(2, 4\)"):
        step(torch.ones(2, 3), torch.ones(2, 4))


def test_unknown_source_is_refused():
    with pytest.raises(ValueError, match="one of state, gate, body, got 'input'"):
        Step(nn.Identity(), carry={"input": nn.Identity()})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="carry must map sources to operators, got Identity"):
        Step(nn.Identity(), carry=nn.Identity())  # type: ignore[arg-type]


def test_polynomial_takes_steps_only():
    with pytest.raises(TypeError, match="Linear at position 0"):
        Polynomial(nn.Identity(), [nn.Linear(2, 2)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="steps must be a list of Step modules, got Step"):
        Polynomial(nn.Identity(), Step(nn.Identity()))  # type: ignore[arg-type]


def test_power_sum_is_the_geometric_sum():
    x = torch.linspace(-0.9, 0.9, 7, dtype=torch.float64)
    for order in (1, 2, 3, 7):
        torch.testing.assert_close(PowerSum(order)(x), x * (1 - x**order) / (1 - x))


def test_power_sum_normalises_each_power_on_its_own():
    layer = PowerSum(3, norm=lambda: Recording(0.5))
    torch.testing.assert_close(layer(torch.tensor([2.0])), torch.tensor([2 + 0.5 * 4 + 0.5 * 8]))


@pytest.mark.parametrize("model", [CCP, NCP, NCPSkip])
class TestBadInput:
    @pytest.mark.parametrize("order", [0, -1])
    def test_order(self, model, order):
        with pytest.raises(ValueError, match=f"order must be at least 1, got {order}"):
            model(4, 3, rank=2, order=order)

    @pytest.mark.parametrize("order", [2.0, "2", True])
    def test_order_of_wrong_type(self, model, order):
        with pytest.raises(TypeError, match="order must be an int"):
            model(4, 3, rank=2, order=order)

    def test_rank(self, model):
        with pytest.raises(ValueError, match="rank must be at least 1, got 0"):
            model(4, 3, rank=0, order=2)

    def test_sizes(self, model):
        with pytest.raises(ValueError, match="in_features must be at least 1, got 0"):
            model(0, 3, rank=2, order=2)

    def test_wrong_width(self, model):
        with pytest.raises(ValueError, match=rf"^{model.__name__} expects 4 features .*, got shape \(2, 5\)"):
            model(4, 3, rank=2, order=2)(torch.ones(2, 5))

    def test_wrong_channels(self, model):
        layer = model(4, 3, rank=2, order=2, op=lambda *a, **k: nn.Conv2d(*a, kernel_size=3, padding=1, **k))
        with pytest.raises(ValueError, match=r"expects 4 channels on axis -3, got shape \(2, 5, 8, 8\)"):
            layer(torch.ones(2, 5, 8, 8))

    def test_integer_input(self, model):
        with pytest.raises(TypeError, match=r"floating-point input, got torch\.int64"):
            model(4, 3, rank=2, order=2)(torch.ones(2, 4, dtype=torch.long))

    def test_mismatch_inside_a_product(self, model):
        product = nn.Sequential(model(4, 5, rank=2, order=2), model(6, 3, rank=2, order=2))
        with pytest.raises(ValueError, match=r"expects 6 features on the last axis, got shape \(2, 5\)"):
            product(torch.ones(2, 4))

    @pytest.mark.parametrize("op", ["linear", 3, None])
    def test_operator_that_is_none(self, model, op):
        with pytest.raises(TypeError, match="op must make linear operators"):
            model(4, 3, rank=2, order=2, op=op)

    def test_operator_of_another_signature(self, model):
        with pytest.raises(TypeError, match=r"op\(fan_in, fan_out, bias="):
            model(4, 3, rank=2, order=2, op=nn.ReLU)

    def test_non_linear_operator(self, model):
        def squashed(fan_in, fan_out, **options):
            return nn.Sequential(nn.Linear(fan_in, fan_out, **options), nn.Tanh())

        with pytest.raises(TypeError, match="op must make linear operators"):
            model(4, 3, rank=2, order=2, op=squashed)

    def test_non_linear_operator_derived_from_a_linear_one(self, model):
        class Rectified(nn.Linear):
            def forward(self, x):
                return super().forward(x).relu()

        with pytest.raises(TypeError, match="op must make linear operators"):
            model(4, 3, rank=2, order=2, op=Rectified)

    def test_non_linear_operator_for_large_maps(self, model):
        def rectified(fan_in, fan_out, **options):
            return nn.Sequential(nn.Conv2d(fan_in, fan_out, 9, **options), nn.ReLU())

        with pytest.raises(TypeError, match="op must make linear operators"):
            model(4, 3, rank=2, order=2, op=rectified)

    @pytest.mark.parametrize(
        "op",
        [
            lambda fan_in, fan_out, *, bias, **k: nn.Linear(fan_in, fan_out, **k),
            lambda fan_in, fan_out, *, bias, **k: nn.Sequential(nn.Linear(fan_in, fan_out, **k)),
        ],
    )
    def test_operator_with_a_bias_that_was_not_asked_for(self, model, op):
        with pytest.raises(TypeError, match="without a bias if bias=False"):
            model(4, 3, rank=2, order=2, op=op)

    def test_operator_of_several_linear_maps_is_accepted(self, model):
        def low_rank(fan_in, fan_out, *, bias, **options):
            return nn.Sequential(
                nn.Linear(fan_in, 1, bias=False, **options), nn.Linear(1, fan_out, bias=bias, **options)
            )

        assert model(4, 3, rank=2, order=2, op=low_rank)(torch.ones(2, 4)).shape == (2, 3)
        with torch.autocast("cpu", dtype=torch.bfloat16):  # whose rounding is no lack of linearity
            model(4, 3, rank=2, order=2, op=low_rank)

    def test_operator_without_parameters_on_the_meta_device(self, model):
        class Reversed(nn.Module):
            def forward(self, x):
                return x.flip(-1)

        with torch.device("meta"):
            layer = model(4, 4, rank=4, order=2, op=lambda *_, **__: Reversed())
        torch.testing.assert_close(layer.start(torch.arange(4.0)), torch.tensor([3.0, 2.0, 1.0, 0.0]))


@pytest.mark.parametrize("model", [CCP, NCP, NCPSkip])
def test_a_symbolic_trace_keeps_the_checks(model):
    """Feature extraction and quantization in graph mode trace networks with torch.fx."""
    layer, z = nn.Sequential(model(4, 3, rank=5, order=3), nn.Linear(3, 2)), torch.randn(2, 4)
    traced = torch.fx.symbolic_trace(layer)
    torch.testing.assert_close(traced(z), layer(z), rtol=0, atol=0)
    with pytest.raises(ValueError, match="expects 4 features on the last axis"):
        traced(torch.randn(2, 5))


def test_every_slot_calls_its_hooks():
    poly = Polynomial(nn.Linear(5, 8), [Step(nn.Linear(5, 8), nn.Linear(8, 8), norm=nn.Identity())], nn.Linear(8, 2))
    slots = [poly.start, poly.steps[0].gate, poly.steps[0].body, poly.steps[0].norm, poly.head]
    seen = []
    for slot in slots:
        slot.register_forward_hook(lambda module, *_: seen.append(module))
    poly(torch.randn(3, 5))
    assert [id(module) for module in seen] == [id(slot) for slot in slots]


def test_hooks_for_all_modules_see_every_slot():
    poly = Polynomial(nn.Linear(5, 8), [Step(nn.Linear(5, 8), nn.Linear(8, 8))], nn.Linear(8, 2))
    seen = []
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module)))
    try:
        poly(torch.randn(3, 5))
    finally:
        handle.remove()
    assert seen.count(nn.Linear) == 4


def test_hooks_on_the_slots_of_ccp_are_called():
    step = CCP(5, 2, rank=3, order=2).steps[0]
    seen = []
    for slot in (step.body, step.norm, step.carry["state"]):
        slot.register_forward_hook(lambda module, *_: seen.append(module))
    step(torch.randn(4, 5), torch.randn(4, 3))
    assert len(seen) == 3


def test_a_forward_put_on_one_module_is_called():
    poly = NCP(5, 2, rank=3, order=2)
    poly.head.forward = lambda x: x.sum(-1)
    assert poly(torch.randn(4, 5)).shape == (4,)
