"""
A network that writes down the law it learnt
============================================

A network sees noisy measurements of a moving body's energy. Since it is a polynomial, it can be multiplied out.
"""

import matplotlib.pyplot as plt
import sympy
import torch

from pinets import CCP, certify, expand

torch.manual_seed(0)
z = 2 * torch.rand(500, 3, dtype=torch.float64)  # mass, speed and height
energy = 0.5 * z[:, 0] * z[:, 1] ** 2 + 9.81 * z[:, 0] * z[:, 2]
measured = energy + 0.01 * torch.randn(500, dtype=torch.float64)

# %%
# A CCP of order 3 is an ordinary module, and is trained as one.

model = CCP(3, 1, rank=8, order=3, dtype=torch.float64)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=500, line_search_fn="strong_wolfe")


def loss():
    optimizer.zero_grad()
    value = (model(z)[:, 0] - measured).square().mean()
    value.backward()
    return value


optimizer.step(loss)
print(f"typical error {loss().item() ** 0.5:.3f}")
print(certify(model, z[:1]))

# %%
# Its exact coefficients, as a formula:

(formula,) = expand(model).to_sympy(sympy.symbols("m v h"))
law = sum(term for term in formula.as_ordered_terms() if abs(term.as_coeff_Mul()[0]) > 0.05).evalf(3)
print("E =", law)

plt.figure(figsize=(6, 3.2), layout="constrained")
plt.scatter(measured, model(z).detach()[:, 0], s=6)
plt.xlabel("measured energy")
plt.ylabel("energy by the network")
plt.title(f"$E = {sympy.latex(law)}$")
plt.show()
