"""Which activation-free networks of the literature are polynomials? The certificate decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from pinets.algebra import Certificate, certify
from pinets.algebra._certify import as_power
from pinets.models import literature
from pinets.models.registry import build_model
from pinets.models.residual import Scale

__all__ = ["NETWORKS", "Audited", "Network", "audit", "page", "table"]

_PAGE = """# Which activation-free networks are polynomials?

Many published networks have no activation functions. Whether one is a polynomial of its input is another question: a
max-pool, an instance norm or a layer norm breaks it, and with it exact expansions, encrypted evaluation and bounds by
algebra. The certificate decides ([what it checks](algebra.md#certify)). This page is written by

```bash
pinets audit --out docs/audit.md
```

{table}
*Polynomial*: whether the network, or the part of it that is built, is one at inference, and if not, the operations in
the way. *Degree*: exact, or a bound; long ones as powers. *Multiplications*: in convolutions and matrix products, for
one input. *What the norm costs*: accuracy lost, as the papers report it, when the norm is replaced by one that is
affine at inference. Networks for 224 pixels are certified at 64, where they have the same layers. Scales that start at
0 are switched on, since they would hide the products of a fresh network.

Of R-PolyNets one block is built with the norms they were published with (80 % instance norm in the branch), of
D-PolyNets two, since a block takes up the products of those before it. The norms of PDC are not known to us: those of
R-PolyNets are assumed.
"""


@dataclass(frozen=True)
class Network:
    """A network to audit.

    Attributes:
        name: What the literature calls it.
        build: Builds it, or a block of it, for inputs of a height and width.
        shape: The shape of one input.
        part: What is built, in words.
        norm_cost: What replacing its norm by one that keeps the polynomial costs, from the papers.
        certified_at: Height and width that it is certified at; that of ``shape`` if left out. The layers are the same.
    """

    name: str
    build: Callable[[int], nn.Module]
    shape: tuple[int, ...]
    part: str
    norm_cost: str
    certified_at: int | None = None


_NOT_PUBLISHED = "not published"


def _registered(name: str, network: str, side: int, norm_cost: str = _NOT_PUBLISHED, *, sized: bool = False) -> Network:
    """A registered network; one that is ``sized`` has weights for each pixel, and takes the size as an argument."""

    def build(height: int) -> nn.Module:
        return build_model(network, **({"image_size": height} if sized else {}))

    part = f"the whole network, `{network}`"
    return Network(name, build, (3, side, side), part, norm_cost, certified_at=min(side, _SMALL_SIDE))


def _part(
    name: str, build: Callable[[], nn.Module], shape: tuple[int, ...], part: str, norm_cost: str = _NOT_PUBLISHED
) -> Network:
    return Network(name, lambda _: build(), shape, part, norm_cost)


_SMALL_SIDE = 64
_MAP = (8, 8, 8)
_BILINEAR = "the published one has an RMS norm before it, which is not a polynomial"
NETWORKS = (
    _part("R-PolyNets", partial(literature.RPolyBlock, 8), _MAP, "one block"),
    _part("R-PolyNets, batch norm", partial(literature.RPolyBlock, 8, nn.BatchNorm2d), _MAP, "one block"),
    _part("D-PolyNets", partial(literature.DPolyBlocks, 8), _MAP, "two blocks"),
    _part("D-PolyNets, batch norm", partial(literature.DPolyBlocks, 8, nn.BatchNorm2d), _MAP, "two blocks"),
    _part("PDC", partial(literature.PDCBlock, 8), _MAP, "one block, norms assumed"),
    _part("quadratic network", partial(literature.QuadraticLayer, 16, 16), (16,), "one layer", "has no norm"),
    _part("bilinear MLP", partial(literature.BilinearLayer, 16, 32), (16,), "one layer without its norm", _BILINEAR),
    _registered("strict network of pinets", "strict_convnet", 32, "has batch norm"),
    _registered("strict residual network of pinets", "strict_resnet", 32, "has batch norm"),
    _registered("PiNet-18, no activation", "pinet18", 224, "has batch norm"),
    _registered("Prodpoly-ResNet18", "prodpoly_resnet18_cifar", 32),
    _registered("polynomial ResNet of pinets", "polynomial_resnet_cifar", 32, "has batch norm"),
    _registered("PolyNeXt-T", "polynext_t", 224, "1.9 points on ImageNet (80.2 to 78.3)", sized=True),
    _registered("PolyNeXt-T, batch norm", "polynext_t_bn", 224, sized=True),
    _registered("MONet-T", "monet_t", 224),
    _registered("MONet-T, batch norm", "monet_t_bn", 224),
    _registered("PolyNeXt-T, attention", "apolynext_t", 224, "2.9 points on ImageNet (80.9 to 78.0)", sized=True),
    _registered("PolyNeXt-T, attention, batch norm", "apolynext_t_bn", 224, sized=True),
)


@dataclass(frozen=True)
class Audited:
    """The audit of one network.

    Attributes:
        network: Which.
        certificate: Whether it is a polynomial, its degree, and what is in the way.
        parameters: Number of learnt parameters.
        multiplications: In convolutions and matrix products, for one input.
    """

    network: Network
    certificate: Certificate
    parameters: int
    multiplications: int

    @property
    def in_the_way(self) -> str:
        """The kinds of operations that break the polynomial."""
        kinds = dict.fromkeys(violation.operation for violation in self.certificate.violations)
        return ", ".join(kinds)


def audit(networks: tuple[Network, ...] = NETWORKS) -> Iterator[Audited]:
    """Build and certify networks, one after the other."""
    for entry in networks:
        side = entry.certified_at
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = entry.build(side or 0).eval()
            example = torch.randn(1, *(entry.shape if side is None else (entry.shape[0], side, side)))
        _switch_products_on(network)
        certificate = certify(network, example)
        counter = FlopCounterMode(display=False)
        with torch.device("meta"):
            whole = entry.build(entry.shape[-1]).eval()
            with counter:
                whole(torch.empty(1, *entry.shape))
        count = sum(parameter.numel() for parameter in whole.parameters())
        yield Audited(entry, certificate, count, counter.get_total_flops() // 2)


def page(rows: list[Audited]) -> str:
    """The audit as a page of the documentation."""
    return _PAGE.format(table=table(rows))


def table(rows: list[Audited]) -> str:
    """The audit as a table in Markdown."""
    titles = ("network", "polynomial", "degree", "parameters", "multiplications", "what the norm costs")
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in rows:
        highest = row.certificate.degree or row.certificate.bound
        degree = "" if highest is None else f"{'' if row.certificate.degree else 'at most '}{as_power(highest)}"
        lines.append(
            f"| {row.network.name} ({row.network.part}) | "
            f"{'yes' if row.certificate.polynomial else f'no: {row.in_the_way}'} | {degree} | "
            f"{row.parameters:,} | {row.multiplications:,} | {row.network.norm_cost} |"
        )
    return "\n".join(lines) + "\n"


def _switch_products_on(network: nn.Module) -> None:
    """Scales that start at 0 would hide the products of a fresh network."""
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, Scale):
                module.alpha.fill_(0.5)
            if isinstance(module, nn.BatchNorm2d) and module.weight is not None and not module.weight.any():
                module.weight.fill_(0.5)
