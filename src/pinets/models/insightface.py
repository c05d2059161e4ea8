"""Load weights of insightface's torch networks into IR-ResNets and their Π-nets.

The names are the same. A Π-net has further layers, those of its products; their scale is set to 0, so the Π-net
computes what the baseline does until it is trained.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from pinets._storage import difference
from pinets.models._iresnet import IResNet
from pinets.models.residual import Multiply

__all__ = ["insightface_keys", "load_insightface"]

EPS = 1e-5  # of insightface's batch norms in torch
_WRAPPERS = ("module.", "backbone.")  # prefixes that training scripts add to the names


def insightface_keys(model: IResNet) -> list[str]:
    """The keys of a network's state dict that insightface's network of the same depths has."""
    return [key for key in model.state_dict() if ".join." not in key]


def load_insightface(model: IResNet, state: Mapping[str, Tensor], *, eps: float = EPS) -> None:
    """Load a ``state_dict`` of insightface's ``iresnet``, or of an :class:`IResNet`, into a network or its Π-net.

    Args:
        model: A network with the depths, width and embedding of the weights.
        state: The state dict, from ``torch.load(path, weights_only=True)``.
        eps: Epsilon of the batch norms in training: 2e-5 for weights from MXNet or pinets.

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
    for wrapper in _WRAPPERS:
        state = {key.removeprefix(wrapper): value for key, value in state.items()}
    expected = {key: model.state_dict()[key] for key in insightface_keys(model)}
    for key in [key for key in expected if key.endswith(".num_batches_tracked") and key not in state]:
        del expected[key]  # files from old versions of torch do not have it
    if found := difference(expected, state):
        raise ValueError(f"not the weights of an IR-ResNet with depths {model.depths}: {found}")
    model.load_state_dict(state, strict=False)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eps = eps
        if isinstance(module, Multiply):  # its product starts at zero
            last = [inner for inner in module.step.norm.modules() if isinstance(inner, nn.BatchNorm2d)][-1]
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
