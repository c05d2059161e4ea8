"""Training by mini-batches: for tables too large for a closed form, and for partial_fit."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import torch
from sklearn.base import is_classifier
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from torch import nn

from pinets.engine.in_memory import History, Samples, adamw, fit
from pinets.estimators.columns import only_zero_or_one
from pinets.estimators.parameters import MODELS, check_device, check_parameters
from pinets.estimators.scaling import Scaling, farthest
from pinets.polynomial import Polynomial

__all__ = ["LARGEST_BATCH", "Descent"]

LARGEST_BATCH = 256  # rows made dense at a time, unless batch_size says otherwise

_FEW = 64  # up to this many features a learning rate of 0.01 did best

_drawing_weights = threading.Lock()


class Descent:
    """The methods of an estimator that train its network with AdamW."""

    module_: Polynomial
    solver_: str
    zero_or_one_: np.ndarray

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the parameters and checks of the estimator

    def _fit_by_descent(self, X: Any, y: np.ndarray, weights: np.ndarray | None) -> None:
        drawing = self._draw_seeds()
        rows, held_out = self._hold_out(y) if self.early_stopping else (np.arange(X.shape[0]), None)
        trained_on = weights
        if held_out is not None:
            trained_on = np.ones(X.shape[0]) if weights is None else weights.copy()
            trained_on[held_out] = 0
        outputs = self._learn_targets(y, trained_on)
        self._start(X, trained_on, outputs=outputs, drawing=drawing, whole=True)
        self._train(X, y, weights, rows, held_out, epochs=int(self.max_epochs), cosine=True)
        self._keep_sample(X)

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        check_parameters(self)
        if self.early_stopping:
            raise ValueError("early_stopping needs all samples at once: set it to False to use partial_fit")
        first = not hasattr(self, "module_") or self.solver_ != "adam"
        if first:
            self._forget()
        try:
            X, y, weights = self._check_samples(X, y, sample_weight, reset=first)
            if not first and self._structure() != self._made_with:
                raise ValueError(
                    f"model, order and rank were {self._made_with} in the first call and are {self._structure()} now: "
                    f"partial_fit goes on with what there is, and fit starts anew"
                )
            if first:
                self.solver_ = "adam"
                drawing = self._draw_seeds()
                outputs = self._learn_targets(y if classes is None else classes, weights, whole=False)
                self._start(X, weights, outputs=outputs, drawing=drawing, whole=False)
            for group in self._optimizer.param_groups:  # both may be set anew between calls
                group["lr"] = self._rate(X.shape[1])
                group["weight_decay"] = self._decay() if group["params"][0].ndim > 1 else 0.0
            self._train(X, y, weights, np.arange(X.shape[0]), epochs=1)
            if first:
                self._keep_sample(X)
            self.zero_or_one_ = self.zero_or_one_ & only_zero_or_one(X)
        except BaseException:
            if first:
                self._forget()
            raise
        return self

    def _structure(self) -> tuple[str, int, int]:
        return self.model, 2 if self.order == "auto" else int(self.order), int(self.rank)

    def _decay(self) -> float:
        return 1.0 if self.weight_decay == "auto" else float(self.weight_decay)

    def _rate(self, features: int) -> float:
        """Every weight takes a step of this size, and those of all features add up in each state."""
        return 0.01 * min(1.0, _FEW / features) if self.learning_rate == "auto" else float(self.learning_rate)

    def _draw_seeds(self) -> int:
        """Start the random generator for everything after the weights; return the seed of the weights."""
        random = check_random_state(self.random_state)
        drawing, shuffling = (int(seed) for seed in random.randint(np.iinfo(np.int32).max, size=2))
        self._generator = torch.Generator().manual_seed(shuffling)
        return drawing

    def _hold_out(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows to train on, and those to validate with."""
        seed = int(torch.randint(np.iinfo(np.int32).max, (), generator=self._generator))
        each_class = y if is_classifier(self) else None
        try:
            return train_test_split(
                np.arange(len(y)), test_size=self.validation_fraction, random_state=seed, stratify=each_class
            )
        except ValueError as error:
            raise ValueError(
                f"early_stopping needs samples to train on and to hold out, of each class, and "
                f"validation_fraction={self.validation_fraction} of {len(y)} does not give them: {error}"
            ) from error

    def _start(self, X: Any, weights: np.ndarray | None, *, outputs: int, drawing: int, whole: bool) -> None:
        """Everything that exists before the first step, from the shape and the scale of the features.

        Unless these are all samples (``whole``), constant columns may yet vary, and no range is known.
        """
        device, dtype = check_device(self.device), torch.float64 if X.dtype == np.float64 else torch.float32
        _, order, rank = self._structure()
        self.feature_scaling_ = Scaling.of(
            "X",
            X,
            weights,
            ignore_constant=whole,
            farthest=farthest(order, X.dtype),
            clip=whole and self.clip is not None,
        ).to(device, dtype)
        # Layers draw their weights from torch's global generator: borrow it, and give it back as it was.
        with _drawing_weights, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(drawing)
            module = MODELS[self.model](X.shape[1], outputs, order=order, rank=rank, dtype=dtype)
        # Start from a constant, so that what the samples leave open stays flat instead of random.
        nn.init.zeros_(cast("nn.Linear", module.head).weight)
        self.module_ = module.to(device).eval()
        with torch.no_grad():  # ignored columns get no gradient, so their weights stay at zero
            for view in (module.start, *(step.gate for step in module.steps)):
                cast("nn.Linear", view).weight[:, self.feature_scaling_.ignored] = 0
        self._optimizer = adamw(self.module_, learning_rate=self._rate(X.shape[1]), weight_decay=self._decay())
        self._made_with = self._structure()
        self.order_, self.weight_decay_ = order, self._decay()
        self.n_iter_ = 0
        self.loss_curve_: list[float] = []
        self.validation_loss_curve_: list[float] = []
        self.validation_scores_: list[float] = []

    def _train(
        self,
        X: Any,
        y: np.ndarray,
        weights: np.ndarray | None,
        rows: np.ndarray,
        held_out: np.ndarray | None = None,
        *,
        epochs: int,
        cosine: bool = False,
    ) -> None:
        parameter = next(self.module_.parameters())
        targets = self._encode(y).to(parameter.device)
        importance = None if weights is None else torch.tensor(weights, dtype=parameter.dtype)

        def samples(rows: np.ndarray) -> Samples:
            return Samples(
                lambda numbers: (self._standardised(X[numbers.numpy()]), targets[numbers]),
                torch.tensor(rows),
                importance,
            )

        # sixteen steps an epoch, unless that makes batches noisy or slow to learn from
        automatic = min(LARGEST_BATCH, max(32, math.ceil(len(rows) / 16)))
        history = fit(
            self.module_,
            samples(rows),
            self._loss,
            self._optimizer,
            epochs=epochs,
            batch_size=int(automatic if self.batch_size == "auto" else self.batch_size),
            generator=self._generator,
            cosine=cosine,
            validation=None if held_out is None else samples(held_out),
            score=self._score,
            patience=None if held_out is None else int(self.n_iter_no_change),
            on_epoch=self._report if self.verbose else None,
        )
        self.n_iter_ += history.epochs
        self.loss_curve_ += history.train_loss
        self.validation_loss_curve_ += history.validation_loss
        self.validation_scores_ += history.validation_score

    def _report(self, history: History) -> None:
        line = f"epoch {self.n_iter_ + history.epochs}: loss {history.train_loss[-1]:.4g}"
        if history.validation_loss:
            line += f", validation loss {history.validation_loss[-1]:.4g}, score {history.validation_score[-1]:.4f}"
        print(line)
