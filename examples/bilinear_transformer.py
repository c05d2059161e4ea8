"""
A transformer block that is a polynomial
========================================

Attention without softmax, and a gated layer without activation.

Attention multiplies queries, keys and values: a polynomial of degree 3 once the softmax is gone. The gated layer is one
step of a Π-net, of degree 2. Batch norm in place of layer norm is affine at inference. So the block has degree 6, and
the certificate names what would break it.
"""

import torch
from torch import nn

import pinets


class BilinearBlock(nn.Module):
    """x + attention(norm x), then x + W((A x) * (B x)) of its norm, for sequences of shape (batch, length, size)."""

    def __init__(self, size: int, hidden: int, norm: type[nn.Module] = nn.BatchNorm1d) -> None:
        super().__init__()
        self.norms = nn.ModuleList(norm(size) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(size, size, bias=False) for _ in range(4))
        self.step = pinets.Step(gate=nn.Linear(size, hidden, bias=False), body=nn.Linear(size, hidden, bias=False))
        self.head = nn.Linear(hidden, size)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[1]
        return self.out(scores @ self.value(x))

    def normalised(self, number: int, x: torch.Tensor) -> torch.Tensor:
        norm = self.norms[number]
        return norm(x.transpose(1, 2)).transpose(1, 2) if isinstance(norm, nn.BatchNorm1d) else norm(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.normalised(0, x))
        normalised = self.normalised(1, x)
        return x + self.head(self.step(normalised, normalised))


def main() -> None:
    torch.manual_seed(0)
    example = torch.randn(1, 5, 8)
    print("batch norm:", pinets.certify(BilinearBlock(8, 16).eval(), example))
    print("layer norm:", pinets.certify(BilinearBlock(8, 16, nn.LayerNorm).eval(), example))


if __name__ == "__main__":
    main()
