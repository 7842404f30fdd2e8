"""The incumbent as one file: safetensors with a JSON header and a format version, without a pickle."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from streamfl import codec, safe_file
from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.core.errors import PeerError, UsageError
from streamfl.core.protocol.fingerprint import fingerprint
from streamfl.core.protocol.records import Batch, Span
from streamfl.core.protocol.registry import Registry
from streamfl.settings import MODELS
from streamfl.streams.cells import listed
from streamfl.streams.encoding import Encoding, columns_of

FORMAT = 2

WHAT = "a streamfl model file"

Loss = Literal["softmax", "logistic", "squared", "huber"]
Missing = Literal["warn", "mean", "raise"]
Unknown = Literal["raise", "ignore"]


@dataclass(frozen=True, eq=False)
class ServedModel:
    """Weights with everything that predictions need: the registry of features and labels, the scaler, the loss.

    Parameters
    ----------
    task
        `classification` or `regression`.
    loss
        The loss that was learnt with; it decides how outputs become predictions.
    registry
        Names, scaler and unit of targets.
    weights
        Shape (d + 1, columns).
    chain
        The digest of the models that learn between rounds, which are not in the file.
    categories
        The values of each text column; value v of column c is the feature `c=v`.
    label, left_out
        The label column, and the columns that were left out of training: both are ignored in records.

    Examples
    --------
    >>> registry = Registry(1, ("x",), ("no", "yes"), np.zeros(1), np.ones(1))
    >>> model = ServedModel("classification", "softmax", registry, np.array([[-1.0, 1.0], [0.0, 0.0]]))
    >>> model.predict(np.array([[2.0], [-2.0]]), ("x",))
    ['yes', 'no']
    """

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    task: Literal["classification", "regression"]
    loss: Loss
    registry: Registry
    weights: FloatArray
    format: int = FORMAT
    chain: str = ""
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    label: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """Return the fingerprint that a run reports as `model_sha256`."""
        return fingerprint(self.registry, self.weights, chain=self.chain)

    def save(self, path: str | Path) -> None:
        """Write the file.

        Raises
        ------
        UsageError
            It cannot be written.
        """
        safe_file.write(Path(path), self)

    @classmethod
    def load(cls, path: str | Path) -> "ServedModel":
        """Read a file that `save` wrote.

        Raises
        ------
        UsageError
            It is not such a file, has a later format, or is damaged.
        """
        plain, arrays = safe_file.read(Path(path), WHAT, newest=FORMAT)
        try:
            return codec.join(cls, {**plain, "format": FORMAT}, arrays)
        except PeerError as error:
            raise UsageError(f"{path}: not {WHAT}: {error}") from error

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels, in the order of the columns of `predict_proba`; empty in regression."""
        return self.registry.labels

    @cached_property
    def encoding(self) -> Encoding:
        """Return how records become features."""
        return Encoding(self.registry.features, self.categories, frozenset({self.label, *self.left_out}))

    def predict(
        self,
        X: Any,
        features: Sequence[str] | None = None,
        *,
        missing: Missing = "warn",
        unknown: Unknown = "raise",
    ) -> list[str] | list[float]:
        """Return the label, or the target, of each record.

        Parameters
        ----------
        X
            Records: rows of shape (n, d) with the names of their columns in `features`; a list of dicts, in which a
            value of an inner dict is named with a dot; or a data frame of pandas or polars. NaN, None and infinity
            are missing values, which count as the mean. A column of texts is encoded as in training: a value that
            was not seen there has none of its features.
        features
            The names of the columns of rows, in any order; None for dicts and data frames.
        missing
            `warn`: warn about columns of the model that X lacks, and use their means. `mean`: use them without a
            warning. `raise`: refuse X.
        unknown
            `raise`: refuse names that the model does not know; the label and the columns that were left out of
            training are known. `ignore`: do not use these columns.

        Raises
        ------
        UsageError
            A value is not a number, a shape does not match the names, or names are refused.
        """
        return self.decided(self.predictions(*self._encoded(X, features, missing, unknown)))

    def predict_proba(
        self,
        X: Any,
        features: Sequence[str] | None = None,
        *,
        missing: Missing = "warn",
        unknown: Unknown = "raise",
    ) -> FloatArray:
        """Return the probability of each label, shape (n, labels), in the order of `labels`.

        Parameters
        ----------
        X, features, missing, unknown
            As in `predict`.

        Raises
        ------
        UsageError
            As in `predict`; or the model predicts targets.

        Examples
        --------
        >>> registry = Registry(1, ("x",), ("no", "yes"), np.zeros(1), np.ones(1))
        >>> model = ServedModel("classification", "softmax", registry, np.array([[0.0, 1.0], [0.0, 0.0]]))
        >>> model.predict_proba([{"x": 0.0}, {"x": np.log(3.0)}])
        array([[0.5 , 0.5 ],
               [0.25, 0.75]])
        """
        if self.task == "regression":
            raise UsageError("the model predicts targets, which have no probabilities; call predict")
        return self.predictions(*self._encoded(X, features, missing, unknown))

    def decided(self, predictions: FloatArray) -> list[str] | list[float]:
        """Return the likeliest label, or the target, of each row of predictions."""
        if self.task == "regression":
            targets: list[float] = predictions[:, 0].tolist()
            return targets
        return [self.labels[code] for code in predictions.argmax(axis=1).tolist()]

    def predictions(self, features: tuple[str, ...], X: FloatArray) -> FloatArray:
        """Return probabilities, shape (n, labels), or targets, shape (n, 1)."""
        n, model, target = len(X), MODELS[self.loss], self.registry.target
        batch = Batch(Span("", 0, n), np.arange(n), features, X, np.zeros(n))
        outputs = self.registry.design([batch]) @ self.weights
        if self.task == "regression":
            return (model.predict(outputs) * target.scale + target.centre)[:, None]
        known = model.probabilities(outputs)[:, : len(self.labels)]  # logistic always returns two
        shares: FloatArray = known / known.sum(axis=1, keepdims=True)
        return shares

    def _encoded(
        self, records: Any, features: Sequence[str] | None, missing: Missing, unknown: Unknown
    ) -> tuple[tuple[str, ...], FloatArray]:
        columns, n = columns_of(records, features)
        if not n:
            return self.registry.features, np.zeros((0, len(self.registry.features)))
        if lacking := self.check_names(tuple(columns), missing, unknown):
            warnings.warn(f'{lacking}; say missing="mean" if that is meant', stacklevel=3)
        given, X, wrong = self.encoding.encoded(columns)
        if wrong:
            i = min(wrong)
            raise UsageError(f"X must be rows of numbers, NaN where one is missing: record {i}, {wrong[i]}")
        return given, X

    def check_names(
        self, given: tuple[str, ...], missing: Missing = "warn", unknown: Unknown = "raise", *, flags: bool = False
    ) -> str:
        """Return a warning about columns that records lack, or an empty text.

        Parameters
        ----------
        given
            The columns that records have.
        missing, unknown
            As in `predict`.
        flags
            Whether remedies are named as flags of the command line.

        Raises
        ------
        UsageError
            Names are refused: see `predict`.
        """
        encoding, known = self.encoding, listed(self.encoding.columns)
        others, lacking = encoding.unknown(given), encoding.lacking(given)
        if len(lacking) == len(encoding.columns):
            raise UsageError(f"the model knows none of these features; it knows {known}")
        if others and unknown == "raise":
            remedy = "leave them out, or " + ("add --unknown ignore" if flags else 'say unknown="ignore"')
            raise UsageError(f"the model does not know {listed(others)}; it knows {known}; {remedy}")
        if lacking and missing == "raise":
            remedy = "add them, or " + ("leave --missing refuse out" if flags else 'say missing="mean"')
            raise UsageError(f"{listed(lacking)} of the model's features are missing; {remedy}")
        what = f"{listed(lacking)} of the model's features are missing and count as their means"
        return what if lacking and missing == "warn" else ""
