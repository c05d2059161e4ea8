"""Published checkpoints of PolyNeXt: the names of their tensors, and loading them."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from pinets.models.polynext import Cell, PolyNeXt
from pinets.models.polynext_layers import AttentionUpdate, BilinearUpdate, ConvUpdate, PixelBatchNorm, RowSumNorm

__all__ = ["load_published_polynext", "published_name"]


def load_published_polynext(model: PolyNeXt, state: Mapping[str, Tensor]) -> None:
    """Load the weights of a checkpoint that has the published names.

    Args:
        model: A network of the same size, norm and attention.
        state: The tensors of the checkpoint by name.
    """
    ours = model.state_dict()
    names = {key: published_name(model, key) for key in ours}
    missing = sorted(set(names.values()) - set(state))
    unknown = sorted(key for key in set(state) - set(names.values()) if not key.endswith(_COUNTERS))
    if missing or unknown:
        raise ValueError(
            f"the checkpoint is of another network: {len(missing)} tensors are missing ({', '.join(missing[:3])}), "
            f"{len(unknown)} are unknown ({', '.join(unknown[:3])})"
        )
    model.load_state_dict({key: state[names[key]].reshape(value.shape) for key, value in ours.items()})


_COUNTERS = ("num_batches_tracked", "head.2.p")  # kept in checkpoints, used by nothing at inference
_LEAVES: dict[type[nn.Module], dict[str, str]] = {
    PixelBatchNorm: {"weight": "gamma_c", "pixel_weight": "gamma_hw"},
    RowSumNorm: {"weight": "gamma", "running_sum": "running_denom"},
    Cell: {"scale_before": "preprocess0.scale", "scale_last": "preprocess1.scale", "ratios": "skip_weight"},
}


def published_name(model: PolyNeXt, key: str) -> str:
    """The name of a tensor of the network in published checkpoints.

    Args:
        model: The network.
        key: A name of its ``state_dict``.
    """
    path, _, leaf = key.rpartition(".")
    leaf = _LEAVES.get(type(model.get_submodule(path)), {}).get(leaf, leaf)
    places = _published_places(model)
    place = max((ours for ours in places if path == ours or path.startswith(f"{ours}.")), key=len)
    return f"{places[place]}{path[len(place) :]}.{leaf}"


def _published_places(model: PolyNeXt) -> dict[str, str]:
    """Modules of the network, and where published networks keep them."""
    places = {"stem": "stem", "norm": "norm", "project": "proj", "fc": "head.3"}
    for number, reduced in enumerate(model.reductions):
        places |= {f"reductions.{reduced}.{half}": f"reductions.{2 * number + half}" for half in (0, 1)}
    for number, cell in enumerate(model.cells):
        assert isinstance(cell, Cell)
        here = f"cells.{number}"
        places |= {here: here, f"{here}.norm": f"{here}.postprocess"}
        position = 0  # of the next entry in a flat list of layers
        for count, update in enumerate(cell.updates):
            parts = _UPDATES[type(update)]
            if isinstance(update, AttentionUpdate) and isinstance(update.rows, RowSumNorm):
                parts = {**parts, "mix.1": "0.1.norm2", "mix.2": "0.1.proj"}
            for ours, theirs in parts.items():
                step, _, below = theirs.partition(".")
                place = f"{here}.ops.{position + int(step)}"
                places[f"{here}.updates.{count}.{ours}".rstrip(".")] = f"{place}.{below}".rstrip(".")
            position += 1 + max(int(theirs.partition(".")[0]) for theirs in parts.values())
    return places


_UPDATES: dict[type[nn.Module], dict[str, str]] = {
    ConvUpdate: {"expand": "0", "product.gate": "1", "product.body.0": "2", "product.norm": "3"},
    BilinearUpdate: {"expand": "0", "product.norm": "1"},
    AttentionUpdate: {
        "": "0.1",
        "norm": "0.0",
        "expand": "0.1.qkv",
        "query": "0.1.q_conv",
        "key": "0.1.k_conv",
        "value": "0.1.v_conv",
        "rows": "0.1.norm",
        "mix.0": "0.1.final_conv",
        "mix.1": "0.1.proj",
    },
}
