"""Do fewer, second-order blocks pay off in time, and what does the second order cost by itself?

Every Π-net runs in turn with its baseline, same images, same layout in memory, same kind of step. The products' scales,
which start at zero, are set to one, so that nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pinets._memory import keep_memory
from pinets.bench.floor import convolutions_alone, without_products
from pinets.bench.memory import peak_bytes
from pinets.bench.rows import Comparison, Results, collect
from pinets.bench.timing import interleave, machine, medians
from pinets.models import BasicBlock, Bottleneck, create_model, local_product, tanh_product
from pinets.models.blocks import ResidualBlock
from pinets.models.choices import relu
from pinets.models.join import JoinMaker, Scale, add

__all__ = ["FULL", "QUICK", "Case", "MemoryCase", "Row", "bench_resnet"]


@dataclass(frozen=True)
class Case:
    """A Π-net against its baseline.

    Attributes:
        name: Of the Π-net.
        baseline: What it is compared with.
        batch: Images in a step.
        size: Their height and width.
        run: ``"train"``, a forward and a backward pass, or ``"inference"``.
        compiled: Whether both go through ``torch.compile``.
        goal: The largest time relative to the baseline's that we want.
    """

    name: str
    baseline: str
    batch: int
    size: int
    run: str
    compiled: bool
    goal: float | None

    def __str__(self) -> str:
        return f"{self.name}, {self.run}, {'compiled' if self.compiled else 'eager'}, batch {self.batch}"


@dataclass(frozen=True)
class MemoryCase:
    """A second-order block against the baseline's of the same shape, in one training step."""

    name: str
    block: type[ResidualBlock]
    join: JoinMaker
    channels: int
    size: int
    batch: int
    goal: float | None

    def __str__(self) -> str:
        return f"memory of {self.name}, batch {self.batch}"


def _cases(cifar: int, imagenet: int, compiled: Sequence[bool]) -> list[Case]:
    """The comparisons, at the given batch sizes."""
    found = []
    for is_compiled in compiled:
        small, large = ("prodpoly_resnet18_cifar", "resnet18_cifar"), ("prodpoly_resnet50", "resnet50")
        eager = not is_compiled
        found += [
            Case(*small, cifar, 32, "train", is_compiled, 0.80 if eager else None),
            Case(*small, cifar, 32, "inference", is_compiled, 0.78 if eager else None),
            Case(*large, imagenet, 224, "train", is_compiled, 1 / 0.92 if eager else 1 / 0.95),
            Case(*large, imagenet, 224, "inference", is_compiled, 1 / 0.92 if eager else 1 / 0.96),
        ]
    return found


_BLOCKS = [
    MemoryCase("prodpoly_resnet50's block", Bottleneck, tanh_product, 64, 56, 32, goal=1.10),
    MemoryCase("prodpoly_resnet18_cifar's block", BasicBlock, partial(local_product, convs=2), 64, 32, 128, goal=1.10),
]

# what is measured; compiling takes a few minutes by itself
FULL: list[Case | MemoryCase] = [*_BLOCKS, *_cases(cifar=128, imagenet=16, compiled=(False, True))]
QUICK: list[Case | MemoryCase] = [*_BLOCKS, *_cases(cifar=16, imagenet=2, compiled=(False,))]


@dataclass(frozen=True)
class Row(Comparison):
    """What a case came to, in seconds or bytes, and the baseline.

    Attributes:
        bound: The same blocks without products.
        floor: The same blocks with nothing of the products but their convolutions, where they have any.
        rounds: How often each was timed.
    """

    case: Case | MemoryCase
    bound: float | None = None
    floor: float | None = None
    rounds: int = 1

    def remark(self) -> str:
        throughput = isinstance(self.case, Case) and self.case.size == 224
        text = f", throughput {1 / self.ratio:.3f}" if throughput else ""
        if self.bound is None or self.floor is None:
            return text
        without, convolved = self.bound / self.baseline, self.floor / self.baseline
        return f"{text} ({without:.3f} without products, {convolved:.3f} with nothing of them but convolutions)"


def bench_resnet(
    which: Sequence[Case | MemoryCase] = QUICK,
    *,
    seconds: float = 30.0,
    channels_last: bool = True,
    on_row: Callable[[Row], None] | None = None,
) -> Results[Row]:
    """Measure every case.

    Args:
        which: The cases, as in :data:`QUICK` and :data:`FULL`.
        seconds: How long to time each; a few rounds run in any case.
        channels_last: The layout of images in memory; False for channels first.
        on_row: Called with each result as it comes.
    """
    facts = machine()
    keep_memory()  # as in training
    layout = torch.channels_last if channels_last else torch.contiguous_format
    rows = (
        measure_memory(case, layout) if isinstance(case, MemoryCase) else measure(case, seconds, layout)
        for case in which
    )
    return Results("resnet", collect(rows, on_row), facts)


def measure(case: Case, seconds: float, layout: torch.memory_format, least: int = 5) -> Row:
    """Time a Π-net and its baseline in turn, and where blocks are fewer, also what they cannot be faster than."""
    torch.compiler.reset()  # or the networks of earlier cases count as recompilations of these
    networks = {"baseline": create_model(case.baseline), "value": create_model(case.name)}
    if case.size == 32:
        networks["bound"] = without_products(networks["value"])
        networks["floor"] = convolutions_alone(networks["value"])
    x = torch.randn(case.batch, 3, case.size, case.size).to(memory_format=layout)
    labels = torch.arange(case.batch) % 10
    calls = {name: _call(network, x, labels, case, layout) for name, network in networks.items()}
    times = interleave(calls, seconds=seconds, least=least)
    return Row(case, **medians(times), rounds=len(times["value"]))


def _call(
    network: nn.Module, x: Tensor, labels: Tensor, case: Case, layout: torch.memory_format
) -> Callable[[], object]:
    network.to(memory_format=layout).train(case.run == "train")  # type: ignore[call-overload]
    start_products(network)
    run = torch.compile(network, fullgraph=True) if case.compiled else network
    weights = list(network.parameters())
    if case.run == "train":
        return lambda: torch.autograd.grad(F.cross_entropy(run(x), labels), weights)
    return torch.no_grad()(lambda: run(x))


def start_products(network: nn.Module) -> None:
    """Set the scales of the products, which are zero in a fresh network, to one."""
    for module in network.modules():
        if isinstance(module, Scale):
            nn.init.ones_(module.alpha)


def measure_memory(case: MemoryCase, layout: torch.memory_format) -> Row:
    """The memory of one block at its highest during a training step: weights, input, what is kept, and gradients."""
    return Row(case, value=_peak(case, case.join, layout), baseline=_peak(case, add, layout))


def _peak(case: MemoryCase, join: JoinMaker, layout: torch.memory_format) -> int:
    channels = case.channels * case.block.expansion
    block = case.block(channels, case.channels, stride=1, join=join, activation=relu)
    block.to(memory_format=layout)  # type: ignore[call-overload]
    start_products(block)
    make = partial(torch.randn, case.batch, channels, case.size, case.size)
    x, gradient = make().to(memory_format=layout).requires_grad_(), make().to(memory_format=layout)
    return peak_bytes(lambda: block(x).backward(gradient), alive=[x, gradient, *block.parameters()])
