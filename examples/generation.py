"""
Digits from noise, without activations
======================================

A polynomial of 16 random numbers draws digits. It learns by the energy distance between what it draws and real digits,
which takes no discriminator.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from pinets import NCP, certify

torch.manual_seed(0)
real = torch.tensor(load_digits().data, dtype=torch.float32) / 8 - 1  # from -1 to 1


def energy_distance(made, drawn):
    """Zero in the mean only if both have the same distribution."""
    count = len(made)
    within = sum(torch.cdist(one, one).sum() / (count * (count - 1)) for one in (made, drawn))
    return 2 * torch.cdist(made, drawn).mean() - within


def train(generator, steps=400):
    optimizer = torch.optim.Adam(generator.parameters(), lr=3e-3)
    for _ in range(steps):
        batch = real[torch.randint(len(real), (128,))]
        loss = energy_distance(generator(torch.randn(128, 16)), batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(generator.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        return energy_distance(generator(torch.randn(1000, 16)), real[:1000]).item()


# %%
# Order 1 is a linear map of the noise; every further order multiplies by the noise once more.

generators = {order: NCP(16, 64, rank=64, order=order) for order in (1, 2, 4)}
for order, generator in generators.items():
    print(f"order {order}: energy distance {train(generator):.3f}, certified degree "
          f"{certify(generator, torch.zeros(1, 16)).degree}")  # fmt: skip

# %%
# After so few steps the distance hardly tells the orders apart: a linear map can already match means and covariances.
# The strokes do: they need products.

figure, axes = plt.subplots(4, 10, figsize=(8, 3.4), layout="constrained")
noise = torch.randn(10, 16, generator=torch.Generator().manual_seed(3))
rows = {"real": real[:10], **{f"order {order}": made(noise).detach() for order, made in generators.items()}}
for line, (name, images) in zip(axes, rows.items(), strict=True):
    for axis, image in zip(line, images, strict=True):
        axis.imshow(image.reshape(8, 8), cmap="gray_r", vmin=-1, vmax=1)
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name)
plt.show()
