"""What the classifier and the regressor share: checks, standardised batches, training, and the raw polynomial."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from pinets.engine.in_memory import History, Samples, adamw, fit
from pinets.estimators.parameters import check_at_least_one, check_between, check_device, check_flag, check_model
from pinets.estimators.scaling import Scaling, fold
from pinets.polynomial import Polynomial

__all__ = ["PolynomialNet"]

FLOATS = (np.float64, np.float32)  # the first is what everything else is converted to
LARGEST_BATCH = 256  # rows made dense at a time, unless batch_size says otherwise

_FEW = 64  # features, up to which steps of 0.01 did best

_drawing_weights = threading.Lock()


class PolynomialNet(BaseEstimator, ABC):  # type: ignore[misc]
    """The base of both estimators, which add what depends on the kind of targets.

    The arguments are explained in :class:`pinets.estimators.PolynomialNetClassifier`.
    """

    module_: Polynomial
    _targets_accepted: Mapping[str, bool] = {}  # options of scikit-learn's validate_data

    def __init__(
        self,
        *,
        model: Literal["ccp", "ncp", "ncp_skip"] = "ccp",
        order: int = 2,
        rank: int = 32,
        max_epochs: int = 100,
        learning_rate: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        weight_decay: float = 1.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        device: str | torch.device = "cpu",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.order = order
        self.rank = rank
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @abstractmethod
    def _learn_targets(self, y: np.ndarray, weights: np.ndarray | None) -> int:
        """Remember what the targets are like, and say how many outputs they need."""

    @abstractmethod
    def _encode(self, y: np.ndarray) -> Tensor:
        """The targets as the loss wants them."""

    @abstractmethod
    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """How far each output is from its target: one value per sample."""

    @abstractmethod
    def _score(self, outputs: Tensor, targets: Tensor) -> float:
        """How good all outputs are together; higher is better."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from features (dense or sparse) and targets; what was learnt before is forgotten.

        Args:
            X: Features, of shape (samples, features); sparse matrices stay sparse.
            y: Targets.
            sample_weight: How much each sample counts: two is the sample given twice, zero is not given at all.
        """
        self._check_parameters()
        X, y, weights = self._check_samples(X, y, sample_weight, reset=True)
        drawing = self._draw_seeds()
        rows, held_out = self._hold_out(y) if self.early_stopping else (np.arange(X.shape[0]), None)
        trained_on = weights if held_out is None else _without(held_out, weights, X.shape[0])
        self._start(X, trained_on, outputs=self._learn_targets(y, trained_on), drawing=drawing, ignore_constant=True)
        self._train(X, y, weights, rows, held_out, epochs=int(self.max_epochs), cosine=True)
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        self._check_parameters()
        if self.early_stopping:
            raise ValueError("early_stopping needs all samples at once: set it to False to use partial_fit")
        first = not hasattr(self, "module_")
        X, y, weights = self._check_samples(X, y, sample_weight, reset=first)
        if not first and self._structure() != self._made_with:
            raise ValueError(
                f"model, order and rank were {self._made_with} in the first call and are {self._structure()} now: "
                f"partial_fit goes on with what there is, and fit starts anew"
            )
        if first:
            drawing = self._draw_seeds()
            outputs = self._learn_targets(y if classes is None else classes, weights)
            # What is constant so far may yet vary.
            self._start(X, weights, outputs=outputs, drawing=drawing, ignore_constant=False)
        for group in self._optimizer.param_groups:
            group["lr"] = self._rate(X.shape[1])  # may be set anew between calls
        self._train(X, y, weights, np.arange(X.shape[0]), epochs=1)
        return self

    def to_polynomial(self) -> Polynomial:
        """The trained polynomial of the raw features, in float64, with the standardisation folded into its matrices.

        It maps a tensor of features to decision values (the classifier) or predictions (the regressor): what to give
        to :func:`pinets.algebra.certify`, :func:`pinets.algebra.expand` and their like.
        """
        check_is_fitted(self, "module_")
        return fold(self.module_, self.feature_scaling_, getattr(self, "target_scaling_", None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        check_model(self.model)
        for name in ("order", "rank", "max_epochs", "n_iter_no_change"):
            check_at_least_one(name, getattr(self, name))
        if self.batch_size != "auto":
            check_at_least_one("batch_size", self.batch_size)
        if self.learning_rate != "auto":
            check_between("learning_rate", self.learning_rate, 0)
        check_between("weight_decay", self.weight_decay, 0, low_included=True)
        check_between("validation_fraction", self.validation_fraction, 0, 1)
        check_flag("early_stopping", self.early_stopping)
        check_device(self.device)

    def _check_samples(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """The samples as arrays, without those of weight zero: they must count as little as if never given."""
        X, y = validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype=FLOATS, **self._targets_accepted)
        if sparse.issparse(y):
            raise ValueError("y must be dense, got a sparse matrix; convert it with y.toarray()")
        if sample_weight is None:
            return X, y, None
        if isinstance(sample_weight, Real):
            sample_weight = np.full(X.shape[0], float(sample_weight))
        weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
        if weights.shape != (X.shape[0],):
            raise ValueError(f"sample_weight must have shape ({X.shape[0]},), got {weights.shape}")
        if (weights < 0).any():
            raise ValueError(f"sample_weight must not be negative, got {weights.min()}")
        counts = weights > 0
        if not counts.any():
            raise ValueError("sample_weight must have at least one entry that is not zero")
        return (X, y, weights) if counts.all() else (X[counts], y[counts], weights[counts])

    def _structure(self) -> tuple[str, int, int]:
        return self.model, int(self.order), int(self.rank)

    def _rate(self, features: int) -> float:
        """Every weight takes a step of this size, and those of all features add up in each state."""
        return 0.01 * min(1.0, _FEW / features) if self.learning_rate == "auto" else float(self.learning_rate)

    def _draw_seeds(self) -> int:
        """Start the generator of all that comes after the weights; return the seed of these."""
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

    def _start(self, X: Any, weights: np.ndarray | None, *, outputs: int, drawing: int, ignore_constant: bool) -> None:
        """Everything that exists before the first step, from the shape and the scale of the features."""
        device, dtype = check_device(self.device), torch.float64 if X.dtype == np.float64 else torch.float32
        self.feature_scaling_ = Scaling.of("X", X, weights, ignore_constant=ignore_constant).to(device, dtype)
        # Layers draw their weights from torch's global generator: borrow it, and give it back as it was.
        with _drawing_weights, torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(drawing)
            module = check_model(self.model)(
                X.shape[1], outputs, order=int(self.order), rank=int(self.rank), dtype=dtype
            )
        # Start from a constant, so that what the samples leave open stays flat instead of random.
        nn.init.zeros_(cast("nn.Linear", module.head).weight)
        self.module_ = module.to(device).eval()
        with torch.no_grad():  # what is ignored has no gradient either, and stays at zero
            for view in (module.start, *(step.gate for step in module.steps)):
                cast("nn.Linear", view).weight[:, self.feature_scaling_.ignored] = 0
        self._optimizer = adamw(self.module_, learning_rate=self._rate(X.shape[1]), weight_decay=self.weight_decay)
        self._made_with = self._structure()
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

        history = fit(
            self.module_,
            samples(rows),
            self._loss,
            self._optimizer,
            epochs=epochs,
            batch_size=_automatic_batch_size(len(rows)) if self.batch_size == "auto" else int(self.batch_size),
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

    def _standardised(self, rows: Any) -> Tensor:
        """Rows of the features as the module wants them: dense, on its device and standardised."""
        dense = rows.toarray() if sparse.issparse(rows) else np.array(rows, order="C")  # torch wants writable memory
        mean = self.feature_scaling_.mean
        return self.feature_scaling_.apply(torch.from_numpy(dense).to(mean.device, mean.dtype))

    def _outputs(self, X: Any) -> Tensor:
        """The module's outputs for raw features, one batch at a time."""
        check_is_fitted(self, "module_")
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        head = cast("nn.Linear", self.module_.head)
        # Filled in place: a list of small results would lie between the large freed batches and split the memory up.
        outputs = torch.empty(X.shape[0], head.out_features, dtype=head.weight.dtype)
        with torch.no_grad():
            for rows in gen_batches(X.shape[0], LARGEST_BATCH):
                outputs[rows] = self.module_(self._standardised(X[rows])).cpu()
        return outputs


def _without(rows: np.ndarray, weights: np.ndarray | None, samples: int) -> np.ndarray:
    """The weights of all samples, with those of some rows zero."""
    rest = np.ones(samples) if weights is None else weights.copy()
    rest[rows] = 0
    return rest


def _automatic_batch_size(samples: int) -> int:
    """Sixteen steps an epoch, unless that makes batches noisy (under 32) or slow to learn from."""
    return min(LARGEST_BATCH, max(32, math.ceil(samples / 16)))
