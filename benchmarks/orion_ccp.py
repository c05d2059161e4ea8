"""Part of a trained CCP under orion-fhe (Lattigo), for comparison with ``python -m benchmarks encrypted``.

orion-fhe 1.0.2 cannot place levels in a network that forks more than twice from one value, as a CCP of order 4 does (it
stops with "LevelDAG has no attribute topo_path"). So it evaluates the first two factors of the product and the head: a
lower bound of what the whole network would take it.

orion-fhe needs an environment of its own:

    python -m venv orion && orion/bin/pip install orion-fhe==1.0.2
    pinets encrypt plan runs/mnist_ccp4-small/seed-0 --packing latency --data DATA --out mnist
    PYTHONPATH=src orion/bin/python benchmarks/orion_ccp.py mnist/server --images 5

It takes the plan's ring and primes, so the modulus is the same. Its secret is sparser (Hamming weight 192, orion's
default) than the one the tables of security are for. Images are random, in the range of the plan.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import orion
import orion.nn as on
import torch

from pinets.encrypted import read_circuit
from pinets.encrypted.circuit import Circuit, Product


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


def linear(matrix, constant):
    layer = on.Linear(matrix.shape[1], matrix.shape[0])
    with torch.no_grad():
        layer.weight.copy_(matrix.float())
        layer.bias.copy_(constant.float())
    return layer


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("server", help="the server's folder of pinets encrypt plan")
    parser.add_argument("--images", type=int, default=5)
    args = parser.parse_args()
    plan, circuit = read_circuit(args.server)
    bits = plan.parameters.prime_bits
    orion.init_scheme(
        {
            "ckks_params": {
                "LogN": int(math.log2(plan.parameters.ring)),
                "LogQ": list(bits[:-1]),
                "LogP": [bits[-1]],
                "LogScale": plan.parameters.scale_bits,
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
    factors = circuit.products[0].factors[:2]
    network = TwoFactors(factors, circuit.output)
    network.eval()  # which returns nothing here
    images = torch.empty(args.images, circuit.size).uniform_(plan.low, plan.high)
    shaped = images.view(-1, *plan.input_shape)
    orion.fit(network, shaped)
    level = orion.compile(network)
    network.he()
    seconds, deviation, expected = [], 0.0, Circuit(circuit.size, (Product(factors),), circuit.output)(images.double())
    for image, wanted in zip(shaped, expected, strict=True):
        entry = orion.encrypt(orion.encode(image[None], level))
        start = time.perf_counter()
        out = network(entry)
        seconds.append(time.perf_counter() - start)
        found = out.decrypt().decode().flatten()[: plan.outputs]
        deviation = max(deviation, float(np.abs(found.double().numpy() - wanted.numpy()).max()))
    print(
        f"orion-fhe, two factors: {np.median(seconds):.3f} s an image (median of {args.images}), "
        f"deviation {deviation:.1e}, level {level}"
    )


if __name__ == "__main__":
    main()
