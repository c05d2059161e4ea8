"""A polynomial network as a scikit-learn regressor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import MultiOutputMixin, RegressorMixin
from torch import Tensor

from pinets.estimators.base import PolynomialNet
from pinets.estimators.scaling import Scaling

__all__ = ["PolynomialNetRegressor"]

_MARGIN = 0.1  # share of the targets' range by which predictions may leave it


class PolynomialNetRegressor(MultiOutputMixin, RegressorMixin, PolynomialNet):  # type: ignore[misc]
    r"""Fit a polynomial of the features to one or several targets.

    .. math:: y = \mathrm{mean}_y + \mathrm{deviation}_y \, G(z), \qquad z = (x - \mathrm{mean}) / \mathrm{deviation}

    where :math:`G` is a Π-net of degree ``order``, fitted by the mean squared error of the standardised targets.

    Unless ``clip`` is None, predictions leave the range of the targets seen in ``fit`` by at most a tenth of it.

    The arguments are those of :class:`pinets.estimators.PolynomialNetClassifier`.

    Attributes:
        module_: The trained :class:`pinets.Polynomial`, from standardised features to standardised targets.
        feature_scaling_: The mean and scale of every feature.
        target_scaling_: The mean and scale of every target.
        order_: The degree chosen.
        weight_decay_: The penalty chosen.
        solver_: How it was fitted.
        error_: The leave-one-out mean squared error of the standardised targets (not with ``solver="adam"``).
        monotonic_penalty_: With ``monotonic_cst``, for each of its features the further penalty on products with others
            that the proof took; 1e6 leaves none.
        n_iter_: The epochs done.
        loss_curve_: The training loss of every epoch, for standardised targets, with ``solver="adam"``.
        validation_loss_curve_: The loss on held out samples after every epoch; empty without early stopping.
        validation_scores_: Their :math:`R^2`.
        n_features_in_: The number of features.
        feature_names_in_: Their names, if they had some.

    Example:
        >>> X = np.random.RandomState(0).uniform(-1, 1, size=(200, 3))
        >>> y = X[:, 0] * X[:, 1] + X[:, 2]
        >>> regressor = PolynomialNetRegressor().fit(X, y)
        >>> regressor.order_, regressor.score(X, y) > 0.99
        (2, True)
    """

    target_scaling_: Scaling
    _targets_accepted: ClassVar[Mapping[str, bool]] = {"multi_output": True, "y_numeric": True}

    def _check_samples(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[Any, np.ndarray, np.ndarray | None]:
        given = np.asarray(y)
        if given.dtype.kind not in "biufc":
            text = next((value for value in given.ravel() if isinstance(value, str)), None)
            if text is not None:
                raise ValueError(
                    f"y must hold numbers, got the text {str(text)!r}; PolynomialNetClassifier takes classes"
                )
        return super()._check_samples(X, y, sample_weight, reset=reset)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go through these samples once, from where the last call ended, at a constant learning rate.

        After a ``fit`` that was not by mini-batches it starts anew. The mean and deviation of the features and targets
        in the first call are kept for good: let it be a typical batch.
        """
        return self._partial_fit(X, y, sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """The polynomial's values, in the shape the targets had."""
        standard = self._outputs(X)
        outputs = self.target_scaling_.undo(standard.double()).numpy().astype(standard.numpy().dtype)
        if self._target_range is not None:
            np.clip(outputs, *self._target_range, out=outputs)
        return outputs if self._several_outputs else outputs[:, 0]

    def _learn_targets(self, y: np.ndarray, weights: np.ndarray | None, *, whole: bool = True) -> int:
        if y.dtype.kind not in "biuf":
            raise ValueError(f"y must hold numbers, got {y.dtype}")
        self._several_outputs = y.ndim > 1
        columns = y if y.ndim > 1 else y[:, None]
        self.target_scaling_ = Scaling.of("y", columns.astype(np.float64), weights, ignore_constant=False)
        self._target_range = None
        if whole and self.clip is not None:
            low, high = columns.min(axis=0).astype(np.float64), columns.max(axis=0).astype(np.float64)
            self._target_range = (low - _MARGIN * (high - low), high + _MARGIN * (high - low))
        return columns.shape[1]

    def _columns_of(self, y: np.ndarray) -> np.ndarray:
        return self._standard(y).numpy()

    def _encode(self, y: np.ndarray) -> Tensor:
        return self._standard(y).to(self.feature_scaling_.mean.dtype)

    def _check_targets(self, y: np.ndarray) -> None:
        outputs = len(self.target_scaling_.mean)
        if y.shape[1:] != ((outputs,) if self._several_outputs else ()):
            raise ValueError(f"y must keep the {outputs} columns of the first call, got shape {y.shape}")

    def _standard(self, y: np.ndarray) -> Tensor:
        self._check_targets(y)
        columns = y if y.ndim > 1 else y[:, None]
        return self.target_scaling_.apply(torch.tensor(columns, dtype=torch.float64))

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean(dim=1)

    def _score(self, outputs: Tensor, targets: Tensor) -> float:
        residual = (outputs - targets).square().sum(dim=0)
        total = (targets - targets.mean(dim=0)).square().sum(dim=0)
        return (1 - residual / total).mean().item()
