"""Draws the pictures that README.md begins with: ``python docs/landing/draw.py``."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import sympy
import torch
from sklearn.datasets import load_digits
from torch import nn

from pinets import CCP, bounds, expand
from pinets.encrypted import Client, Server, make_keys, plan_network
from pinets.estimators import PolynomialNetClassifier

HERE = Path(__file__).parent
INK, RED, BOX = "#1f2933", "#c53030", "#e2e8f0"


def fit(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> None:
    """Train on all data at once, since they are few."""
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2000, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = (model(inputs) - targets).square().mean()
        value.backward()
        return value

    optimizer.step(loss)


def draw_law(axis: plt.Axes) -> None:
    """A network learns the energy of a moving body from noisy measurements, and writes the law down."""
    z = 2 * torch.rand(500, 3, dtype=torch.float64)  # mass, speed, height
    energy = 0.5 * z[:, 0] * z[:, 1] ** 2 + 9.81 * z[:, 0] * z[:, 2]
    measured = energy + 0.01 * torch.randn(500, dtype=torch.float64)
    model = CCP(3, 1, rank=8, order=3, dtype=torch.float64)
    fit(model, z, measured[:, None])
    (formula,) = expand(model).to_sympy(sympy.symbols("m v h"))
    law = sum(term for term in formula.as_ordered_terms() if abs(term.as_coeff_Mul()[0]) > 0.05)
    law = law.evalf(2)  # the third digit differs from machine to machine
    axis.scatter(z[:, 0] * z[:, 2], measured, s=8, c=z[:, 1], cmap="viridis", alpha=0.8, linewidths=0)
    axis.set(xlabel="mass × height", ylabel="energy", ylim=(-2, 50), title="Read the law it learnt")
    axis.text(0.04, 0.86, f"$E = {sympy.latex(law)}$", transform=axis.transAxes, fontsize=16, color=RED)


def draw_proof(axis: plt.Axes) -> None:
    """Boxes that are proven to hold the curve of a network that learnt a sine."""
    x = torch.linspace(-3, 3, 200, dtype=torch.float64)[:, None]
    wave = CCP(1, 1, rank=8, order=7, dtype=torch.float64)
    fit(wave, x, x.sin())
    edges = torch.linspace(-3, 3, 25, dtype=torch.float64)[:, None]
    proven = bounds(wave, edges[:-1], edges[1:], precision=torch.float64, boxes=8)
    heights = (proven.upper - proven.lower)[:, 0]
    axis.bar(edges[:-1, 0], heights, 0.25, proven.lower[:, 0], align="edge", color=BOX, edgecolor="#94a3b8")
    axis.plot(x, wave(x).detach(), color=RED, lw=2)
    axis.set(xlabel="input", ylabel="output", ylim=(-1.25, 1.25), title="Prove what it can give")


def draw_secret(digit_axis: plt.Axes, bytes_axis: plt.Axes, scores_axis: plt.Axes) -> None:
    """A digit, the bytes that the server gets instead, and the scores that the client decrypts."""
    images, labels = load_digits(return_X_y=True)
    classifier = PolynomialNetClassifier(order=2, rank=16, random_state=0).fit(images[:1500], labels[:1500])
    network, inputs = classifier.to_polynomial().float(), torch.tensor(images, dtype=torch.float32)
    plan, circuit = plan_network(network, inputs[:200])
    secret_key, evaluation_keys = (keys.to_bytes() for keys in make_keys(plan))
    client, server = Client(plan, secret_key), Server(plan, circuit)
    request = client.encrypt(inputs[1600:1601])
    answer = server.evaluate(request, server.load_keys(evaluation_keys))
    scores = torch.as_tensor(client.decrypt(answer))[0]
    digit_axis.imshow(inputs[1600].reshape(8, 8), cmap="gray_r")
    sent = torch.frombuffer(bytearray(request[4096 : 4096 + 24 * 24]), dtype=torch.uint8).reshape(24, 24)
    bytes_axis.imshow(sent, cmap="gray_r")
    for axis, title in ((digit_axis, "the client sees"), (bytes_axis, "the server sees")):
        axis.set(xticks=[], yticks=[])
        axis.set_title(title, fontsize=12, fontweight="normal")
    colors = [RED if place == scores.argmax() else BOX for place in range(10)]
    scores_axis.bar(range(10), scores - scores.min(), color=colors, edgecolor="#94a3b8")
    scores_axis.set(xticks=range(10), yticks=[], xlabel=f"decrypted: a {scores.argmax()}")


if __name__ == "__main__":
    torch.manual_seed(0)
    plt.rcParams.update({"font.size": 12, "axes.edgecolor": INK, "axes.spines.top": False, "axes.spines.right": False})
    plt.rcParams.update({"axes.titlesize": 14, "axes.titleweight": "bold"})  # readable in a README 850 pixels wide
    figure = plt.figure(figsize=(10.5, 3.5), layout="constrained")
    left, middle, right = figure.subfigures(1, 3, wspace=0.03)
    draw_law(left.subplots())
    draw_proof(middle.subplots())
    right.suptitle("Run it encrypted", fontsize=14, fontweight="bold")
    parts = right.subplot_mosaic([["digit", "bytes"], ["scores", "scores"]], height_ratios=(1.2, 1))
    draw_secret(parts["digit"], parts["bytes"], parts["scores"])
    figure.savefig(HERE / "gains.png", dpi=170)
