from __future__ import annotations

import pytest
import torch
from torch import nn

from pinets import certify
from pinets.models.mesh_graph import graph_autoencoder
from pinets.models.mesh_pca import MeshPCA
from pinets.models.spiral import (
    LAYERS,
    NORMS,
    FeatureBatchNorm,
    SpiralPolynomial,
    VertexBatchNorm,
    VertexInstanceNorm,
    full_layer,
    simple_layer,
    spiral_autoencoder,
)
from pinets.tasks.meshes.geometry import Hierarchy, Level, Mesh

SIZES, LENGTHS = (40, 10, 3), (4, 4, 3)
SMALL = {"encoder": (3, 4, 5), "decoder": (5, 4, 3), "latent": 2}
KINDS = [("plain", 1), *((layer, order) for layer in ("ncp", "ncp_skip", "simple") for order in (1, 2, 3, 4))]


def hierarchy(seed=0):
    """A hierarchy of random spirals and maps."""
    generator = torch.Generator().manual_seed(seed)
    blank = Hierarchy.blank(SIZES, LENGTHS)
    for level in blank.levels:
        size = len(level.spirals)
        level.spirals[:, 1:] = torch.randint(0, size + 1, (size, level.spirals.shape[1] - 1), generator=generator)
    for (indices, weights), coarse in zip(blank.up, SIZES[1:], strict=True):
        indices.copy_(torch.randint(0, coarse, indices.shape, generator=generator))
        weights.copy_(torch.rand(weights.shape, generator=generator))
    return blank


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def shake(model):
    """Parameters that start at zero would hide what they multiply."""
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double()


def test_the_published_number_of_parameters():
    assert count(spiral_autoencoder()) == 48547
    # a second operator in every layer; facts say 74,755 without the norms, which have a scale and a shift per feature
    features = 16 + 16 + 16 + 32 + 32 + 16 + 16 + 3
    assert count(spiral_autoencoder(layer="ncp", order=2, norm="none")) == 74755
    assert count(spiral_autoencoder(layer="ncp", order=2)) == 74755 + 2 * features
    # the simple layer has no more operators than the plain one, whatever its order
    assert count(spiral_autoencoder(layer="simple", order=4, norm="none")) == 48547


def convolve(conv, x):
    padded = torch.cat([x, torch.zeros_like(x[:, :1])], dim=1)
    return padded[:, conv.spirals].flatten(2) @ conv.weight.T


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("widths", [(3, 5), (4, 4)])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_full_layer_is_the_papers_equation(order, widths, skip):
    torch.manual_seed(0)
    wide, wider = widths
    spirals = hierarchy().levels[0].spirals
    layer = shake(full_layer(order, NORMS["instance"], skip=skip)(wide, wider, spirals))
    x1 = torch.randn(2, 40, wide, dtype=torch.float64)
    x = x1
    for n in range(2, order + 1):
        step = layer.steps[n - 2]
        a = convolve(step.gate, x1)
        product = a * convolve(step.body, x)
        mean, variance = product.mean(1, keepdim=True), product.var(1, keepdim=True, correction=0)
        normed = step.norm.weight * (product - mean) / (variance + 1e-5).sqrt() + step.norm.bias
        if skip:
            carried = x if x.shape[-1] == wider else x @ step.carry["state"].weight.T
        x = normed + a + (carried if skip else 0)
    torch.testing.assert_close(layer(x1), x + layer.head.bias)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_simple_layer_is_the_papers_equation(order):
    torch.manual_seed(0)
    layer = shake(simple_layer(order, NORMS["none"])(3, 5, hierarchy().levels[0].spirals))
    x = torch.randn(2, 40, 3, dtype=torch.float64)
    s = convolve(layer[0], x)
    torch.testing.assert_close(layer(x), sum(s**n for n in range(1, order + 1)) + layer[2].bias)


@pytest.mark.parametrize("layer, order", KINDS)
def test_every_kind_encodes_decodes_and_learns(layer, order):
    torch.manual_seed(0)
    model = spiral_autoencoder(hierarchy(), layer=layer, order=order, **SMALL).double()
    x = torch.randn(4, 40, 3, dtype=torch.float64)
    assert model.encode(x).shape == (4, 2)
    torch.testing.assert_close(model(x), model.decode(model.encode(x)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = (model(x) - x).abs().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert [name for name, parameter in model.named_parameters() if not parameter.grad.abs().sum() > 0] == []


def test_a_fresh_polynomial_is_the_network_without_products():
    """The norms of the products start at zero, so the order does not matter before training."""
    torch.manual_seed(0)
    x = torch.randn(2, 40, 3, dtype=torch.float64)
    model = spiral_autoencoder(hierarchy(), layer="ncp", order=4, activation="none", **SMALL).double()
    parts = [model(t * x) - model(0 * x) for t in (1.0, 2.0)]
    torch.testing.assert_close(parts[1], 2 * parts[0])


@pytest.mark.parametrize("norm", ["batch", "vertex", "none"])
@pytest.mark.parametrize("layer, order", [("plain", 1), ("ncp", 2), ("ncp_skip", 2), ("simple", 2)])
def test_without_activations_it_is_a_polynomial(layer, order, norm):
    torch.manual_seed(0)
    model = shake(spiral_autoencoder(hierarchy(), layer=layer, order=order, activation="none", norm=norm, **SMALL))
    certificate = certify(model.eval(), torch.randn(1, 40, 3, dtype=torch.float64))
    assert certificate.degree == order**4  # two layers down, two up


def test_instance_norm_and_elu_are_named_as_the_reason():
    model = spiral_autoencoder(hierarchy(), layer="ncp", order=2, activation="none", **SMALL).double().eval()
    x = torch.randn(1, 40, 3, dtype=torch.float64)
    assert not certify(model, x).polynomial
    assert not certify(spiral_autoencoder(hierarchy(), **SMALL).double().eval(), x).polynomial


def test_norms_against_formulas():
    x = 3 + 2 * torch.randn(4, 10, 5)
    for norm, axes in ((VertexInstanceNorm(5), (1,)), (FeatureBatchNorm(5), (0, 1)), (VertexBatchNorm(10, 5), (0,))):
        assert not norm(x).any()  # a fresh norm silences the product
        nn.init.ones_(norm.weight)
        variance, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
        torch.testing.assert_close(norm(x), (x - mean) / (variance + 1e-5).sqrt(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("order", [2, 4])
def test_older_state_dicts_with_stacked_views_load(order, skip):
    torch.manual_seed(0)
    layer = shake(SpiralPolynomial(3, 5, hierarchy().levels[0].spirals, order=order, norm=NORMS["batch"], skip=skip))
    state = layer.state_dict()
    stacked = [state.pop("steps.0.body.weight"), *(state.pop(f"steps.{n}.gate.weight") for n in range(order - 1))]
    state["views.weight"] = torch.cat(stacked)  # S_2, A_2, ..., A_N
    state["bias.bias"] = state.pop("head.bias")
    if skip:
        state["carry.weight"] = state.pop("steps.0.carry.state.weight")
    other = SpiralPolynomial(3, 5, hierarchy().levels[0].spirals, order=order, norm=NORMS["batch"], skip=skip).double()
    other.load_state_dict(state)
    x = torch.randn(2, 40, 3, dtype=torch.float64)
    torch.testing.assert_close(other(x), layer(x))


def mesh_networks():
    for layer, order in KINDS:
        for norm in ("instance", "batch", "vertex"):
            yield spiral_autoencoder(hierarchy(), layer=layer, order=order, norm=norm, **SMALL)
    pytest.importorskip("torch_geometric")
    for operator in ("chebnet", "feastnet", "gat", "monet"):
        yield graph_autoencoder(triangulated(), operator=operator, **SMALL)


def test_reset_parameters_redraws_every_parameter_as_it_was_made():
    torch.manual_seed(0)
    for model in mesh_networks():
        fresh = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with torch.no_grad():
            for name, tensor in model.state_dict().items():
                if name != "hierarchy_digest":
                    tensor.fill_(99)
        model.reset_parameters()
        for name, tensor in model.state_dict().items():
            first = fresh[name].double()
            if first.numel() < 2 or not first.std() > 0:  # a constant, such as a bias or a scale
                torch.testing.assert_close(tensor.double(), first)
                continue
            assert not torch.equal(tensor.double(), first) or name == "hierarchy_digest", name
            ratio = (tensor.double().square().mean() / first.square().mean()).log().item()
            assert abs(ratio) < 12 * first.numel() ** -0.5, (name, ratio)  # six deviations, for normal numbers


def test_compiles_and_exports():
    torch.manual_seed(0)
    model = shake(spiral_autoencoder(hierarchy(), layer="ncp_skip", order=3, **SMALL)).eval()
    x = torch.randn(3, 40, 3, dtype=torch.float64)
    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="eager")(x), model(x))
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    torch.testing.assert_close(exported.module()(x[:2]), model(x[:2]))


def test_weights_of_another_template_are_refused():
    model, other = (spiral_autoencoder(hierarchy(seed), **SMALL) for seed in (0, 1))
    spiral_autoencoder(hierarchy(0), **SMALL).load_state_dict(model.state_dict())
    with pytest.raises(ValueError, match="another hierarchy of meshes"):
        other.load_state_dict(model.state_dict())


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"layer": "plain", "order": 2}, "a plain layer has order 1, got 2"),
        ({"layer": "ncq"}, "layer must be one of plain, ncp"),
        ({"layer": "ncp", "order": 0}, "order must be at least 1, got 0"),
        ({"norm": "group"}, "norm must be one of instance"),
        ({"latent": 0}, "latent must be at least 1, got 0"),
        ({"encoder": (3, 4)}, "encoder must have 3 widths for 2 down-samplings"),
        ({"decoder": (5, 3)}, "decoder must have at least 3 widths"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        spiral_autoencoder(hierarchy(), **{**SMALL, **arguments})


def test_further_widths_of_the_decoder_stay_at_the_finest_level():
    model = spiral_autoencoder(hierarchy(), **{**SMALL, "decoder": (5, 4, 4, 4, 3)})
    assert model(torch.randn(2, 40, 3)).shape == (2, 40, 3)


@pytest.mark.parametrize("number", [50, 8])  # more and fewer than there are coordinates
def test_principal_components_against_a_singular_value_decomposition(number):
    generator = torch.Generator().manual_seed(0)
    spread = torch.randn(12, 12, generator=generator, dtype=torch.float64)
    shapes = (torch.randn(number, 12, generator=generator, dtype=torch.float64) @ spread).unflatten(1, (4, 3)) + 7
    mean, deviation = shapes.mean(0), shapes.std(0)
    pca = MeshPCA(4, 3).double()
    pca.fit(shapes, mean, deviation)
    standard = (shapes - mean) / deviation
    u, s, v = torch.linalg.svd((shapes - mean).flatten(1), full_matrices=False)
    best = (u[:, :3] * s[:3]) @ v[:3]
    torch.testing.assert_close((pca(standard) * deviation).flatten(1), best)
    with pytest.raises(ValueError, match="3 components need at least as many shapes, got 2"):
        pca.fit(shapes[:2], mean, deviation)


def triangulated():
    """A hierarchy with faces, for networks that look at edges."""
    blank = hierarchy()
    levels = []
    for level in blank.levels:
        size = len(level.spirals)
        corners = torch.arange(size - 2)[:, None] + torch.arange(3)
        mesh = type(level.mesh)(torch.rand(size, 3), corners)
        levels.append(type(level)(mesh, level.spirals))
    return Hierarchy(tuple(levels), blank.down, blank.up)


@pytest.mark.parametrize("operator", ["chebnet", "feastnet", "gat", "monet"])
def test_graph_networks_treat_samples_one_by_one_and_learn(operator):
    pytest.importorskip("torch_geometric")
    torch.manual_seed(0)
    model = graph_autoencoder(triangulated(), operator=operator, **SMALL).double()
    x = torch.randn(3, 40, 3, dtype=torch.float64)
    torch.testing.assert_close(model(x), torch.cat([model(one[None]) for one in x]))
    (model(x) - x).abs().mean().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.encode(x).shape == (3, 2)


def test_a_chebyshev_layer_is_the_published_polynomial_of_the_laplacian():
    pytest.importorskip("torch_geometric")
    torch.manual_seed(0)
    made = triangulated()
    model = graph_autoencoder(made, operator="chebnet", **SMALL).double()
    layer = model.encoder[0]
    adjacency = torch.zeros(40, 40, dtype=torch.float64)
    adjacency[layer.edges[0], layer.edges[1]] = 1.0
    scale = adjacency.sum(1).rsqrt()
    shifted = -scale[:, None] * adjacency * scale  # 2 L / 2 - 1, with the largest eigenvalue taken as 2
    x = torch.randn(2, 40, 3, dtype=torch.float64)
    terms = [x, shifted @ x]
    while len(terms) < 6:
        terms.append(2 * shifted @ terms[-1] - terms[-2])
    expected = sum(term @ linear.weight.T for term, linear in zip(terms, layer.layer.lins, strict=True))
    torch.testing.assert_close(layer(x), expected + layer.layer.bias)


def test_a_mixture_layer_weighs_neighbours_by_where_they_lie_on_the_template():
    """MoNet: the mean over the neighbours of Gaussians of their offsets, each with a matrix of its own."""
    pytest.importorskip("torch_geometric")
    torch.manual_seed(0)
    made = triangulated()
    layer = graph_autoencoder(made, operator="monet", **SMALL).double().encoder[0]
    points, x = made.levels[0].mesh.vertices.double(), torch.randn(40, 3, dtype=torch.float64)
    near = [set() for _ in range(40)]
    for face in made.levels[0].mesh.faces.tolist():
        for vertex in face:
            near[vertex] |= {*face} - {vertex}
    longest = max((points[a] - points[b]).norm() for a in range(40) for b in near[a])
    kernels = layer.layer.g.view(3, 9, -1)
    for vertex in range(40):
        expected = x[vertex] @ layer.layer.root.weight.T + layer.layer.bias
        for other in near[vertex]:
            away = ((points[other] - points[vertex]) / longest - layer.layer.mu) / layer.layer.sigma
            weights = (-0.5 * away.square().sum(1)).exp()
            expected = expected + torch.einsum("k,i,iko->o", weights, x[other], kernels) / len(near[vertex])
        torch.testing.assert_close(layer(x[None])[0, vertex], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "operator, numbers", [("chebnet", {"K": 6}), ("feastnet", {"heads": 9}), ("gat", {"heads": 8})]
)
def test_the_published_numbers_of_the_baselines(operator, numbers):
    pytest.importorskip("torch_geometric")
    layer = graph_autoencoder(triangulated(), operator=operator, **SMALL).encoder[0].layer
    found = {name: len(layer.lins) if name == "K" else getattr(layer, name) for name in numbers}
    assert found == numbers


@pytest.mark.parametrize("operator", ["chebnet", "feastnet", "gat", "monet"])
def test_fresh_baselines_do_not_begin_far_away(operator):
    """Eight layers one after the other: what is given back has no more than the size of what comes in."""
    pytest.importorskip("torch_geometric")
    torch.manual_seed(0)
    sizes = (60, 30, 15, 8, 4)
    levels = []
    for size in sizes:
        corners = torch.arange(size - 2)[:, None] + torch.arange(3)
        levels.append(Level(Mesh(torch.rand(size, 3), corners), Hierarchy.blank((size,), (4,)).levels[0].spirals))
    blank = Hierarchy.blank(sizes, (4,) * 5)
    model = graph_autoencoder(Hierarchy(tuple(levels), blank.down, blank.up), operator=operator, latent=8)
    assert model(torch.randn(32, 60, 3)).std() < 1.5


@pytest.mark.parametrize("widths", [(16, 24), (16, 16)])
@pytest.mark.parametrize(("layer", "order"), KINDS)
def test_a_fresh_layer_keeps_the_variance(layer, order, widths):
    torch.manual_seed(0)
    spirals = torch.stack([torch.arange(500).roll(shift) for shift in range(9)], dim=1)  # nobody at the edge
    make = LAYERS[layer](order, NORMS["instance"])
    y = make(*widths, spirals)(torch.randn(20, 500, widths[0]))
    assert 0.5 < y.var().item() < 2.1  # of NCP-Skip, 1 + (N - 1) / N where the input is carried over as it is


def test_pca_of_repeated_shapes_is_a_projection():
    """Five shapes have four directions around their mean; the other components must not count one of them twice."""
    shapes = 100 * torch.randn(5, 40, 3, dtype=torch.float64).repeat(8, 1, 1)
    mean, pca = shapes.mean(0), MeshPCA(40, 16).double()
    pca.fit(shapes, mean, torch.ones(40, 3))
    components = pca.components.detach()
    torch.testing.assert_close(components.T @ components, torch.eye(16, dtype=torch.float64))
    directions = torch.linalg.svd((shapes - mean).flatten(1)).Vh[:4]
    torch.testing.assert_close(directions @ components @ components.T, directions)
