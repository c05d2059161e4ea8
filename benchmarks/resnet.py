"""Do fewer, second-order blocks pay off in time, and what does the second order cost by itself?

Prodpoly-ResNet [2, 2, 1, 1] runs in turn with ResNet18 at CIFAR's size, Prodpoly-ResNet50 with ResNet50 at ImageNet's:
same images, same layout in memory, same kind of step. rate = time of the baseline / time of the Π-net, which is their
throughput relative to the baseline's. The floor of a Π-net has the same blocks, and of the products only the 1x1
convolutions; /floor = time of the Π-net / time of its floor. The products' scales, which start at zero, are set to one.

The memory of a block is the highest during one training step, relative to the baseline's block.

Example:
  python -m benchmarks resnet --quick
  python -m benchmarks resnet --compile --only cifar --seconds 60
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.floor import convolutions_alone
from benchmarks.measuring import interleave, medians, peak_bytes
from benchmarks.rows import Goal, Row, add_timing, choose
from pinets.models import BasicBlock, Bottleneck, create_model, local_product, tanh_product
from pinets.models.parts import relu
from pinets.models.residual import JoinMaker, ResidualBlock, Scale, add

__all__ = ["FULL", "QUICK", "Case", "MemoryCase", "add_arguments", "measure", "measure_memory", "rows"]


@dataclass(frozen=True)
class Case:
    """A Π-net against its baseline.

    Attributes:
        name: Of the Π-net.
        baseline: The network it is compared with.
        batch: Images in a step.
        size: Their height and width.
        kind: ``"train"``, a forward and a backward pass, or ``"inference"``.
        goals: For the figures of the compiled networks.
    """

    name: str
    baseline: str
    batch: int
    size: int
    kind: str
    goals: tuple[Goal, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}, {self.kind}, batch {self.batch}"


@dataclass(frozen=True)
class MemoryCase:
    """A second-order block against the baseline's of the same shape, in one training step."""

    name: str
    block: type[ResidualBlock]
    join: JoinMaker
    channels: int
    size: int
    batch: int

    def __str__(self) -> str:
        return f"memory of {self.name}'s block, batch {self.batch}"


def _cases(cifar: int, imagenet: int) -> list[Case | MemoryCase]:
    """All comparisons, at the given batch sizes."""
    at_floor = (Goal("compiled/floor", at_most=1.05),)
    near_baseline = (Goal("compiled rate", at_least=0.90),)
    found: list[Case | MemoryCase] = [
        MemoryCase("prodpoly_resnet50", Bottleneck, tanh_product, 64, 56, 32),
        MemoryCase("prodpoly_resnet18_cifar", BasicBlock, partial(local_product, convs=2), 64, 32, 128),
    ]
    for kind in ("train", "inference"):
        found.append(Case("prodpoly_resnet18_cifar", "resnet18_cifar", cifar, 32, kind, at_floor))
        found.append(Case("prodpoly_resnet50", "resnet50", imagenet, 224, kind, near_baseline))
    return found


FULL = _cases(cifar=128, imagenet=16)
QUICK = _cases(cifar=16, imagenet=2)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line."""
    add_timing(parser, seconds=30.0, quick="small batches")
    parser.add_argument("--channels-first", action="store_true", help="images with the channels first in memory")


def rows(args: argparse.Namespace) -> Iterator[Row]:
    """One row for each case."""
    layout = torch.contiguous_format if args.channels_first else torch.channels_last
    for case in choose(QUICK if args.quick else FULL, args.only):
        if isinstance(case, MemoryCase):
            yield measure_memory(case, layout)
        else:
            yield measure(case, seconds=args.seconds, compiled=args.compile, layout=layout)


def measure(
    case: Case,
    *,
    seconds: float,
    compiled: bool = False,
    layout: torch.memory_format = torch.channels_last,
    least: int = 5,
) -> Row:
    """Time a Π-net, its baseline and its floor in turn."""
    torch.compiler.reset()  # or the networks of earlier cases count as recompilations
    network = create_model(case.name)
    networks = {"baseline": create_model(case.baseline), "ours": network, "floor": convolutions_alone(network)}
    x = torch.randn(case.batch, 3, case.size, case.size).to(memory_format=layout)
    labels = torch.arange(case.batch) % 10
    calls = {}
    for name, module in networks.items():
        module.to(memory_format=layout).train(case.kind == "train")  # type: ignore[call-overload]
        start_products(module)
        calls[f"eager {name}"] = _call(module, module, x, labels, case.kind)
        if compiled:
            calls[f"compiled {name}"] = _call(torch.compile(module, fullgraph=True), module, x, labels, case.kind)
    times = interleave(calls, seconds=seconds, least=least)
    median, figures = medians(times), {}
    for way in ("eager", "compiled") if compiled else ("eager",):
        ours = median[f"{way} ours"]
        figures[f"{way} ms"] = ours * 1e3
        figures[f"{way} rate"] = median[f"{way} baseline"] / ours
        figures[f"{way}/floor"] = ours / median[f"{way} floor"]
    return Row(
        str(case), figures, case.goals if compiled else (), {"seconds": median, "rounds": len(times["eager ours"])}
    )


def _call(
    run: Callable[[Tensor], Tensor], network: nn.Module, x: Tensor, labels: Tensor, kind: str
) -> Callable[[], object]:
    weights = list(network.parameters())
    if kind == "train":
        return lambda: torch.autograd.grad(F.cross_entropy(run(x), labels), weights)
    return torch.no_grad()(lambda: run(x))


def start_products(network: nn.Module) -> None:
    """Set the scales of the products, which are zero in a fresh network, to one."""
    for module in network.modules():
        if isinstance(module, Scale):
            nn.init.ones_(module.alpha)


def measure_memory(case: MemoryCase, layout: torch.memory_format = torch.channels_last) -> Row:
    """The memory of one block at its highest during a training step: weights, input, activations and gradients."""
    ours, baseline = _peak(case, case.join, layout), _peak(case, add, layout)
    return Row(str(case), {"MB": ours / 1e6, "baseline MB": baseline / 1e6, "ratio": ours / baseline})


def _peak(case: MemoryCase, join: JoinMaker, layout: torch.memory_format) -> int:
    channels = case.channels * case.block.expansion
    block = case.block(channels, case.channels, stride=1, join=join, activation=relu)
    block.to(memory_format=layout)  # type: ignore[call-overload]
    start_products(block)
    make = partial(torch.randn, case.batch, channels, case.size, case.size)
    x, gradient = make().to(memory_format=layout).requires_grad_(), make().to(memory_format=layout)
    return peak_bytes(lambda: block(x).backward(gradient), alive=[x, gradient, *block.parameters()])
