"""Why operations of torch are not polynomials, and what to use in their place."""

from __future__ import annotations

__all__ = ["BITS", "COMPLEX", "NORMALISED", "NOT_FINITE", "RANDOM", "UNKNOWN", "UNTRACED", "WHY"]

UNKNOWN = "is not known to be polynomial"
UNTRACED = "failed, so nothing can be said"
RANDOM = "draws random numbers"
NOT_FINITE = "has a constant that is NaN or infinite"
COMPLEX = f"{UNKNOWN}: it computes with complex numbers, and only real ones are understood here"
BITS = "reinterprets the bits of a number"

NORMALISED = "divides by the deviation of its own input; batch norm is affine at inference"
_PIECEWISE = "is piecewise linear; PowerSum, or a product of two linear maps, is a polynomial in its place"
_TRANSCENDENTAL = "is not a polynomial; PowerSum, or a product of two linear maps, is one in its place"
_MAXIMUM = "takes a maximum; average pooling is linear"
_COMPARES = "compares, and so jumps"
_CONTROL_FLOW = "is data-dependent control flow"

WHY = {
    **dict.fromkeys(
        ["tanh", "sigmoid", "gelu", "silu", "mish", "elu", "selu", "celu", "softplus", "log_sigmoid"], _TRANSCENDENTAL
    ),
    **dict.fromkeys(["exp", "log", "log1p", "expm1", "sin", "cos", "tan", "erf", "sqrt", "rsqrt"], _TRANSCENDENTAL),
    **dict.fromkeys(
        ["relu", "relu6", "leaky_relu", "prelu", "rrelu", "hardtanh", "hardswish", "hardsigmoid", "abs", "clamp"],
        _PIECEWISE,
    ),
    **dict.fromkeys(["clamp_min", "clamp_max", "softshrink", "hardshrink", "threshold"], _PIECEWISE),
    **dict.fromkeys(["eq", "ne", "gt", "ge", "lt", "le", "isclose", "sign", "heaviside"], _COMPARES),
    **dict.fromkeys(["floor", "ceil", "round", "trunc", "frac", "remainder", "fmod", "floor_divide"], "rounds"),
    **dict.fromkeys((f"max_pool{axes}d" for axes in (1, 2, 3)), _MAXIMUM),
    **dict.fromkeys((f"max_pool{axes}d_with_indices" for axes in (1, 2, 3)), _MAXIMUM),
    **dict.fromkeys((f"adaptive_max_pool{axes}d" for axes in (1, 2, 3)), _MAXIMUM),
    **dict.fromkeys(("layer_norm", "group_norm", "instance_norm"), NORMALISED),
    **dict.fromkeys(
        ("_native_batch_norm_legit", "_native_batch_norm_legit_functional"),
        "divides by the deviation of its own input; give it running statistics",
    ),
    "rms_norm": "divides by the norm of its own input; batch norm is affine at inference",
    **dict.fromkeys(("linalg_vector_norm", "norm", "std", "std_mean", "hypot", "cdist"), "takes a root"),
    **dict.fromkeys(("cosine_similarity", "renorm"), "divides by the norm of its own input"),
    "softmax": "divides exponentials",
    **dict.fromkeys(("log_softmax", "logsumexp"), "takes a logarithm of exponentials"),
    "scaled_dot_product_attention": "has a softmax, which divides exponentials",
    **dict.fromkeys(("gru", "lstm"), "has sigmoids and tanhs, which are not polynomials"),
    "rnn_tanh": "has tanhs, which are not polynomials",
    "rnn_relu": "has relus, which are piecewise linear",
    "reciprocal": "divides by a function of the input",
    "where": "chooses by a function of the input",
    **dict.fromkeys(("maximum", "max", "amax", "argmax"), "takes a maximum"),
    **dict.fromkeys(("minimum", "min", "amin", "argmin"), "takes a minimum"),
    **dict.fromkeys(("sort", "argsort", "topk", "median", "kthvalue"), "sorts"),
    "as_strided": "reads memory by strides, which says nothing of the function",
    "cond": _CONTROL_FLOW,
    "while_loop": _CONTROL_FLOW,
}
