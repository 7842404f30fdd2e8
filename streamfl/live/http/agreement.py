"""A candidate model next to the one that answers: what both predict for the same records."""

from dataclasses import dataclass

import numpy as np
import structlog

from streamfl.arrays import FloatArray
from streamfl.errors import StreamflError, UsageError
from streamfl.live.answering import Answering
from streamfl.live.http.infer import InferRequest, RequestLimits, predicted
from streamfl.run.model_file import ServedModel
from streamfl.runtime.log.tally import Tally

_REFUSALS = Tally(structlog.get_logger("streamfl.http"), "the candidate cannot answer")


@dataclass(frozen=True)
class AgreementCounts:
    """Counts records that both have predicted.

    Parameters
    ----------
    equal
        For how many of them both have predicted the same label.
    difference
        The sum of the differences between both predictions of targets.
    failed
        Requests that the candidate could not answer.
    """

    records: int = 0
    equal: int = 0
    difference: float = 0.0
    failed: int = 0

    def __add__(self, other: "AgreementCounts") -> "AgreementCounts":
        return AgreementCounts(
            self.records + other.records,
            self.equal + other.equal,
            self.difference + other.difference,
            self.failed + other.failed,
        )

    @property
    def figures(self) -> dict[str, object]:
        """Return the counts by name."""
        return {f"compared_{name}": value for name, value in vars(self).items()}


def compared(
    asked: InferRequest, limits: RequestLimits, model: ServedModel, predictions: FloatArray, candidate: Answering
) -> AgreementCounts:
    """Let the candidate answer a request that a model has answered, and compare both."""
    try:
        others = _decided(asked, limits, model, candidate.model)
    except Exception as error:  # whatever a candidate does, the model has answered
        _REFUSALS.note("http", str(error) if isinstance(error, StreamflError) else repr(error))
        return AgreementCounts(failed=1)
    if model.task == "regression":
        difference = np.abs(predictions[:, 0] - np.array(others, np.float64)).sum()
        return AgreementCounts(len(others), difference=float(difference))
    equal = sum(one == other for one, other in zip(model.decided(predictions), others, strict=True))
    return AgreementCounts(len(others), equal)


def _decided(
    asked: InferRequest, limits: RequestLimits, model: ServedModel, candidate: ServedModel
) -> list[str] | list[float]:
    if candidate.task != model.task:
        raise UsageError(f"it is a model for {candidate.task}, but the model that answers is for {model.task}")
    predictions, _ = predicted(asked.to(candidate, limits), candidate)
    return candidate.decided(predictions)
