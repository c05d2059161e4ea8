"""Autoencoding faces (COMA) and bodies (DFAUST, motions): spiral networks, Spiral Π-nets, the paper's other networks.

The recipes of a set differ in their model only. ``NAME_linear`` has no activations.
"""

from __future__ import annotations

from dataclasses import replace

from pinets.engine.optimization import Adam, Exponential, OneCycle
from pinets.engine.recipe import Scale, recipe
from pinets.models.mesh_graph import OperatorName
from pinets.models.spiral import LayerName, SpiralActivation
from pinets.tasks.meshes.geometry.hierarchy import HierarchyPlan
from pinets.tasks.meshes.recipe import PCA, AutoencodingRecipe, Graph, Shapes, Spiral, with_widths

__all__ = ["COMPARED_MEDIUM", "COMPARED_SMALL", "OPERATORS", "SETS", "models", "short_name"]

_COMA = AutoencodingRecipe(
    name="coma",
    model=Spiral(),
    data=Shapes("coma", vertices=5023),
    hierarchy=HierarchyPlan(lengths=(9, 9, 9, 9, 8), references=(3567, 4051, 4597)),  # not in paper
    latent=16,  # not in paper
    optimizer=Adam(lr=1e-3, weight_decay=5e-5),  # not in paper
    schedule=Exponential(0.99),  # not in paper
    epochs=300,  # not in paper
    batch=16,  # not in paper
)

_DFAUST = replace(
    _COMA,
    name="dfaust",
    data=Shapes("dfaust", vertices=6890),
    hierarchy=HierarchyPlan(  # not in paper; the lengths are those of the published rule on a body of this topology
        hops=(2, 2, 1, 1, 1), dilation=(2, 2, 1, 1, 1), lengths=(25, 26, 9, 9, 9), references=(414,)
    ),
)

_MOTIONS = replace(  # not in paper: in DFAUST's place, for those who do not have it
    _DFAUST,
    name="motions",
    data=Shapes("mesh_motions", vertices=3400),
    hierarchy=HierarchyPlan(hops=(2, 2, 1, 1, 1), dilation=(2, 2, 1, 1, 1), lengths=(26, 28, 10, 10, 9)),
)

_FACE_WIDTHS = ((3, 16, 16, 16, 32), (32, 32, 16, 16, 3))  # not in paper
_BODY_WIDTHS = ((3, 16, 32, 64, 128), (128, 64, 32, 32, 16, 3))  # not in paper
_WIDTHS = {"coma": _FACE_WIDTHS, "dfaust": _BODY_WIDTHS, "motions": _BODY_WIDTHS}
_SMALL_DATA = {"coma": "mesh_faces", "dfaust": "mesh_bodies", "motions": "mesh_motions"}
_MEDIUM_DATA = {"coma": "mesh_heads", "motions": "mesh_motions"}  # shapes that are no linear model

_TITLES = {"coma": "faces (COMA)", "dfaust": "bodies (DFAUST)", "motions": "bodies in motion"}

SETS = {"coma": _COMA, "dfaust": _DFAUST, "motions": _MOTIONS}

# the models that are compared at small scale: all without activations, and with ELU the baseline and one more
COMPARED_SMALL = (
    "pca",
    "spiral_linear",
    *(f"spiral_{layer}_{order}_linear" for layer in ("ncp", "ncp_skip", "simple") for order in (2, 3, 4)),
    "spiral",
    "spiral_ncp_3",
)
# at medium scale of bodies in motion: with ELU all orders of NCP
COMPARED_MEDIUM = (*COMPARED_SMALL[:-1], *(f"spiral_ncp_{order}" for order in (2, 3, 4)))

_POLYNOMIALS: dict[LayerName, str] = {"ncp": "NCP", "ncp_skip": "NCP-Skip", "simple": "simple"}
# the operators that take the place of spiral convolutions
OPERATORS: dict[OperatorName, str] = {"gat": "GAT", "feastnet": "FeaStNet", "monet": "MoNet", "chebnet": "ChebNet"}


def models() -> dict[str, Spiral | Graph | PCA]:
    """Every model, by the end of its recipe's name."""
    found: dict[str, Spiral | Graph | PCA] = {"pca": PCA()}
    activations: dict[str, SpiralActivation] = {"": "elu", "_linear": "none"}
    for ending, activation in activations.items():
        found[f"spiral{ending}"] = Spiral(activation=activation)
        for layer in _POLYNOMIALS:
            for order in (2, 3, 4):
                found[f"spiral_{layer}_{order}{ending}"] = Spiral(layer, order, activation)
    return found | {operator: Graph(operator) for operator in OPERATORS}


def short_name(ending: str) -> str:
    """The name of a model on a page, by the end of its recipe's name.

    >>> short_name("spiral_ncp_skip_3_linear"), short_name("spiral"), short_name("monet")
    ('NCP-Skip, order 3', 'Spiral, ELU', 'MoNet')
    """
    model = models()[ending]
    if isinstance(model, PCA):
        return "PCA"
    if isinstance(model, Graph):
        return OPERATORS[model.operator]
    name = "Spiral" if model.layer == "plain" else f"{_POLYNOMIALS[model.layer]}, order {model.order}"
    return name if model.activation == "none" else f"{name}, ELU"


def small(full: AutoencodingRecipe) -> AutoencodingRecipe:
    """Shapes with 850 vertices, in place of COMA and DFAUST those of other models, for 10 epochs."""
    return replace(
        full,
        model=with_widths(full.model, *_FACE_WIDTHS),
        data=Shapes(_SMALL_DATA[full.name], vertices=850, reduced=True),
        hierarchy=HierarchyPlan(factors=(4, 4, 2, 2), lengths=(9, 9, 9, 9, 9)),
        optimizer=Adam(lr=6e-3),  # better on validation than 3e-3 for all models tried; twice as much diverges
        clip=1.0,
        schedule=OneCycle(rise=0.1, start=0.1, end=0.0),
        epochs=10,
        checkpoint_every=1000,
    )


def medium(full: AutoencodingRecipe) -> AutoencodingRecipe:
    """As :func:`small`, for 40 epochs; in place of COMA heads in motion, with 8 numbers, as these have few angles."""
    reduced = small(full)
    return replace(
        reduced,
        data=replace(reduced.data, name=_MEDIUM_DATA[full.name]),
        latent=8 if full.name == "coma" else full.latent,
        epochs=40,
    )


def _register(data: str, ending: str, model: Spiral | Graph | PCA) -> None:
    name = f"{data}_{ending}"
    page = f"{data}_operators" if ending in OPERATORS else data
    if data == "motions" and ending in COMPARED_MEDIUM:
        ours = "docs/results/motions-medium.md, at medium scale"
    elif data != "motions" and (ending in COMPARED_SMALL or ending in OPERATORS):
        ours = f"docs/results/{page}-small.md, at small scale"
    else:
        ours = "not measured yet"
    in_between = f", at medium scale of {_MEDIUM_DATA[data]}" if data in _MEDIUM_DATA else ""
    other = name if ending != "spiral_linear" else f"{data}_pca"

    def make(scale: Scale = "full") -> AutoencodingRecipe:
        full = replace(SETS[data], model=with_widths(model, *_WIDTHS[data]))
        if scale == "medium" and data in _MEDIUM_DATA:
            return medium(full)
        return small(full) if scale == "small" else full

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""{short_name(ending)}: an autoencoder of {_TITLES[data]}.

    Paper: only as a point in a figure, without a number.
    Ours: {ours}.
    Command: pinets compare {data}_spiral_linear {other} --scale small --seeds 2

    At small scale the shapes are those of {_SMALL_DATA[data]}{in_between}, reduced to 850 vertices.
    """
    recipe(make)


for _data in SETS:
    for _ending, _model in models().items():
        _register(_data, _ending, _model)
