from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, Polynomial, PowerSum, Step
from pinets.encrypted import compile_network, encrypt_file, evaluate_file, make_key_files, plan_network, write_plan
from pinets.models import create_model

pytest.importorskip("tenseal")


def residual():
    """A certified residual network whose batch norms have seen data and whose products count."""
    network = create_model("polynomial_resnet_cifar", depths=(1, 1), width=4, num_classes=3)
    for parameter in network.parameters():
        if parameter.numel() == 1:
            nn.init.constant_(parameter, 0.5)
    for _ in range(20):
        network(torch.randn(16, 3, 8, 8))
    return network.eval()


NETWORKS = {
    "linear": (lambda: nn.Linear(6, 3), (6,)),
    "ccp2": (lambda: CCP(6, 3, rank=5, order=2), (6,)),
    "ccp4": (lambda: CCP(6, 3, rank=5, order=4), (6,)),
    "ccp5": (lambda: CCP(6, 3, rank=5, order=5), (6,)),
    "ncp3": (lambda: NCP(6, 3, rank=5, order=3), (6,)),
    "ncp4 with a factored bias": (lambda: NCP(6, 3, rank=4, order=4, bias_size=2), (6,)),
    "ncp-skip3": (lambda: NCPSkip(6, 3, rank=5, order=3), (6,)),
    "product": (lambda: nn.Sequential(CCP(6, 5, rank=4, order=2), CCP(5, 3, rank=7, order=3)), (6,)),
    "product of kinds": (lambda: nn.Sequential(CCP(6, 5, rank=4, order=2), NCP(5, 3, rank=7, order=2)), (6,)),
    "power sum": (lambda: nn.Sequential(nn.Linear(6, 4), PowerSum(3), nn.Linear(4, 3)), (6,)),
    "square without a head": (lambda: Polynomial(nn.Linear(6, 3), [Step(nn.Linear(6, 3))]), (6,)),
    "convolutional": (
        lambda: nn.Sequential(
            CCP(2, 4, rank=3, order=2, op=partial(nn.Conv2d, kernel_size=3, padding=1)),
            nn.BatchNorm2d(4),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(16, 3),
        ),
        (2, 4, 4),
    ),
    "residual": (residual, (3, 8, 8)),
}


@pytest.fixture(
    scope="session",
    params=[pytest.param(name, marks=pytest.mark.slow if name == "residual" else ()) for name in NETWORKS],
)
def compiled(request):
    """A small network of every kind that can be evaluated encrypted, its circuit, and the shape of its input."""
    torch.manual_seed(0)
    make, shape = NETWORKS[request.param]
    network = make().double().eval().requires_grad_(False)
    return network, compile_network(network, torch.zeros(1, *shape, dtype=torch.float64)), shape


def made_up(folder, packing="latency", **options):
    """The folders of a client and a server with their keys; gives the network, and inputs for it."""
    torch.manual_seed(0)
    network, inputs = CCP(6, 3, rank=4, order=3).double(), torch.rand(30, 6, dtype=torch.float64)
    small = {"rings": (1024,), "insecure": True, "estimate_time": False, **options}
    plan, circuit = plan_network(network, inputs, packing=packing, **small)
    write_plan(plan, circuit, client=folder / "client", server=folder / "server")
    make_key_files(folder / "client", folder / "server" / "evaluation.keys")
    return network, inputs


@pytest.fixture
def set_up():
    return made_up


@pytest.fixture(scope="module", params=["latency", "throughput"])
def folders(request, tmp_path_factory):
    """A folder after a round, the network and its inputs."""
    folder = tmp_path_factory.mktemp(request.param)
    network, inputs = made_up(folder, request.param)
    encrypt_file(inputs[:12].numpy(), folder / "client", folder / "server" / "inputs")
    evaluate_file(folder / "server" / "inputs", folder / "server", folder / "client" / "outputs", workers=1)
    return folder, network, inputs
