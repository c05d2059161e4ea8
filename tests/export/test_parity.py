"""Every registered model gives the same outputs in onnxruntime as in torch, for any batch."""

from __future__ import annotations

import os
from functools import cache

import pytest
import torch
from torch import nn

from pinets.export import Metadata, export, fold_batch_norms
from pinets.models import create_model, list_models, model_entry

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")


def toy(name, **arguments):
    return create_model(name, **{**model_entry(name).toy, **arguments})


def batch(name, samples):
    generator = torch.Generator().manual_seed(samples)
    return torch.randn(samples, *toy_shape(model_entry(name)), generator=generator)


def toy_shape(entry):
    """What a toy takes: fewer pixels, vertices or random numbers, as its arguments say."""
    match entry.input_shape:
        case (features,):
            return (entry.toy.get("latent", features),)
        case (vertices, features):
            return (entry.toy.get("sizes", (vertices,))[0], features)
        case (channels, height, width):
            return (channels, *(min(64, entry.toy.get("size", size)) for size in (height, width)))


def awake(model):
    """Without the zeros and ones of a fresh network, which would hide what is exported wrongly."""
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            for value, low, high in ((module.running_mean, -0.2, 0.2), (module.running_var, 0.7, 1.5)):
                value.copy_(low + (high - low) * torch.rand(value.shape, generator=generator))
            if module.affine:
                module.weight.data.copy_(0.5 + torch.rand(module.weight.shape, generator=generator))
    for parameter in model.parameters():
        if parameter.numel() == 1:
            parameter.data.fill_(0.5)  # the scales of products
    return model.eval()


@pytest.fixture(autouse=True, scope="module")
def one_table_of_operators():
    """torch reads its table of ONNX operators anew for every export, which takes longer than to export a toy."""
    registry = pytest.importorskip("torch.onnx._internal.exporter._registration").ONNXRegistry
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "from_torchlib", staticmethod(cache(registry.from_torchlib)))
        yield


# toys of models that differ in depth or width alone are the same network
DISTINCT = sorted({repr(toy(name)): name for name in reversed(list_models())}.values())


# one of each family at every change, the others with `make verify`
FAMILIES = (
    "ncp_generator",
    "pinet18",
    "polynomial_resnet_cifar",
    "prodpoly_iresnet18",
    "prodpoly_resnet18_cifar",
    "spiral_autoencoder",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAMILIES else pytest.mark.slow) for name in DISTINCT]
)
def test_onnxruntime_gives_the_same_outputs(name, tmp_path):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = awake(toy(name))
    together = 4 if model_entry(name).task == "discrimination" else 1  # discriminators compare samples in groups
    x, more = batch(name, max(2, together)), batch(name, 3 * together)
    fold = bool(DISTINCT.index(name) % 2)  # each kind of network is there with and without
    metadata = Metadata(tuple(x.shape[1:]), polynomial=False)
    written = export(model, x, tmp_path / "model.onnx", to="onnx", fold=fold, metadata=metadata)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    assert (written.folded > 0) <= fold
    for inputs in (more, more[:together]):
        with torch.no_grad():
            expected = model(inputs)
        (found,) = session.run(None, {"input": inputs.numpy()})
        difference = (torch.from_numpy(found) - expected).abs().max() / expected.abs().max()
        assert difference <= 1e-4


@pytest.mark.parametrize("name", [name for name in DISTINCT if "resnet" in name])
def test_folding_leaves_the_function_as_it_is(name):
    model, x = awake(toy(name).double()), batch(name, 2).double()
    norms = sum(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    folded, count = fold_batch_norms(model, x)
    left = sum(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in folded.modules())
    assert count > 0
    assert left == norms - count
    with torch.no_grad():
        torch.testing.assert_close(folded(x), model(x), rtol=1e-9, atol=1e-9)


def test_a_file_that_could_not_be_read_again_is_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"a file for onnx must end in \.onnx, got .*a\.bin"):
        export(nn.Linear(2, 2), torch.zeros(1, 2), tmp_path / "a.bin", to="onnx")
