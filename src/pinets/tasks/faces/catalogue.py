"""Faces: IR-ResNet50 against Prodpoly-IR-ResNet50, with ArcFace."""

from __future__ import annotations

from dataclasses import replace

from pinets.engine.model import with_model
from pinets.engine.optimization import SGD, MultiStep, OneCycle
from pinets.engine.recipe import Scale, recipe
from pinets.tasks.faces.arcface import ArcFace
from pinets.tasks.faces.recipe import Embedder, FacePack, FaceRecipe, LfwPeople

__all__ = [
    "lfw_iresnet",
    "lfw_prodpoly_iresnet",
    "ms1m_arcface_prodpoly_resnet50",
    "ms1m_arcface_resnet50",
]

_STEPS_PER_EPOCH = 5_179_510 // 512  # of MS1M-RetinaFace; the paper counts its milestones in steps


@recipe
def ms1m_arcface_resnet50(scale: Scale = "full") -> FaceRecipe:
    """IR-ResNet50 with ArcFace on MS1M-RetinaFace, 93,431 people, the baseline.

    Paper: LFW 99.733, CFP-FF 99.871, CFP-FP 98.800, CPLFW 92.433, AgeDB-30 98.233, CALFW 95.917 %; 174.5 MB.
    Ours: not measured yet.
    Command: torchrun --nproc-per-node 8 --no-python pinets train ms1m_arcface_resnet50

    Below full scale it is another task: the people of LFW's view 1, as lfw_iresnet.
    """
    full = FaceRecipe(
        name="ms1m_arcface_resnet50",
        model=Embedder("iresnet50"),
        data=FacePack("ms1m-retinaface-t1"),
        loss=ArcFace(scale=64.0, margin=0.5),
        optimizer=SGD(
            lr=0.1,  # not in paper
            momentum=0.9,
            weight_decay=5e-4,
        ),
        schedule=MultiStep(
            tuple(steps / _STEPS_PER_EPOCH for steps in (100_000, 160_000, 220_000)),
            gamma=0.1,  # not in paper
        ),
        epochs=30,
        batch=512,
        checkpoint_every=2000,
    )
    return full if scale == "full" else _reduced(full, scale)


@recipe
def ms1m_arcface_prodpoly_resnet50(scale: Scale = "full") -> FaceRecipe:
    """Prodpoly-IR-ResNet50 with ArcFace on MS1M-RetinaFace, all else as the baseline.

    Paper: LFW 99.833, CFP-FF 99.886, CFP-FP 98.986, CPLFW 93.317, AgeDB-30 98.467, CALFW 96.233 %; 181.8 MB.
    Ours: not measured yet.
    Command: torchrun --nproc-per-node 8 --no-python pinets train ms1m_arcface_prodpoly_resnet50
    """
    return with_model(ms1m_arcface_resnet50(scale), "prodpoly_iresnet50")


@recipe
def lfw_iresnet(scale: Scale = "full") -> FaceRecipe:
    """IR-ResNet on the people of LFW's view 1, from nothing; pairs of other people are verified.

    Paper: not in it.
    Ours: docs/results/faces-small.md, at small scale.
    Command: pinets compare lfw_iresnet lfw_prodpoly_iresnet --scale small
    """
    full = replace(
        ms1m_arcface_resnet50("full"),
        model=Embedder("iresnet50", {"size": 64}),  # not in paper
        data=LfwPeople(),  # not in paper
        schedule=OneCycle(),  # not in paper
        epochs=100,  # not in paper
        batch=128,  # not in paper
    )
    return full if scale == "full" else _reduced(full, scale)


@recipe
def lfw_prodpoly_iresnet(scale: Scale = "full") -> FaceRecipe:
    """Prodpoly-IR-ResNet on the people of LFW's view 1, all else as the baseline.

    Paper: not in it.
    Ours: docs/results/faces-small.md, at small scale.
    Command: pinets compare lfw_iresnet lfw_prodpoly_iresnet --scale small
    """
    return with_model(lfw_iresnet(scale), "prodpoly_iresnet50")


def _reduced(full: FaceRecipe, scale: Scale) -> FaceRecipe:
    """A narrow network on the people of LFW's view 1 with two images or more."""
    return replace(
        full,
        model=replace(full.model, options={"size": 64, "width": 8, "depths": (1, 2, 2, 1), "embedding": 128}),
        data=LfwPeople(smallest=2, shift=3.0, turn=8.0, grow=0.08, light=0.2),
        loss=ArcFace(scale=32.0, margin=0.2),
        schedule=OneCycle(rise=0.25, start=0.1, end=0.0),
        epochs=90 if scale == "medium" else 30,
        batch=128,
        checkpoint_every=200,
        channels_last=False,  # its shortcuts are too narrow for that on a CPU (pinets.engine.model)
    )
