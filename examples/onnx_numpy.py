"""Classify an image with an exported network: onnxruntime and NumPy alone, no torch and no pinets.

    pinets export runs/mnist_ccp4-small/seed-0 --to onnx
    python examples/onnx_numpy.py runs/mnist_ccp4-small/seed-0/model.onnx digit.npy

The image is an array of pixels from 0 to 255 in the shape that the network takes; without one, noise is classified.
"""

import json
import os
import sys

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # or onnxruntime leaves files behind

import numpy as np
import onnxruntime


def main(path: str, image: str | None = None) -> None:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    known = json.loads(session.get_modelmeta().custom_metadata_map["pinets"])
    degree = f"a polynomial of degree {known['degree']}" if known["polynomial"] else "not a polynomial"
    print(f"takes {known['input_shape']}, {degree}")

    if image is None:
        pixels = np.random.default_rng(0).integers(0, 256, known["input_shape"])
    else:
        pixels = np.load(image, allow_pickle=False).reshape(known["input_shape"])
    (logits,) = session.run(None, {"input": prepare(pixels, known["preprocessing"])[None]})[0]

    odds = np.exp(logits - logits.max())
    odds /= odds.sum()
    names = known["classes"] or [f"class {number}" for number in range(len(odds))]
    for number in np.argsort(odds)[::-1][:3]:
        print(f"{names[number]}: {odds[number]:.1%}")


def prepare(pixels: np.ndarray, preprocessing: dict | str | None) -> np.ndarray:
    """What was done to the images in training."""
    x = pixels.astype(np.float32)
    if preprocessing is None:
        return x
    if not isinstance(preprocessing, dict) or preprocessing["kind"] != "Normalize":
        raise ValueError(f"this example is for images; before this network comes {preprocessing}")
    mean, std = (np.array(preprocessing[key], np.float32).reshape(-1, 1, 1) for key in ("mean", "std"))
    return (x / preprocessing["maximum"] - mean) / std


if __name__ == "__main__":
    main(*sys.argv[1:])
