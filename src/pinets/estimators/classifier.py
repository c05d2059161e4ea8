"""A polynomial network as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor
from torch.nn import functional as F

from pinets.estimators.base import PolynomialNet

__all__ = ["PolynomialNetClassifier"]


@dataclass(kw_only=True, eq=False, repr=False)
class PolynomialNetClassifier(ClassifierMixin, PolynomialNet):  # type: ignore[misc]
    r"""Classify with a polynomial of the features.

    .. math:: p(y \mid x) = \mathrm{softmax}\, G(z), \qquad z = (x - \mathrm{mean}) / \mathrm{deviation}

    where :math:`G` is a Π-net of degree ``order`` with one output per class (for two classes, one output and the
    sigmoid). A feature that is constant in all samples of ``fit`` counts for nothing, whatever it is later.

    Args:
        order: The degree :math:`N` of the polynomial; ``"auto"`` chooses from 1, 2 and 3, and for few columns up to 5.
        solver: How to fit. ``"terms"`` writes the products of columns out and solves for their coefficients: all of
            them, or, where they are too many, those that correlate most with what lower orders leave. ``"rows"``
            solves for weights of the samples, for few samples with many features. ``"adam"`` trains a network of the
            given ``rank`` with mini-batches. ``"auto"`` decides by the size of the table (docs/estimators.md).
        weight_decay: The penalty: of the squared coefficients of standardised terms, beside a mean loss; with
            ``"adam"``, AdamW's decoupled decay of the matrices. ``"auto"`` chooses by cross-validation, and is 1 with
            ``"adam"``.
        clip: Polynomials bend sharply outside the data: features beyond this quantile of those seen in ``fit``, at
            either end, count as the quantile. 0 is their range; ``"auto"`` is the range or 0.01, whichever predicts
            better; None leaves the polynomial as it is everywhere.
        categorical_features: The columns that hold categories, as names, numbers or flags. ``"auto"`` takes those of
            data frames that hold categories or texts; None takes none.
        missing_values: ``"indicator"`` takes missing numbers for the mean and adds an indicator where ``fit`` saw some;
            ``"error"`` refuses them.
        monotonic_cst: For every feature 1 (the output rises with it), -1 (it falls) or 0, or a mapping from names to
            these; for two classes the output is the log-odds of the second. ``fit`` proves it for the whole range of
            the data and, with ``clip``, so for every input. Needs ``solver="terms"``.
        class_weight: Weights of the classes, as a dictionary, or ``"balanced"``.
        model: With ``"adam"``, how the coefficients are tied together: ``"ccp"`` (fewest weights), ``"ncp"`` or
            ``"ncp_skip"``.
        rank: With ``"adam"``, the size of the network's state.
        max_epochs: With ``"adam"``, how often ``fit`` goes through the samples, while the learning rate falls to zero.
        learning_rate: AdamW's, at the start; ``"auto"`` is 0.01, and beyond 64 features 0.01 * 64 / features, since
            the steps of all features add up.
        batch_size: Samples per step; ``"auto"`` is a sixteenth of them, but at least 32 and at most 256.
        early_stopping: With ``"adam"``, hold out samples, stop when the loss on them no longer falls, and keep the best
            weights.
        validation_fraction: The share of samples held out for early stopping.
        n_iter_no_change: The epochs without a lower loss after which early stopping ends the training.
        device: Where to compute, in torch's words. The weights have the type of the features, float32 or float64.
        random_state: With ``"adam"``, decides the first weights, the order of the samples and which are held out.
        verbose: With ``"adam"``, print a line after every epoch.

    Attributes:
        classes_: The labels, in the order of the outputs.
        module_: The trained :class:`pinets.Polynomial` of the standardised features, in evaluation mode.
        feature_scaling_: The mean and scale of every feature.
        order_: The degree chosen.
        weight_decay_: The penalty chosen.
        solver_: How it was fitted.
        error_: The mean log loss of samples left out, each approximated by one Newton step (not with ``"adam"``).
        monotonic_penalty_: With ``monotonic_cst``, for each of its features the further penalty on products with others
            that the proof took; 1e6 leaves none.
        n_iter_: The epochs done.
        loss_curve_: The training loss of every epoch, with ``solver="adam"``.
        validation_loss_curve_: The loss on held out samples after every epoch; empty without early stopping.
        validation_scores_: The accuracy on them.
        n_features_in_: The number of features.
        feature_names_in_: Their names, if they had some.

    Example:
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> classifier = PolynomialNetClassifier(order=2).fit(X[::2], y[::2])
        >>> classifier.score(X[1::2], y[1::2]) > 0.9
        True
        >>> classifier.to_polynomial().order  # an ordinary torch module, of the raw features
        2
    """

    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go through these samples once, from where the last call ended, at a constant learning rate.

        After a ``fit`` that was not by mini-batches it starts anew.

        Args:
            X: Features. The mean and deviation of those in the first call are kept for good: let it be a typical batch.
            y: Class labels.
            classes: All labels that will ever come; needed in the first call.
            sample_weight: How much each sample counts.
        """
        first = not hasattr(self, "module_")
        if not first and self.solver_ != "adam":
            classes = self.classes_ if classes is None else classes
            first = True
        if first and classes is None:
            raise ValueError("classes must be given in the first call of partial_fit")
        if not first and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must stay those of the first call, {self.classes_}, got {np.unique(classes)}")
        return self._partial_fit(X, y, sample_weight, classes)

    def decision_function(self, X: Any) -> np.ndarray:
        """The polynomial's values: one per class, or, for two classes, the log-odds of the second."""
        outputs = self._outputs(X).numpy()
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of ``classes_``."""
        outputs = self._outputs(X)
        if len(self.classes_) == 2:
            return torch.cat([torch.sigmoid(-outputs), torch.sigmoid(outputs)], dim=1).numpy()
        return torch.softmax(outputs, dim=1).numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each sample."""
        positions = _likeliest(self._outputs(X)).numpy()
        return self.classes_[positions]

    def _learn_targets(self, y: np.ndarray, weights: np.ndarray | None, *, whole: bool = True) -> int:
        check_classification_targets(y)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"a classifier needs samples of at least 2 classes, got 1 class: {classes.tolist()[0]!r}")
        self.classes_ = classes
        return 1 if len(classes) == 2 else len(classes)

    def _check_weights(self, sample_weight: Any, y: np.ndarray) -> np.ndarray | None:
        check_classification_targets(y)
        if self.class_weight is None:
            return super()._check_weights(sample_weight, y)
        weights = np.ones(len(y)) if sample_weight is None else super()._check_weights(sample_weight, y)
        return super()._check_weights(weights * compute_sample_weight(self.class_weight, y), y)

    def _columns_of(self, y: np.ndarray) -> np.ndarray:
        positions = self._encode(y).numpy()
        columns = np.eye(len(self.classes_))[positions]
        return columns[:, 1:] if len(self.classes_) == 2 else columns

    def _encode(self, y: np.ndarray) -> Tensor:
        """The position of every label in ``classes_``."""
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(f"y has labels that are not among the classes {self.classes_}: {unknown}")
        return torch.tensor(np.searchsorted(self.classes_, y))

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.shape[1] == 1:
            return F.binary_cross_entropy_with_logits(outputs[:, 0], targets.to(outputs), reduction="none")
        return F.cross_entropy(outputs, targets, reduction="none")

    def _score(self, outputs: Tensor, targets: Tensor) -> float:
        return (_likeliest(outputs) == targets).double().mean().item()


def _likeliest(outputs: Tensor) -> Tensor:
    return (outputs[:, 0] > 0).long() if outputs.shape[1] == 1 else outputs.argmax(dim=1)
