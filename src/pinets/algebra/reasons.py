"""Why operations of torch are no polynomials, and what is one in their place."""

from __future__ import annotations

__all__ = ["NORMALISED", "RANDOM", "UNKNOWN", "UNTRACED", "WHY"]

UNKNOWN = "is not known to be polynomial"
UNTRACED = "failed, so nothing can be said"
RANDOM = "draws random numbers"

NORMALISED = "divides by the deviation of its own input; batch norm is affine at inference"
_PIECEWISE = "is piecewise linear; PowerSum, or a product of two linear maps, is a polynomial in its place"
_TRANSCENDENTAL = "is not a polynomial; PowerSum, or a product of two linear maps, is one in its place"
_MAXIMUM = "takes a maximum; average pooling is linear"

WHY = {
    **dict.fromkeys(
        ["tanh", "sigmoid", "gelu", "silu", "mish", "elu", "selu", "celu", "softplus", "log_sigmoid"], _TRANSCENDENTAL
    ),
    **dict.fromkeys(["exp", "log", "log1p", "expm1", "sin", "cos", "tan", "erf", "sqrt", "rsqrt"], _TRANSCENDENTAL),
    **dict.fromkeys(
        ["relu", "relu6", "leaky_relu", "prelu", "rrelu", "hardtanh", "hardswish", "hardsigmoid", "abs", "clamp"],
        _PIECEWISE,
    ),
    **dict.fromkeys((f"max_pool{axes}d" for axes in (1, 2, 3)), _MAXIMUM),
    **dict.fromkeys((f"max_pool{axes}d_with_indices" for axes in (1, 2, 3)), _MAXIMUM),
    **dict.fromkeys((f"adaptive_max_pool{axes}d" for axes in (1, 2, 3)), _MAXIMUM),
    **dict.fromkeys(("layer_norm", "group_norm", "instance_norm"), NORMALISED),
    "_native_batch_norm_legit": "divides by the deviation of its own input; give it running statistics",
    "rms_norm": "divides by the norm of its own input; batch norm is affine at inference",
    "linalg_vector_norm": "takes a root",
    "softmax": "divides exponentials",
    "log_softmax": "takes a logarithm of exponentials",
    "scaled_dot_product_attention": "has a softmax, which divides exponentials",
    **dict.fromkeys(("gru", "lstm"), "has sigmoids and tanhs, which are no polynomials"),
    "rnn_tanh": "has tanhs, which are no polynomials",
    "rnn_relu": "has relus, which are piecewise linear",
    "reciprocal": "divides by a function of the input",
    "where": "chooses by a function of the input",
    "maximum": "takes a maximum",
    "minimum": "takes a minimum",
    "item": "reads a number out of the input: data-dependent control flow",
    "cond": "is data-dependent control flow",
    "while_loop": "is data-dependent control flow",
}
