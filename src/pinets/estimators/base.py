"""The base class of classifier and regressor: checks, encoded and standardised columns, fitting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import NoneType
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_array, check_consistent_length, gen_batches
from sklearn.utils.validation import _check_y, check_is_fitted, validate_data
from torch import Tensor, nn

from pinets.engine.in_memory import adamw
from pinets.estimators.closed import automatic_orders, choose_solver, clip_rare_values, distinct
from pinets.estimators.columns import Columns, categorical_positions, has_missing, is_frame, numbers, only_zero_or_one
from pinets.estimators.descent import LARGEST_BATCH, Descent
from pinets.estimators.exact import WORTH_PER_DEGREE, TermFit, fit_terms
from pinets.estimators.factored import network_of
from pinets.estimators.kernel import RowFit, fit_rows
from pinets.estimators.monotone import Box, constrain, read_constraints
from pinets.estimators.parameters import check_device, check_parameters
from pinets.estimators.persistence import arrays_of, network_from, network_state, tensors_of
from pinets.estimators.reading import SAMPLE, SAMPLE_CELLS, Reading
from pinets.estimators.scaling import Scaling, farthest, fold
from pinets.estimators.solve import rows_to_choose_by
from pinets.estimators.terms import allowed_products
from pinets.polynomial import Polynomial

__all__ = ["PolynomialNet"]

FLOATS = (np.float64, np.float32)  # the first is what everything else is converted to
_LEAST_WEIGHT = 1e-30  # relative to the largest weight: a smaller one changes no sum

_PRIVATE_STATE = ("_generator", "_optimizer", "_made_with", "_several_outputs", "_target_range")


@dataclass(kw_only=True, eq=False, repr=False)
class PolynomialNet(Descent, Reading, BaseEstimator, ABC):  # type: ignore[misc]
    """The base of both estimators, which add what depends on the kind of targets.

    The arguments are explained in :class:`pinets.estimators.PolynomialNetClassifier`.
    """

    order: int | Literal["auto"] = "auto"
    solver: Literal["auto", "terms", "rows", "adam"] = "auto"
    weight_decay: float | Literal["auto"] = "auto"
    clip: float | Literal["auto"] | None = "auto"
    categorical_features: Any = "auto"
    missing_values: Literal["indicator", "error"] = "indicator"
    monotonic_cst: Any = None
    model: Literal["ccp", "ncp", "ncp_skip"] = "ccp"
    rank: int = 32
    max_epochs: int = 100
    learning_rate: float | Literal["auto"] = "auto"
    batch_size: int | Literal["auto"] = "auto"
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    device: str | torch.device = "cpu"
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    _targets_accepted: ClassVar[Mapping[str, bool]] = {}  # options of scikit-learn's validate_data

    @abstractmethod
    def _learn_targets(self, y: np.ndarray, weights: np.ndarray | None, *, whole: bool = True) -> int:
        """Learn the kind and scale of the targets, and return the number of outputs they need.

        ``whole`` is False where more samples may follow.
        """

    @abstractmethod
    def _encode(self, y: np.ndarray) -> Tensor:
        """The targets as the loss wants them."""

    @abstractmethod
    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each sample."""

    @abstractmethod
    def _score(self, outputs: Tensor, targets: Tensor) -> float:
        """The score of all outputs together; higher is better."""

    @abstractmethod
    def _columns_of(self, y: np.ndarray) -> np.ndarray:
        """The targets as columns of numbers: standardised, or zeros and ones for classes."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from features and targets; what was learnt before is forgotten, also if this fails.

        Args:
            X: Features, of shape (samples, features): an array, a data frame, or a sparse matrix, which stays sparse
                where it is large.
            y: Targets.
            sample_weight: How much each sample counts: two is the sample given twice, zero is not given at all.
        """
        self._forget()
        try:
            check_parameters(self)
            X, y, weights = self._check_samples(X, y, sample_weight, reset=True)
            self.solver_ = choose_solver(self.solver, self.order, *X.shape)
            if self.solver_ == "adam":
                if self.monotonic_cst is not None:
                    raise ValueError("monotonic_cst needs solver='terms', and this table is fitted by mini-batches")
                self._fit_by_descent(X, y, weights)
            else:
                self._fit_closed(X, y, weights)
        except BaseException:
            self._forget()
            raise
        return self

    def _fit_closed(self, X: Any, y: np.ndarray, weights: np.ndarray | None) -> None:
        dtype = X.dtype
        columns, y, share, unit = distinct(X.toarray() if sparse.issparse(X) else X, y, weights)
        self._learn_targets(y, share)
        targets = self._columns_of(y)
        columns = columns.astype(np.float64)
        if self.clip is not None:
            columns = self._cut_rare_values(columns, targets, share, unit, dtype)
        scaling, z, fitted = self._solve(columns, targets, share, unit, dtype)
        device, own_type = check_device(self.device), torch.float64 if dtype == np.float64 else torch.float32
        scaling = scaling.to("cpu", own_type)
        if self.monotonic_cst is not None:
            fitted = self._constrain(fitted, z, share, self._box(scaling), dtype)
        module = network_of(fitted, z.shape[1], own_type)
        self.order_, self.weight_decay_, self.error_ = fitted.order, fitted.strength, fitted.error
        self.feature_scaling_ = scaling.to(device, own_type)
        self.n_iter_ = 1
        self.module_ = module.to(device)
        self._keep_sample(columns)

    def _cut_rare_values(
        self, columns: np.ndarray, targets: np.ndarray, share: np.ndarray, unit: float, dtype: Any
    ) -> np.ndarray:
        """The columns with their ends cut as ``clip`` says; ``"auto"`` does not cut if the fit explains the ends.

        :func:`clip_rare_values` decides by a sum of cubics. This fit may explain more, such as a product of two
        columns, which cutting would spoil. Cutting protects against later outliers, so the fit without it must be
        clearly better.
        """
        assert self.clip is not None
        cut = clip_rare_values(columns, targets, share, self.clip, unit)
        if self.clip != "auto" or cut is columns:
            return cut
        some = rows_to_choose_by(len(columns))
        weights = share[some] / share[some].sum()
        before, after = (
            self._solve(each[some], targets[some], weights, unit / share[some].sum(), dtype)[2].error
            for each in (columns, cut)
        )
        return columns if before < after / 2 else cut

    def _solve(
        self, columns: np.ndarray, targets: np.ndarray, share: np.ndarray, unit: float, dtype: Any
    ) -> tuple[Scaling, np.ndarray, TermFit | RowFit]:
        """The scaling of the columns, the scaled columns, and their fitted polynomial."""
        orders = automatic_orders(columns.shape[1]) if self.order == "auto" else (int(self.order),)
        scaling = Scaling.of(
            "X",
            columns.astype(dtype),
            share,
            ignore_constant=True,
            farthest=farthest(orders[-1], dtype),
            clip=self.clip is not None,
        )
        z = scaling.apply(torch.from_numpy(columns)).numpy()
        options: dict[str, Any] = {
            "orders": orders,
            "strength": None if self.weight_decay == "auto" else float(self.weight_decay),
            "classify": is_classifier(self),
            "unit": unit,
        }
        if self.solver_ == "rows":
            return scaling, z, fit_rows(z, targets, share, **options)
        allowed = allowed_products(z, self.columns_.sources)
        return scaling, z, fit_terms(z, targets, share, allowed, **options)

    def _constrain(
        self, fitted: TermFit | RowFit, z: np.ndarray, share: np.ndarray, box: Box, dtype: Any
    ) -> TermFit | RowFit:
        """The fit with the signs of ``monotonic_cst``, proven."""
        columns = self.columns_
        wanted = read_constraints(
            self.monotonic_cst, self.raw_names(), [number not in columns.levels for number in range(columns.width)]
        )
        first = {int(source): column for column, source in reversed(list(enumerate(columns.sources)))}
        signs = {first[number]: sign for number, sign in wanted.items()}
        if not signs:
            return fitted
        if len(fitted.constant) > 1 or not isinstance(fitted, TermFit) or self.clip is None:
            raise ValueError(
                f"monotonic_cst takes one target or two classes, solver='terms' and a clip, got {len(fitted.constant)} "
                f"outputs, solver={self.solver_!r} and clip={self.clip!r}"
            )
        fitted, penalties = constrain(
            fitted,
            z,
            share,
            signs,
            box,
            classify=is_classifier(self),
            per_degree=WORTH_PER_DEGREE if self.weight_decay == "auto" else 1.0,
            dtype=dtype,
        )
        self.monotonic_penalty_ = {self.encoded_names()[column]: penalty for column, penalty in penalties.items()}
        return fitted

    def _keep_sample(self, columns: Any) -> None:
        """Keep a few rows to rank terms by and to compare predictions with, and what is known of all rows."""
        self.zero_or_one_ = only_zero_or_one(columns)
        count = max(1, min(SAMPLE, SAMPLE_CELLS // max(1, columns.shape[1])))
        rows = np.random.RandomState(0).permutation(columns.shape[0])[:count]
        self.sample_ = self._clipped(columns[rows])

    def _forget(self) -> None:
        """Remove what was learnt."""
        for name in [name for name in vars(self) if name.endswith("_") or name in _PRIVATE_STATE]:
            delattr(self, name)

    def to_polynomial(self) -> Polynomial:
        """The trained polynomial of the raw features, in float64, with the standardisation folded into its matrices.

        It maps a tensor of features to decision values (the classifier) or predictions (the regressor): what to give
        to :func:`pinets.algebra.certify`, :func:`pinets.algebra.expand` and their like. Its columns are those that
        ``encoded_names()`` names: the raw ones, with categories and missing values as indicators.
        """
        check_is_fitted(self, "module_")
        return fold(self.module_, self.feature_scaling_, getattr(self, "target_scaling_", None))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing_values == "indicator"
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Plain containers and arrays only, which skops can store and load without pickle."""
        state = dict(super().__getstate__())
        for name, tensors in (("feature_scaling_", vars), ("target_scaling_", vars), ("module_", network_state)):
            if name in state:
                state[name] = arrays_of(tensors(state[name]))
        if "_generator" in state:
            state["_generator"] = state["_generator"].get_state().numpy()
        if "_optimizer" in state:
            state["_optimizer"] = arrays_of(state["_optimizer"].state_dict())
        if isinstance(state["device"], torch.device):
            state["device"] = str(state["device"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        device = state["device"]
        for name, where in (("feature_scaling_", device), ("target_scaling_", "cpu")):
            if name in state:
                state[name] = Scaling(**tensors_of(state[name], where))
        if "module_" in state:
            state["module_"] = network_from(state["module_"], device)
        if "_generator" in state:
            generator = torch.Generator()
            generator.set_state(torch.tensor(np.asarray(state["_generator"], dtype=np.uint8)))
            state["_generator"] = generator
        if "_optimizer" in state:
            optimizer = adamw(state["module_"], learning_rate=1.0)
            optimizer.load_state_dict(tensors_of(state["_optimizer"]))
            state["_optimizer"] = optimizer
        super().__setstate__(state)

    def _check_samples(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool
    ) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """The samples as arrays, without those of weight zero: they must count as little as if never given."""
        if not hasattr(X, "shape") and not isinstance(self.categorical_features, (str, NoneType)):
            X = np.asarray(X, dtype=object)
        categorical = categorical_positions(X, self.categorical_features) if reset else list(self.columns_.levels)
        if categorical:
            validate_data(self, X, reset=reset, skip_check_array=True)
            y = _check_y(y, **{"multi_output": False, "y_numeric": False, **self._targets_accepted}, estimator=self)
            check_consistent_length(X, y)
        else:
            try:
                X, y = validate_data(self, X, y, reset=reset, **self._columns_accepted, **self._targets_accepted)
            except (TypeError, ValueError) as error:
                for number in range(X.shape[1]) if is_frame(X) else ():
                    numbers(X, number)  # its error names the column
                if "could not convert string" not in str(error):
                    raise
                raise ValueError(
                    f"X holds text ({error}): give a data frame, whose columns of text become categories, or the "
                    f"numbers of these columns, as categorical_features=[1, 4]"
                ) from error
        if sparse.issparse(y):
            raise ValueError("y must be dense, got a sparse matrix; convert it with y.toarray()")
        weights = self._check_weights(sample_weight, y)
        if weights is not None and not (weights > 0).all():
            counts = weights > 0
            X, y, weights = (X.iloc[counts] if is_frame(X) else X[counts]), y[counts], weights[counts]
        if reset:
            share = None if weights is None else weights / weights.sum()
            self.columns_ = Columns.learn(X, categorical, share)
        return self._encode_columns(X), y, weights

    @property
    def _columns_accepted(self) -> dict[str, Any]:
        finite = "allow-nan" if self.missing_values == "indicator" else True
        return {"accept_sparse": "csr", "dtype": FLOATS, "ensure_all_finite": finite}

    def _check_weights(self, sample_weight: Any, y: np.ndarray) -> np.ndarray | None:
        """The weights, at a scale that cannot overflow; those negligible beside the largest become zero."""
        if sample_weight is None:
            return None
        if isinstance(sample_weight, Real):
            sample_weight = np.full(len(y), float(sample_weight))
        weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
        if weights.shape != (len(y),):
            raise ValueError(f"sample_weight must have shape ({len(y)},), got {weights.shape}")
        if (weights < 0).any():
            raise ValueError(f"sample_weight must not be negative, got {weights.min()}")
        if not weights.any():
            raise ValueError("sample_weight must have at least one entry that is not zero")
        weights = np.where(weights < _LEAST_WEIGHT * weights.max(), 0.0, weights)
        if weights[weights > 0].min() > _LEAST_WEIGHT and weights.max() < 1 / _LEAST_WEIGHT:
            return weights
        weights /= weights.max()
        return weights / weights[weights > 0].mean()

    def _check_columns(self, X: Any) -> Any:
        """Encoded features to predict from."""
        check_is_fitted(self, "module_")
        if self.columns_.levels:
            X = X if hasattr(X, "shape") else np.asarray(X, dtype=object)
            validate_data(self, X, reset=False, skip_check_array=True)
            if len(X) == 0:
                raise ValueError("X must have at least one row, got none")
        else:
            X = validate_data(self, X, reset=False, **self._columns_accepted)
        return self._encode_columns(X)

    def _encode_columns(self, X: Any) -> Any:
        if sparse.issparse(X):
            if np.isnan(X.data).any():
                raise ValueError("sparse X contains NaN: missing values are accepted in dense X only")
            return X
        if self.missing_values == "error" and has_missing(X):
            raise ValueError("X has missing values, and missing_values='error' refuses them")
        scaling = getattr(self, "feature_scaling_", None)
        fill = None
        if scaling is not None:  # the mean of a column whose values were all there
            present, first = np.unique(self.columns_.sources, return_index=True)
            fill = np.zeros(self.columns_.width)
            fill[present] = scaling.mean.cpu().numpy()[first]
        return self.columns_.encode(X, fill)

    def _standardised(self, rows: Any) -> Tensor:
        """Rows of the features as the module wants them: dense, on its device and standardised."""
        dense = rows.toarray() if sparse.issparse(rows) else np.array(rows, order="C")  # torch wants writable memory
        mean = self.feature_scaling_.mean
        return self.feature_scaling_.apply(torch.from_numpy(dense).to(mean.device, mean.dtype))

    def _outputs(self, X: Any) -> Tensor:
        """The module's outputs for raw features, one batch at a time."""
        X = self._check_columns(X)
        head = cast("nn.Linear", self.module_.head)
        # Filled in place: a list of small results would lie between the large freed batches and split the memory up.
        outputs = torch.empty(X.shape[0], head.out_features, dtype=head.weight.dtype)
        with torch.no_grad():
            for rows in gen_batches(X.shape[0], LARGEST_BATCH):
                outputs[rows] = self.module_(self._standardised(X[rows])).cpu()
        return outputs
