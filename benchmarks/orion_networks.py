"""Networks of pinets under orion-fhe (Lattigo), for comparison with ``pinets encrypt run``.

orion-fhe 1.0.2 needs an environment of its own. It asks for torchvision, which it does not import:

    python -m venv orion && orion/bin/pip install torch certifi h5py matplotlib scipy tqdm pyyaml safetensors
    orion/bin/pip install --no-deps orion-fhe==1.0.2

``mnist_conv2``, the trained weights of two blocks of convolutions:

    PYTHONPATH=src orion/bin/python benchmarks/orion_networks.py mnist_conv2

orion-fhe finds no levels where a value forks inside a fork, as u does in u * v + u, so it is given u * (v + 1); the
last batch norm is put into the classifier, without which it would have to bootstrap.

Part of a CCP:

    pinets encrypt plan runs/mnist_ccp4-small/seed-0 --packing latency --data DATA --out mnist
    PYTHONPATH=src orion/bin/python benchmarks/orion_networks.py mnist/server

It cannot place levels in a network that forks more than twice from one value either, as a CCP of order 4 does (it stops
with "LevelDAG has no attribute topo_path"). So it evaluates the first two factors of the product and the head: a lower
bound of what the whole network would take it. It takes the plan's ring and primes, so the modulus is the same.

Its secret is sparser (Hamming weight 192, orion's default) than the one the tables of security are for. Images are
random, in the range of pixels or of the plan.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np
import orion
import orion.nn as on
import torch

from pinets.encrypted import read_circuit
from pinets.encrypted.circuit import Circuit, Product
from pinets.models import load_weights

CONV_BITS = (51, *[37] * 9, 51)  # nine multiplications in a row, the most that is secure in a ring of 16384


class TwoFactors(on.Module):
    """The product of two affine maps, and a head."""

    def __init__(self, factors, output):
        super().__init__()
        self.flatten = on.Flatten()
        self.left, self.right = (linear(factor.terms[0], factor.constant) for factor in factors)
        self.multiply = on.Mult()
        self.head = linear(output.terms[1], output.constant)

    def forward(self, x):
        x = self.flatten(x)
        return self.head(self.multiply(self.left(x), self.right(x)))


class Branch(on.Module):
    """A convolution and its batch norm, with the weights of ours."""

    def __init__(self, ours, *, add=0.0):
        super().__init__()
        conv, norm = ours
        self.conv = on.Conv2d(conv.in_channels, conv.out_channels, 3, padding=1, bias=False)
        self.conv.load_state_dict(conv.state_dict())
        self.norm = batch_norm(norm)
        with torch.no_grad():
            self.norm.bias.add_(add)

    def forward(self, x):
        return self.norm(self.conv(x))


class TwoBlocks(on.Module):
    """``strict_convnet`` with two blocks, each u * (v + 1), and a pooling of two after each."""

    def __init__(self, ours):
        super().__init__()
        first, second = (block.step for block in ours.blocks)
        self.u1, self.v1 = Branch(first.gate), Branch(first.body, add=1.0)
        self.u2, self.v2 = Branch(second.gate), Branch(second.body, add=1.0)
        self.multiply1, self.multiply2 = on.Mult(), on.Mult()
        self.norm1 = batch_norm(ours.blocks[0].norm)
        self.pool1, self.pool2 = on.AvgPool2d(2), on.AvgPool2d(2)
        self.flatten = on.Flatten()
        self.head = head_after(ours.blocks[1].norm, ours.fc)

    def forward(self, x):
        x = self.pool1(self.norm1(self.multiply1(self.u1(x), self.v1(x))))
        x = self.pool2(self.multiply2(self.u2(x), self.v2(x)))
        return self.head(self.flatten(x))


def batch_norm(ours):
    norm = on.BatchNorm2d(ours.num_features)
    norm.load_state_dict(ours.state_dict())
    return norm


def head_after(norm, head):
    """A classifier of averages of cells that does the batch norm before them as well."""
    gain = norm.weight / (norm.running_var + norm.eps).sqrt()
    shift = norm.bias - gain * norm.running_mean
    weight = head.weight.unflatten(1, (norm.num_features, -1))  # classes, channels, cells
    constant = head.bias + (weight * shift[:, None]).sum((1, 2))
    return linear((weight * gain[:, None]).flatten(1), constant)


def linear(matrix, constant):
    layer = on.Linear(matrix.shape[1], matrix.shape[0])
    with torch.no_grad():
        layer.weight.copy_(matrix.float())
        layer.bias.copy_(constant.float())
    return layer


def begin(ring, prime_bits, scale_bits):
    orion.init_scheme(
        {
            "ckks_params": {
                "LogN": int(math.log2(ring)),
                "LogQ": list(prime_bits[:-1]),
                "LogP": [prime_bits[-1]],
                "LogScale": scale_bits,
                "H": 192,
                "RingType": "Standard",
            },
            "orion": {
                "margin": 2,
                "embedding_method": "hybrid",
                "backend": "lattigo",
                "fuse_modules": True,
                "debug": False,
                "diags_path": "",
                "keys_path": "",
                "io_mode": "none",
            },
        }
    )


def measure(title, network, inputs, expected):
    """Encrypt and evaluate each input, and tell how long it takes and how far the outputs are off."""
    network.eval()  # which returns nothing here
    with torch.no_grad():
        assert torch.allclose(network(inputs).double(), expected.double(), rtol=1e-3, atol=1e-3), "not the same network"
    orion.fit(network, inputs[:1])
    level = orion.compile(network)
    network.he()
    seconds, deviation = [], 0.0
    for one, wanted in zip(inputs, expected, strict=True):
        entry = orion.encrypt(orion.encode(one[None], level))
        start = time.process_time()
        out = network(entry)
        seconds.append(time.process_time() - start)
        found = out.decrypt().decode().flatten()[: len(wanted)]
        deviation = max(deviation, float(np.abs(found.double().numpy() - wanted.double().numpy()).max()))
    print(
        f"orion-fhe, {title}: {np.median(seconds):.2f} s of CPU time an image (median of {len(inputs)}), "
        f"deviation {deviation:.1e} of outputs up to {expected.abs().max():.1f}, level {level}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("network", help="mnist_conv2, or the server's folder of pinets encrypt plan for a CCP")
    parser.add_argument("--images", type=int, default=5)
    args = parser.parse_args()
    if not Path(args.network).is_dir():
        ours, card = load_weights(args.network)
        inputs = card.prepare(torch.randint(256, (args.images, *card.input_shape), dtype=torch.uint8))
        begin(16384, CONV_BITS, CONV_BITS[1])
        with torch.no_grad():
            expected = ours(inputs)
        measure(args.network, TwoBlocks(ours), inputs, expected)
        return
    plan, circuit = read_circuit(args.network)
    begin(plan.parameters.ring, plan.parameters.prime_bits, plan.parameters.scale_bits)
    factors = circuit.products[0].factors[:2]
    images = torch.empty(args.images, circuit.size).uniform_(plan.low, plan.high)
    expected = Circuit(circuit.size, (Product(factors),), circuit.output)(images.double())
    measure("two factors", TwoFactors(factors, circuit.output), images.view(-1, *plan.input_shape), expected)


if __name__ == "__main__":
    main()
