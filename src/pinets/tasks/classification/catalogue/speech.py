"""Speech Commands: ResNet34 against a Prodpoly-ResNet with fewer blocks."""

from __future__ import annotations

from dataclasses import replace

from pinets.engine.model import with_model
from pinets.engine.optimization import SGD, OneCycle, Plateau
from pinets.engine.recipe import Scale, recipe
from pinets.tasks.classification.recipe import ClassificationRecipe, Model, Speech

__all__ = ["speech_prodpoly_resnet34", "speech_resnet34"]


@recipe
def speech_resnet34(scale: Scale = "full") -> ClassificationRecipe:
    """ResNet34 on 32x32 mel-spectrograms of Speech Commands, the baseline.

    Paper: accuracy 0.951 +- 0.002, 21.3 M parameters.
    Ours: docs/results/speech-medium.md, at medium scale.
    Command: pinets compare speech_resnet34 speech_prodpoly_resnet34 --seeds 5

    Below full scale it is another task: the 12-class test set of Speech Commands v0.02, divided by speaker.
    """
    full = ClassificationRecipe(
        name="speech_resnet34",
        model=Model("resnet34_speech"),
        data=Speech("speech_commands", classes=35, augment=True),  # not in paper: the augmentation
        optimizer=SGD(
            lr=0.01,
            momentum=0.9,  # not in paper
            weight_decay=5e-4,  # not in paper
        ),
        schedule=Plateau(
            epochs=2,
            gamma=0.1,  # not in paper
        ),
        epochs=70,
        batch=128,  # not in paper
    )
    if scale == "full":
        return full
    small = _small(full)
    return replace(small, epochs=60, precision="bf16") if scale == "medium" else small


@recipe
def speech_prodpoly_resnet34(scale: Scale = "full") -> ClassificationRecipe:
    """Prodpoly-ResNet with blocks [3, 3, 3, 2] on Speech Commands, to match ResNet34 with 38 % fewer parameters.

    Paper: accuracy 0.951 +- 0.002, 13.2 M parameters.
    Ours: docs/results/speech-medium.md, at medium scale.
    Command: pinets compare speech_resnet34 speech_prodpoly_resnet34 --seeds 5
    """
    return with_model(speech_resnet34(scale), "prodpoly_resnet34_speech")


def _small(full: ClassificationRecipe) -> ClassificationRecipe:
    """A quarter of the width, and the set of 12 classes, which has 20 times fewer clips."""
    return replace(
        full,
        model=full.model.with_options(width=16),
        data=Speech("speech_commands_test12", classes=12, augment=True),
        optimizer=replace(full.optimizer, lr=0.1),
        schedule=OneCycle(rise=0.25, start=0.1, end=0.0),
        epochs=20,
        batch=64,
        checkpoint_every=100,
    )
