"""The incumbent as one file: safetensors with a JSON header and a format version, without a pickle."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from streamfl import codec, safe_file
from streamfl.core.arrays import HOLDS_ARRAYS, FloatArray
from streamfl.core.errors import PeerError, UsageError
from streamfl.core.protocol.fingerprint import fingerprint
from streamfl.core.protocol.records import Batch, Span
from streamfl.core.protocol.registry import Registry
from streamfl.settings import MODELS
from streamfl.streams.cells import listed

FORMAT = 2

WHAT = "a streamfl model file"

Loss = Literal["softmax", "logistic", "squared", "huber"]
Missing = Literal["warn", "mean"]
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

    def outputs(
        self, X: npt.ArrayLike, features: Sequence[str], *, missing: Missing = "warn", unknown: Unknown = "raise"
    ) -> FloatArray:
        """Return the outputs Z W of records X, shape (n, columns): see `predict`."""
        try:
            X, features = np.asarray(X, np.float64), tuple(features)
        except (TypeError, ValueError) as error:
            raise UsageError(f"X must be rows of numbers, NaN where one is missing: {error}") from error
        if twice := [name for name in dict.fromkeys(features) if features.count(name) > 1]:
            raise UsageError(f"features names {listed(twice)} more than once; name each column once")
        if X.ndim != 2 or X.shape[1] != len(features):
            raise UsageError(f"X has shape {X.shape}; it needs two dimensions, and a column for each of {features}")
        self._check_names(features, missing, unknown)
        n = len(X)
        X = np.where(np.isinf(X), np.nan, X)
        batch = Batch(Span("", 0, n), np.arange(n), features, X, np.zeros(n))
        return self.registry.design([batch]) @ self.weights

    def _check_names(self, features: tuple[str, ...], missing: Missing, unknown: Unknown) -> None:
        known = self.registry.features
        if not set(features) & set(known):
            raise UsageError(f"the model knows none of these features; it knows {listed(known)}")
        others = [name for name in features if name not in set(known)]
        if others and unknown == "raise":
            remedy = 'leave them out, or say unknown="ignore"'
            raise UsageError(f"the model does not know {listed(others)}; it knows {listed(known)}; {remedy}")
        lacking = [name for name in known if name not in set(features)]
        if lacking and missing == "warn":
            what = f"{listed(lacking)} of the model's features are missing and count as their means"
            warnings.warn(f'{what}; say missing="mean" if that is meant', stacklevel=4)

    def predict(
        self, X: npt.ArrayLike, features: Sequence[str], *, missing: Missing = "warn", unknown: Unknown = "raise"
    ) -> list[str] | list[float]:
        """Return the label, or the target, of each record.

        Parameters
        ----------
        X
            Records, shape (n, d); NaN and infinity are missing values, which count as the mean.
        features
            The names of its columns, in any order.
        missing
            `warn`: warn about features that X lacks. `mean`: use their means without a warning.
        unknown
            `raise`: refuse names that the model does not know. `ignore`: do not use these columns.

        Raises
        ------
        UsageError
            X is not numeric, its shape does not match the names, or names are unknown.
        """
        predicted = MODELS[self.loss].predict(self.outputs(X, features, missing=missing, unknown=unknown))
        if self.task == "classification":
            return [self.registry.labels[int(code)] for code in predicted]
        target = self.registry.target
        natural: list[float] = (predicted * target.scale + target.centre).tolist()
        return natural
