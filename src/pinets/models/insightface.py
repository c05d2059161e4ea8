"""Weights of insightface's torch networks, for IR-ResNets and for their Π-nets.

The names are the same. A Π-net has more layers than the file, those of its products; their scale is set to 0, so that
it computes what the baseline does until it is trained.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from pinets.models.iresnet import IResNet
from pinets.models.join import Multiply

__all__ = ["insightface_keys", "load_insightface"]

EPS = 1e-5  # of insightface's batch norms in torch
_WRAPPERS = ("module.", "backbone.")  # what training scripts put before the names


def insightface_keys(model: IResNet) -> list[str]:
    """The names of a network's weights that insightface's network of the same depths has."""
    return [key for key in model.state_dict() if ".join." not in key]


def load_insightface(model: IResNet, state: Mapping[str, Tensor], *, eps: float = EPS) -> None:
    """Load a ``state_dict`` of insightface's ``iresnet``, or of an :class:`IResNet`, into a network or its Π-net.

    Args:
        model: With the depths, width and embedding of the file.
        state: As ``torch.load(path, weights_only=True)`` gives it.
        eps: Of the batch norms the weights were trained with; 2e-5 for those that come from MXNet or from pinets.

    Example:
        >>> import torch
        >>> from pinets.models import create_model
        >>> sizes = {"depths": (1, 1), "width": 8, "size": 32}
        >>> theirs = create_model("iresnet50", **sizes, eps=1e-5).eval()
        >>> ours = create_model("prodpoly_iresnet50", **sizes).eval()
        >>> load_insightface(ours, theirs.state_dict())
        >>> faces = torch.randn(2, 3, 32, 32)
        >>> torch.equal(ours(faces), theirs(faces))
        True
    """
    state = {_unwrapped(key): value for key, value in state.items()}
    expected = insightface_keys(model)
    # files of old versions of torch do not count batches
    missing = [key for key in expected if key not in state and not key.endswith(".num_batches_tracked")]
    strange = [key for key in state if key not in expected]
    if missing or strange:
        told = [f"they lack {key} ({len(missing)} in all)" for key in missing[:1]]
        told += [f"they have {key} ({len(strange)} in all), which the network has not" for key in strange[:1]]
        raise ValueError(f"not the weights of an IR-ResNet with depths {model.depths}: {', and '.join(told)}")
    model.load_state_dict(state, strict=False)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eps = eps
        if isinstance(module, Multiply):
            _silence(module)


def _unwrapped(key: str) -> str:
    for wrapper in _WRAPPERS:
        key = key.removeprefix(wrapper)
    return key


def _silence(join: Multiply) -> None:
    """Make the product's contribution 0, by the last layer on it."""
    last = [module for module in join.step.norm.modules() if isinstance(module, nn.BatchNorm2d)][-1]
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
