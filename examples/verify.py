"""
Proven bounds
=============

What can a network give, for every input of a box? For a polynomial there is a proof, rounding included.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from pinets import CCP, bounds
from pinets.algebra import ball, margins
from pinets.estimators import PolynomialNetClassifier

torch.manual_seed(0)
x = torch.linspace(-3, 3, 200, dtype=torch.float64)[:, None]
wave = CCP(1, 1, rank=8, order=7, dtype=torch.float64)
optimizer = torch.optim.LBFGS(wave.parameters(), max_iter=500, line_search_fn="strong_wolfe")


def loss():
    optimizer.zero_grad()
    value = (wave(x) - x.sin()).square().mean()
    value.backward()
    return value


optimizer.step(loss)

# %%
# One box of outputs for each of 24 intervals of inputs:

edges = torch.linspace(-3, 3, 25, dtype=torch.float64)[:, None]
proven = bounds(wave, edges[:-1], edges[1:], precision=torch.float64, boxes=8)

plt.figure(figsize=(6.5, 3), layout="constrained")
heights = (proven.upper - proven.lower)[:, 0]
plt.bar(edges[:-1, 0], heights, 0.25, proven.lower[:, 0], align="edge", color="0.88", edgecolor="0.6")
plt.plot(x, wave(x).detach(), "C3")
plt.ylim(-1.25, 1.25)
plt.title("the curve never leaves the boxes")
plt.show()

# %%
# Of a classifier, :func:`~pinets.algebra.margins` bounds by how much the right class wins, for all inputs that near:

images, labels = load_digits(return_X_y=True)
classifier = PolynomialNetClassifier(order=2, random_state=0).fit(images[:1500], labels[:1500])
network = classifier.to_polynomial()
digits, truth = torch.tensor(images[1500:1510]), torch.tensor(labels[1500:1510])
for radius in (0.01, 0.1, 0.3):  # of pixels from 0 to 16
    certain = (margins(network, *ball(digits, radius), truth) > 0).sum()
    print(f"no change of every pixel by up to {radius} misleads it: proven for {certain} of {len(digits)} digits")

# %%
# And of a generator, every picture that it can draw from a box of codes: here a CCP of order 2 that draws digits from
# eight principal components.

pixels = torch.tensor(images / 16)
mean, axes = pixels.mean(0), torch.linalg.svd(pixels - pixels.mean(0), full_matrices=False)[2][:8]
codes = (pixels - mean) @ axes.T
codes = codes / codes.std(0)
generator = CCP(8, 64, rank=32, order=2, dtype=torch.float64)
optimizer = torch.optim.Adam(generator.parameters(), lr=0.01)
for _ in range(300):
    optimizer.zero_grad()
    (generator(codes) - pixels).square().mean().backward()
    optimizer.step()

code = codes[:1]
drawn = bounds(generator, *ball(code, 0.1), precision=torch.float64)
samples = generator(code + 0.2 * torch.rand(10_000, 8) - 0.1).detach()
reached = samples.amax(0) - samples.amin(0)
print(f"a pixel changes by at most {drawn.width.max():.3f}; 10,000 samples reach {reached.max():.3f}")

figure, panels = plt.subplots(1, 4, figsize=(6.5, 2), layout="constrained")
pictures = {
    "the digit": pixels[0],
    "drawn": generator(code).detach(),
    "never darker than": drawn.lower,
    "never lighter than": drawn.upper,
}
for panel, (title, picture) in zip(panels, pictures.items(), strict=True):
    panel.imshow(picture.reshape(8, 8), cmap="gray", vmin=0, vmax=1)
    panel.set_title(title, fontsize=9)
    panel.set_axis_off()
plt.show()
