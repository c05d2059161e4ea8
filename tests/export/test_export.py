from __future__ import annotations

import json
import os
import zipfile
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

import pinets
from pinets import CCP, NCP, spec
from pinets.export import Metadata, describe, export, fold_batch_norms, read_metadata
from pinets.layers.bias import factor_bias

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

SUFFIX = {"onnx": ".onnx", "torch_export": ".pt2", "safetensors": ".safetensors"}


def network():
    norm = nn.BatchNorm1d(5)
    nn.init.uniform_(norm.running_mean)
    nn.init.uniform_(norm.weight)
    return nn.Sequential(
        CCP(6, 5, rank=4, order=2), norm, nn.Linear(5, 5), nn.BatchNorm1d(5), NCP(5, 3, rank=4, order=2)
    )


@pytest.mark.parametrize("to", SUFFIX)
def test_metadata_travel_in_the_file(to, tmp_path):
    model, x = network(), torch.randn(2, 6)
    known = {"classes": ("one", "two", "Π"), "preprocessing": {"kind": "Normalize"}, "recipe": {"epochs": 3}}
    written = export(model, x, tmp_path / f"m{SUFFIX[to]}", to=to, metadata=describe(model, x, **known))
    assert read_metadata(tmp_path / f"m{SUFFIX[to]}") == written
    assert (written.degree, written.polynomial, written.input_shape) == (4, True, (6,))
    assert written.classes == ("one", "two", "Π")
    assert written.recipe == {"epochs": 3}
    assert model.training, "the network must be left as it was"


def test_onnx_needs_nothing_of_ours(tmp_path, capfd):
    model, x = network(), torch.randn(4, 6)
    export(model, x[:1], tmp_path / "m.onnx", to="onnx")
    graph = pytest.importorskip("onnx").load(tmp_path / "m.onnx").graph
    # linear maps, products, the state that CCP carries over, and the batch norms, which nobody asked to fold
    assert Counter(node.op_type for node in graph.node) == {"Gemm": 8, "Mul": 2, "Add": 1, "BatchNormalization": 2}
    capfd.readouterr()
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    assert capfd.readouterr().err == "", "opens without a warning"
    (given,), (made,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.shape, made.name) == ("input", ["batch", 6], "output")
    assert json.loads(session.get_modelmeta().custom_metadata_map["pinets"])["degree"] == 4
    with torch.no_grad():
        expected = model.eval()(x)
    torch.testing.assert_close(torch.from_numpy(session.run(None, {"input": x.numpy()})[0]), expected)


def test_torch_runs_its_own_file(tmp_path):
    model, x = network().eval(), torch.randn(4, 6)
    export(model, x[:2], tmp_path / "m.pt2", to="torch_export", fold=True)
    loaded = torch.export.load(tmp_path / "m.pt2").module()
    torch.testing.assert_close(loaded(x), model(x))


@pytest.mark.parametrize("to", ["onnx", "torch_export"])
def test_neither_the_example_nor_where_it_was_made_is_in_the_file(to, tmp_path):
    path, x = tmp_path / f"m{SUFFIX[to]}", torch.full((1, 6), 1.2345)
    export(network(), x, path, to=to)
    content = path.read_bytes()
    if to == "torch_export":  # a zip
        with zipfile.ZipFile(path) as archive:
            content = b"".join(archive.read(name) for name in archive.namelist())
        (example, *_), _ = torch.export.load(path).example_inputs
        assert not example.any()
    assert x.numpy().tobytes() not in content
    for place in (Path(torch.__file__).parent, Path(pinets.__file__).parent, Path(__file__).parent):
        assert str(place).encode() not in content


def test_weights_of_an_expression_are_loaded_again(tmp_path):
    expression = "CCP(6, 3, rank=4, order=3)"
    model, x = spec.build(expression), torch.randn(2, 6)
    export(model, x, tmp_path / "m.safetensors", to="safetensors", metadata=describe(model, x, model=expression))
    assert torch.equal(spec.load(tmp_path / "m.safetensors")[0](x), model(x))


class Twice(nn.Module):
    """Somebody else also sees what the convolution gives, so its norm must stay."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2)
        nn.init.uniform_(self.norm.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        between = self.conv(x)
        return self.norm(between) * between


class Shared(nn.Module):
    """One convolution, called twice, with a norm after each call."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.first, self.second = nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.BatchNorm2d(2)
        nn.init.uniform_(self.first.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.conv(self.first(self.conv(x))))


class Tied(nn.Module):
    """The decoder has the encoder's weight, transposed; the output has the mean of the norm added."""

    def __init__(self, *, mean: bool) -> None:
        super().__init__()
        self.encode, self.norm, self.mean = nn.Linear(50, 3), nn.BatchNorm1d(3), mean
        nn.init.uniform_(self.norm.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        code = self.norm(self.encode(x.flatten(1)))
        return code + self.norm.running_mean if self.mean else code @ self.encode.weight


class Doubled(nn.BatchNorm2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def hooked(place: int) -> nn.Sequential:
    """A convolution and a norm, one of which has its results doubled from outside."""
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))
    model[place].register_forward_hook(lambda module, args, out: 2 * out)
    return model


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.BatchNorm2d(3)), 1),
        (nn.Sequential(nn.Conv2d(2, 3, 3), Doubled(3)), 0),
        (hooked(0), 0),
        (hooked(1), 0),
        (nn.Sequential(nn.ConvTranspose2d(2, 3, 3, stride=2), nn.BatchNorm2d(3, affine=False)), 1),
        (nn.Sequential(nn.ConvTranspose2d(2, 4, 3, groups=2), nn.BatchNorm2d(4)), 0),
        (nn.Sequential(nn.BatchNorm2d(2), nn.Conv2d(2, 3, 3)), 0),
        (nn.Sequential(factor_bias(nn.Conv2d(2, 3, 3), 2), nn.BatchNorm2d(3)), 0),
        (nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.BatchNorm2d(3)), 0),
        (Twice(), 0),
        (Shared(), 0),
        (Tied(mean=False), 0),
        (Tied(mean=True), 0),
        (nn.Sequential(nn.Flatten(), CCP(50, 3, rank=4, order=2), nn.BatchNorm1d(3)), 1),
        (nn.Sequential(nn.Flatten(), nn.Linear(50, 3), nn.BatchNorm1d(3, affine=False)), 1),
    ],
    ids=[
        "conv",
        "subclass",
        "hook of the operator",
        "hook of the norm",
        "transposed",
        "in groups",
        "before",
        "computed weight",
        "activation between",
        "seen twice",
        "called twice",
        "tied weight",
        "mean of the norm",
        "head",
        "linear without affine",
    ],
)
def test_only_norms_that_can_be_folded_are(model, count):
    for norm in (module for module in model.modules() if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d)):
        nn.init.uniform_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.5, 2)
    x = torch.randn(2, 2, 5, 5)
    folded, found = fold_batch_norms(model, x)
    assert found == count
    torch.testing.assert_close(folded(x), model.eval()(x), rtol=1e-4, atol=1e-5)


def test_bad_requests_are_refused_with_the_rule(tmp_path):
    model, x = CCP(6, 2, rank=3, order=2), torch.randn(2, 6)
    with pytest.raises(ValueError, match="no target 'onx'; did you mean 'onnx'"):
        export(model, x, tmp_path / "m.onnx", to="onx")
    with pytest.raises(ValueError, match="folding would leave some without a module"):
        export(model, x, tmp_path / "m.safetensors", to="safetensors", fold=True)
    with pytest.raises(ValueError, match="must be finite"):
        export(model, x * torch.nan, tmp_path / "m.onnx", to="onnx")
    with pytest.raises(ValueError, match=r"does not take the example, of shape \(2, 6\) float64: .*dtype"):
        export(model, x.double(), tmp_path / "m.pt2", to="torch_export")  # as from NumPy; no runtime could load it
    with pytest.raises(ValueError, match=r"must end in one of \.onnx"):
        read_metadata(tmp_path / "m.pth")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_metadata(tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIX.values())
def test_files_that_are_not_ours_or_broken_are_refused_by_name(suffix, tmp_path):
    path = tmp_path / f"m{suffix}"
    path.write_bytes(b"\x08\x08nothing of the kind")
    with pytest.raises(ValueError, match=rf"m\{suffix} (is not a complete|was not written)"):
        read_metadata(path)
    with pytest.raises(ValueError, match="format 2 is not known here"):
        Metadata.from_json('{"format": 2}', path)
