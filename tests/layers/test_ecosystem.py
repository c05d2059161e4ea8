"""The layers work with the tools that people use beside torch: transforms, summaries, attributions, training loops."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, expand, orders

LAYERS = [CCP, NCP, NCPSkip]
each_layer = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)


def make(layer, **options):
    torch.manual_seed(0)
    return layer(4, 3, rank=5, order=3, dtype=torch.float64, **options)


@each_layer
def test_torch_func_derivatives_are_those_of_the_polynomial(layer):
    model, zero = make(layer), torch.zeros(4, dtype=torch.float64)
    parameters = dict(model.named_parameters())

    def value(z):
        return torch.func.functional_call(model, parameters, (z[None],))[0]

    coefficients = expand(model).coefficients
    first, second = torch.func.jacrev(value)(zero), torch.func.hessian(value)(zero)
    torch.testing.assert_close(first, coefficients[1].reshape(3, 4))
    quadratic = coefficients[2].reshape(3, 4, 4)
    torch.testing.assert_close(second, quadratic + quadratic.transpose(1, 2))


@each_layer
def test_vmap_over_samples_and_over_networks(layer):
    models, z = [make(layer) for _ in range(2)], torch.randn(6, 4, dtype=torch.float64)
    torch.testing.assert_close(torch.vmap(lambda row: models[0](row[None])[0])(z), models[0](z))
    parameters, buffers = torch.func.stack_module_state(models)
    both = torch.vmap(lambda p, b: torch.func.functional_call(models[0], (p, b), (z,)))(parameters, buffers)
    torch.testing.assert_close(both, torch.stack([model(z) for model in models]))


@each_layer
def test_gradients_of_single_samples(layer):
    """Per-sample gradients, as for differential privacy, sum up to the gradient of the batch."""
    model, z = make(layer), torch.randn(5, 4, dtype=torch.float64)
    parameters = dict(model.named_parameters())

    def loss(p, row):
        return torch.func.functional_call(model, p, (row[None],)).square().sum()

    single = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, z)
    model(z).square().sum().backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(single[name].sum(0), parameter.grad)


@each_layer
def test_captum_attributions_agree_with_the_degrees(layer):
    """Integrated gradients from zero: input i gets the sum over the degrees n of (z_i dG_n/dz_i) / n, exactly."""
    captum = pytest.importorskip("captum.attr")
    model, z = make(layer), torch.randn(2, 4, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = captum.IntegratedGradients(model).attribute(z, target=1, n_steps=8, method="gausslegendre")

    def by_degree(point):
        return torch.stack([orders_of(model, point, degree) for degree in range(1, 4)])

    slopes = torch.stack([torch.func.jacrev(by_degree)(row) for row in z])  # (samples, degree, input)
    expected = (slopes * z[:, None, :] / torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)[:, None]).sum(1)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found.sum(1), (model(z) - model(torch.zeros_like(z)))[:, 1])


def orders_of(model, point, degree):
    """The part of one degree of output 1, from values along the ray: a polynomial of degree 3 in t."""
    nodes = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    values = torch.stack([model((t * point)[None])[0, 1] for t in nodes])
    return torch.linalg.solve(torch.vander(nodes, increasing=True), values)[degree]


def test_the_degrees_along_the_ray_are_those_of_orders():
    model, z = make(NCP), torch.randn(4, dtype=torch.float64)
    expected = orders(model, z[None])[:, 0, 1]
    found = torch.stack([orders_of(model, z, degree) for degree in range(4)])
    torch.testing.assert_close(found, expected)


@each_layer
def test_torchinfo_counts_the_parameters(layer):
    torchinfo = pytest.importorskip("torchinfo")
    model = make(layer).float()
    summary = torchinfo.summary(model, input_size=(2, 4), verbose=0)
    assert summary.total_params == sum(parameter.numel() for parameter in model.parameters())


def steps(model, optimizer, backward):
    z = torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for _ in range(3):
        optimizer.zero_grad()
        backward((model(z) - z[:, :3] * z[:, 1:]).square().mean())
        optimizer.step()


def test_accelerate_trains_as_a_plain_loop_does():
    accelerate = pytest.importorskip("accelerate")
    plain, prepared = make(NCPSkip), make(NCPSkip)
    steps(plain, torch.optim.Adam(plain.parameters()), lambda loss: loss.backward())
    accelerator = accelerate.Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(prepared, torch.optim.Adam(prepared.parameters()))
    steps(model, optimizer, accelerator.backward)
    for one, other in zip(plain.parameters(), prepared.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # Lightning's own use of torch
@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning")
def test_lightning_trains_as_a_plain_loop_does():
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = make(NCPSkip)

        def training_step(self, batch, _):
            (z,) = batch
            return (self.model(z) - z[:, :3] * z[:, 1:]).square().mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    z = torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(z), batch_size=20)
    module, plain = Module(), make(NCPSkip)
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    lightning.Trainer(max_epochs=3, accelerator="cpu", log_every_n_steps=1, **quiet).fit(module, loader)
    steps(plain, torch.optim.Adam(plain.parameters()), lambda loss: loss.backward())
    for one, other in zip(plain.parameters(), module.model.parameters(), strict=True):
        assert torch.equal(one, other)


@each_layer
def test_mixed_precision_follows_single_precision(layer):
    model, z = make(layer).float(), torch.randn(8, 4)
    exact = model(z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = model(z)
    assert (mixed.float() - exact).abs().max() < 0.05 * exact.abs().max()
    mixed.float().sum().backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())


class Doubled(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, z):
        return 2 * self.inner(z)


def test_a_deep_copy_and_a_state_dict_carry_everything():
    model = Doubled(make(NCPSkip))
    other = Doubled(make(NCPSkip))
    for parameter in other.parameters():
        nn.init.zeros_(parameter)
    other.load_state_dict(model.state_dict())
    z = torch.randn(3, 4, dtype=torch.float64)
    assert torch.equal(other(z), model(z))
