"""
A bilinear MLP
==============

Choose two of a step's four slots, and the certificate says what you built.

A gated layer multiplies a gate by a value. Without the activation on the gate it is one step of a Π-net, so everything
that pinets knows about polynomials applies: here the exact degree, and the eigenvectors of each output's interactions.
"""

import torch
from torch import nn

import pinets
from pinets.algebra import spectra


class BilinearMLP(nn.Module):
    """Layers W((A x) * (B x)), each of degree 2."""

    def __init__(self, sizes: tuple[int, ...], hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            pinets.Step(gate=nn.Linear(size, hidden, bias=False), body=nn.Linear(size, hidden, bias=False))
            for size in sizes[:-1]
        )
        self.heads = nn.ModuleList(nn.Linear(hidden, size) for size in sizes[1:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step, head in zip(self.layers, self.heads, strict=True):
            x = head(step(x, x))
        return x


def main() -> None:
    torch.manual_seed(0)
    deep = BilinearMLP((8, 6, 3), hidden=16)
    print("two layers:", pinets.certify(deep, torch.randn(1, 8)))
    one = BilinearMLP((8, 3), hidden=16)
    found = spectra(one, torch.randn(1, 8))
    print("one layer, eigenvalues of output 0:", [round(float(value), 3) for value in found.values[0]])
    print("effective ranks:", [round(float(rank), 2) for rank in found.effective_rank])


if __name__ == "__main__":
    main()
