r"""
A polynomial from the literature in 20 lines
============================================

A factorization machine (Rendle, 2010) adds all products of pairs of features, with a matrix of weights of low rank:

.. math:: y = w_0 + w^T z + \sum_{i < j} \langle v_i, v_j \rangle z_i z_j
          = w_0 + w^T z + \tfrac12 \sum_k \big((V z)_k^2 - (V^2 z^2)_k\big)

Two polynomials of pinets do it, and everything that pinets knows of polynomials then holds for it.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

from pinets import Polynomial, Step, certify, expand


class FactorizationMachine(nn.Module):
    """The model above."""

    def __init__(self, features, rank):
        super().__init__()
        self.linear = nn.Linear(features, 1)
        self.factors = nn.Linear(features, rank, bias=False)  # V
        self.square = Polynomial(nn.Identity(), [Step(gate=nn.Identity())])  # x * x, element by element

    def forward(self, z):
        pairs = self.square(self.factors(z)) - self.square(z) @ self.factors.weight.T.square()
        return self.linear(z) + pairs.sum(dim=-1, keepdim=True) / 2


# %%
# It is certified, and its expansion has no squares: they cancel exactly.

torch.manual_seed(0)
machine = FactorizationMachine(features=6, rank=2).double()
z = torch.randn(1, 6, dtype=torch.float64)
print(certify(machine, z))

quadratic = expand(machine, z).coefficients[2][0].detach()
print("largest coefficient of a square:", f"{quadratic.diagonal().abs().max():.1e}")

# %%
# Its coefficients are those of the formula:

weights = machine.factors.weight.detach()
expected = (weights.T @ weights).fill_diagonal_(0)
print("as in the formula:", torch.allclose(quadratic + quadratic.T, expected, atol=1e-12))

plt.figure(figsize=(3.6, 3), layout="constrained")
plt.imshow(quadratic + quadratic.T, cmap="RdBu_r", vmin=-0.1, vmax=0.1)
plt.colorbar(label="coefficient of $z_i z_j$")
plt.show()
