from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, Polynomial, PowerSum, Step, spec
from pinets.spec import ExpressionError, build, load, save

CONV = partial(nn.Conv2d, kernel_size=3, padding=1)

WRITTEN = {
    "CCP(16, 4, rank=8, order=3)": lambda: CCP(16, 4, rank=8, order=3),
    "NCP(in_features=6, out_features=2, rank=3, order=2, bias_size=4)": lambda: NCP(6, 2, rank=3, order=2, bias_size=4),
    "Sequential(CCP(6, 5, rank=8, order=2), Tanh(), NCPSkip(5, 4, rank=8, order=2))": lambda: nn.Sequential(
        CCP(6, 5, rank=8, order=2), nn.Tanh(), NCPSkip(5, 4, rank=8, order=2)
    ),
    "NCP(3, 2, rank=4, order=2, op=Conv2d(kernel_size=3, padding=1))": lambda: NCP(3, 2, rank=4, order=2, op=CONV),
    "NCP(3, 2, rank=4, order=2, op=Conv2d(kernel_size=(1, 3)), head_op=nn.Conv2d(kernel_size=1))": lambda: NCP(
        3, 2, rank=4, order=2, op=partial(nn.Conv2d, kernel_size=(1, 3)), head_op=partial(nn.Conv2d, kernel_size=1)
    ),
    "pinets.CCP(3, 2, rank=4, order=2, op=Linear)": lambda: CCP(3, 2, rank=4, order=2, op=nn.Linear),
    "Sequential(Linear(3, 4), PowerSum(3, norm=BatchNorm1d(4)))": lambda: nn.Sequential(
        nn.Linear(3, 4), PowerSum(3, norm=lambda: nn.BatchNorm1d(4))
    ),
    'Polynomial(Linear(3, 4), [Step(Linear(3, 4), carry={"state": Identity()})], Linear(4, 2))': lambda: Polynomial(
        nn.Linear(3, 4), [Step(nn.Linear(3, 4), carry={"state": nn.Identity()})], nn.Linear(4, 2)
    ),
    "Conv2d(\n  3, 4, 3, padding_mode='circular', bias=False,\n  padding=1)": lambda: nn.Conv2d(
        3, 4, 3, padding_mode="circular", bias=False, padding=1
    ),
    "LeakyReLU(-0.5, True)": lambda: nn.LeakyReLU(-0.5, True),
    "MaxPool1d(2, stride=None)": lambda: nn.MaxPool1d(2),
}


@pytest.mark.parametrize("expression", WRITTEN)
def test_builds_what_python_would(expression):
    torch.manual_seed(1)
    expected = WRITTEN[expression]()
    torch.manual_seed(1)
    built = build(expression)
    assert str(built) == str(expected)
    assert built.state_dict().keys() == expected.state_dict().keys()
    for name, tensor in expected.state_dict().items():
        assert torch.equal(built.state_dict()[name], tensor), name


def test_every_step_makes_its_own_operators():
    built = build("CCP(3, 2, rank=4, order=3, op=Conv1d(kernel_size=1))")
    assert len({id(step.gate) for step in built.steps} | {id(built.start)}) == 3


@pytest.mark.parametrize(
    "expression, message",
    [
        ("CPP(16, 4, rank=8, order=3)", "column 1: unknown layer 'CPP'; did you mean 'CCP'?"),
        ("Sequential(CCP(4, 4, rank=2, order=2), Relu())", "column 40: unknown layer 'Relu'; did you mean 'ReLU'?"),
        ("CCP(16, 4, rnak=8, order=3)", "column 12: CCP has no argument 'rnak'; did you mean 'rank'?"),
        ("CCP(3, 2, rank=4, order=2, op=Cnv2d(kernel_size=3))", "column 31: unknown layer 'Cnv2d'"),
        ("CCP(3, 2, rank=4, order=2, op=Conv2d(kernel=3))", "column 38: Conv2d has no argument 'kernel'"),
        ("CCP(16, 4, rank=8, order=0)", "column 1: CCP(...): order must be at least 1, got 0"),
        ("Sequential(\n  Linear(4))", "line 2, column 3: Linear(...): "),
        ("CCP(16, 4, rank=8, order=3", "'(' was never closed"),
        ("CCP", "a model is a call"),
        ("", "column"),
        ("3", "a model is a call"),
        ("CCP(2 ** 9, 4, rank=8, order=3)", "'2 ** 9' is not understood here"),
        ("Linear(**{'in_features': 3})", "** is not understood here"),
        ("Linear(*[3, 4])", "'*[3, 4]' is not understood here"),
        ("Linear(3, 4, device=lambda: 0)", "'lambda: 0' is not understood here"),
        ("Linear(3, b'x')", "is not understood here"),
        ("Step(Identity(), carry={Identity(): 3})", "the keys of a dict must be texts or numbers"),
        ("Linear([x for x in 'ab'], 4)", "is not understood here"),
        ("__import__('os').getcwd()", "is not the name of a layer"),
        ("nn.modules.linear.Linear(3, 4)", "is not the name of a layer"),
        ("torch.nn.Linear(3, 4)", "is not the name of a layer"),
        ("nn.Parameter(3)", "unknown layer 'Parameter'"),
        ("Linear.__init__(3)", "is not the name of a layer"),
        ("Sequential(" * 300 + ")" * 300, ""),
        ("\0", ""),
    ],
)
def test_says_what_is_wrong_and_where(expression, message):
    with pytest.raises(ExpressionError) as caught:
        build(expression)
    assert message in str(caught.value)


@pytest.fixture
def saved(tmp_path):
    expression = "Sequential(NCP(4, 3, rank=2, order=2, bias_size=2), BatchNorm1d(3))"
    model = build(expression)
    model(torch.randn(8, 4))  # moves the statistics of the batch norm
    path = tmp_path / "folder" / "model.safetensors"
    save(path, model, expression, note="Π")
    return path, model, expression


def test_a_saved_model_comes_back_bit_for_bit(saved):
    path, model, expression = saved
    loaded, metadata = load(path)
    assert metadata == {"model": expression, "note": "Π"}
    assert str(loaded) == str(model)
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name
    assert all(parameter.requires_grad for parameter in loaded.parameters())
    z = torch.randn(5, 4)
    assert torch.equal(loaded.eval()(z), model.eval()(z))


def test_weights_keep_their_type(tmp_path):
    model = build("CCP(4, 2, rank=3, order=2)").double()
    save(tmp_path / "m.safetensors", model, "CCP(4, 2, rank=3, order=2)")
    loaded, _ = load(tmp_path / "m.safetensors")
    for name, weight in model.state_dict().items():
        assert loaded.state_dict()[name].dtype == torch.float64
        assert torch.equal(loaded.state_dict()[name], weight)


def test_loading_draws_no_random_numbers(saved):
    before = torch.get_rng_state()
    load(saved[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_only_the_finished_file_is_left(saved):
    path, _, _ = saved
    assert [file.name for file in path.parent.iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("broken", ["os.replace", "os.fsync"])
def test_a_failure_while_saving_leaves_the_old_file(saved, monkeypatch, broken):
    path, model, expression = saved
    before = path.read_bytes()
    module, name = broken.split(".")

    def fail(*args):
        raise OSError("no space left")

    monkeypatch.setattr(f"{module}.{name}", fail)
    with pytest.raises(OSError, match="no space left"):
        save(path, model, expression, note="new")
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["model.safetensors"]


def test_a_file_cut_anywhere_is_refused_by_name(saved):
    path, _, _ = saved
    content = path.read_bytes()
    for length in {0, 1, 7, 8, 9, len(content) // 2, len(content) - 1}:
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"model\.safetensors is not a complete safetensors file"):
            load(path)


def test_files_of_another_kind_are_refused_by_name(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "other.safetensors"
    path.write_bytes(b"PK\x03\x04" + bytes(1000))
    with pytest.raises(ValueError, match=r"other\.safetensors is not a complete safetensors file"):
        load(path)
    save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(ValueError, match=r"other\.safetensors does not say which model"):
        load(path)
    save_file({"weight": torch.ones(2)}, path, metadata={"model": "__import__('os')"})
    with pytest.raises(ValueError, match=r"other\.safetensors cannot be used: column 1: unknown layer '__import__'"):
        load(path)
    with pytest.raises(FileNotFoundError, match="absent"):
        load(tmp_path / "absent.safetensors")


@pytest.mark.parametrize(
    "tensors, difference",
    [
        ({"weight": torch.ones(2, 3)}, "bias is missing"),
        ({"weight": torch.ones(3, 2), "bias": torch.ones(2)}, r"weight should have shape \(2, 3\), has \(3, 2\)"),
        ({"weight": torch.ones(2, 3), "bias": torch.ones(2), "x": torch.ones(1)}, "x is not part of it"),
        ({"weight": torch.ones(2, 3, dtype=torch.int64), "bias": torch.ones(2)}, "weight should have a type such as"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(tmp_path, tensors, difference):
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    save_file(tensors, path, metadata={"model": "Linear(3, 2)"})
    with pytest.raises(ValueError, match=rf"model\.safetensors cannot be used: .*{difference}"):
        load(path)


def test_a_small_file_cannot_claim_a_huge_model(tmp_path):
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    save_file({"weight": torch.ones(1)}, path, metadata={"model": "Linear(10000000, 10000000)"})  # 400 TB
    with pytest.raises(ValueError, match="weight should have shape"):
        load(path)


def test_saving_refuses_what_could_not_be_loaded(tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(ValueError, match="the module is not what"):
        save(path, nn.Linear(3, 2), "Linear(2, 3)")
    with pytest.raises(ExpressionError):
        save(path, nn.Linear(3, 2), "Linaer(3, 2)")
    with pytest.raises(ValueError, match="metadata are texts"):
        save(path, nn.Linear(3, 2), "Linear(3, 2)", epochs=3)
    with pytest.raises(ValueError, match="metadata are texts"):
        save(path, nn.Linear(3, 2), "Linear(3, 2)", model="x")
    assert not path.exists()


def test_public_names_are_known():
    import pinets

    modules = [name for name in pinets.__all__ if isinstance(getattr(pinets, name), type)]
    assert {name for name in modules if issubclass(getattr(pinets, name), nn.Module)} <= set(spec.names())


def test_a_name_that_is_near_nothing_is_answered_without_a_guess():
    with pytest.raises(ExpressionError, match=r"^column 1: unknown layer 'MyNet'$"):
        build("MyNet()")


def test_saving_without_an_expression_says_what_is_missing(tmp_path):
    with pytest.raises(TypeError, match=r"save takes a path, a module and the expression that builds it, as in"):
        save(nn.Linear(3, 2), str(tmp_path / "f"))
    with pytest.raises(TypeError, match=r"got str, Linear and ''"):
        save(str(tmp_path / "f"), nn.Linear(3, 2))


@pytest.mark.parametrize(
    "expression, reason",
    [
        ("CCP(1, 1, rank=1, order=1000000000)", "it has more than 1,000 modules"),
        ("NCP(1, 1, rank=1, order=1000000000)", "takes more than 2,000 operations"),
        ("PowerSum(1000000000)", "it has more than 1,000 modules"),
        ("monet_t(depths=[1000000000, 1, 1, 1])", "takes more than 2,000 operations"),
        ("TransformerEncoder(TransformerEncoderLayer(2, 1), 1000000000)", "takes more than 2,000 operations"),
        ("TransformerEncoder(Identity(), 1000000000)", "takes more than 100,000 calls of functions"),
        ("TransformerDecoder([1, 2], 1000000000)", "takes more than 100,000 calls of functions"),
        ("GRU(1, 1, num_layers=1000000000)", "takes more than 2,000 operations"),
        ("to_pinet(resnet18_cifar(width=16000))", "parameters, more than the 100,000,000"),
        ("to_pinet (resnet18_cifar(width=16000))", "parameters, more than the 100,000,000"),
        ("Sequential(to_pinet(resnet18_cifar(width=16000)), Identity())", "parameters, more than the 100,000,000"),
        (f"Sequential({'CCP(1, 1, rank=1, order=99), ' * 2000})", "it has more than 1,000 modules"),
        (f"Sequential({'Identity(), ' * 4000})", "it has more than 1,000 modules"),
    ],
    ids=lambda text: text[:20],
)
def test_a_small_file_cannot_make_a_huge_network(tmp_path, monkeypatch, expression, reason):
    from safetensors.torch import save_file

    monkeypatch.setattr("pinets._limits.CALLS", 2000)  # to be done sooner
    monkeypatch.setattr("pinets._limits.MODULES", 1000)
    monkeypatch.setattr("pinets._limits.EVENTS", 100_000 if "of functions" in reason else 20_000_000)
    path = tmp_path / "model.safetensors"
    save_file({"weight": torch.ones(1)}, path, metadata={"model": expression})
    with pytest.raises(ValueError, match=rf"model\.safetensors cannot be used: .*{reason}"):
        load(path)


@pytest.mark.parametrize("calls", range(1, 12))
def test_a_limit_leaves_gradients_as_they_were(calls, monkeypatch):
    """Initialisation turns gradients off and on by calls that are counted too."""
    from pinets._limits import LimitError, limited

    monkeypatch.setattr("pinets._limits.CALLS", calls)
    with pytest.raises(LimitError, match="operations"), limited():
        torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(12)))
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("depth", [90, 350, 600, 975, 5000, 200_000])
@pytest.mark.parametrize("nested", ["nn{}", "Linear(3, 1{})", "Linear(3, {}1)", "Linear(3, 'a'{})"])
def test_deep_expressions_are_refused(nested, depth):
    inner = {"nn{}": ".x", "Linear(3, 1{})": " + 1", "Linear(3, {}1)": "-", "Linear(3, 'a'{})": "[0]"}[nested]
    with pytest.raises(ExpressionError) as caught:
        build(nested.format(inner * depth))
    assert len(str(caught.value)) < 500
