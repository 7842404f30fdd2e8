"""The interface of drift detectors: a detector takes every closed round, and alarms when the concept changed."""

import abc
from collections.abc import Collection, Mapping
from typing import ClassVar

from streamfl.learning.drift.evidence import RoundEvidence
from streamfl.protocol.alarm import Alarm, Reading
from streamfl.protocol.kinds import Kind


class Detector(Kind):
    """A drift detector: a dataclass whose fields are its whole state, which is saved with the coordinator state.

    Subclasses must define `update` and `reset`. The rest has defaults for detectors that neither compare with
    held-out records nor name clients. `streamfl.testing.check_detector` checks a new one.

    Attributes
    ----------
    kind
        A field that names the class in saved states: `kind: Literal["glr"] = "glr"`.
    reading
        A field: statistic and threshold after the last round; None before the first test.
    compares
        Whether it compares new records with held-out ones, so that clients must hold some out.
    scouts
        Whether it tests the scores of a scout, a model that is frozen, instead of those of the model that serves.
    """

    named_by = "kind"
    kind: str
    reading: Reading | None
    compares: ClassVar[bool] = False
    scouts: ClassVar[bool] = False

    @abc.abstractmethod
    def update(self, observed: RoundEvidence, groups: Mapping[str, int]) -> Alarm | None:
        """Take a closed round, and return an alarm if there is one.

        Parameters
        ----------
        groups
            The group number of each client that another model serves than the rest; all others are in group 0.
        """

    @abc.abstractmethod
    def reset(self, *, filled: bool = False) -> None:
        """Forget everything, after a restart. With `filled`, the held-out records are still of the same concept."""

    @property
    def is_stale(self) -> bool:
        """Whether the held-out records are of a concept that has passed, so that others must be gathered."""
        return False

    def forget(self, clients: Collection[str]) -> None:
        """Forget some clients, which another model serves from now on."""

    def surely_drifted(self, clients: Collection[str]) -> tuple[str, ...]:
        """Return those of some clients that surely have drifted by now, if only a few have."""
        return ()

    def are_as_before(self, clients: Collection[str]) -> bool:
        """Return whether some clients, which another model serves, surely are as they were before they drifted."""
        return False

    def rest_is_quiet(
        self, observed: RoundEvidence, groups: Mapping[str, int], named: Collection[str], sd: float
    ) -> bool:
        """Return whether all clients but the named ones lie below `sd` standard deviations."""
        return True


class ScoreDetector(Detector):
    """A detector that uses one number a round: the mean score of the serving model, in [0, 1]."""

    def update(self, observed: RoundEvidence, groups: Mapping[str, int]) -> Alarm | None:
        """Take the mean score of a closed round, and return an alarm if there is one."""
        return self.take(observed.round, observed.loss, observed.records)

    @abc.abstractmethod
    def take(self, t: int, loss: float, records: int) -> Alarm | None:
        """Take the pooled loss of round t over `records` records, and return an alarm if there is one."""
