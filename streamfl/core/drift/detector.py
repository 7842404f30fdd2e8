"""What a drift detector is: it looks at every closed round, and says when the world has changed."""

import abc
from collections.abc import Collection, Mapping
from typing import ClassVar

from streamfl.core.drift.evidence import Observed
from streamfl.core.kinds import Kind
from streamfl.core.protocol.alarm import Alarm, Reading


class Detector(Kind):
    """A drift detector: a dataclass whose fields are all that it remembers, since it is saved with the coordinator.

    `update` and `reset` are what it must do; the rest has defaults, for detectors that neither compare records nor
    name clients. `streamfl.testing.check_detector` says whether a new one keeps the rules.

    Attributes
    ----------
    kind
        A field that names the class where a detector is saved and read again: `kind: Literal["glr"] = "glr"`.
    reading
        A field: where the test stood after the last round; None before the first test.
    compares
        Whether it compares new records with old ones, so that clients have to hold some back.
    """

    named_by = "kind"
    kind: str
    reading: Reading | None
    compares: ClassVar[bool] = False

    @abc.abstractmethod
    def update(self, observed: Observed, groups: Mapping[str, int]) -> Alarm | None:
        """Take a closed round, and return an alarm if there is one.

        Parameters
        ----------
        observed
            The round.
        groups
            The number of the group of each client that is served by another model than the rest, which is group 0.
        """

    @abc.abstractmethod
    def reset(self, *, filled: bool = False) -> None:
        """Forget everything: after a restart. With `filled` what is held back is still of the same concept."""

    @property
    def is_stale(self) -> bool:
        """Whether what it compares with has passed, so that it has to be gathered anew."""
        return False

    def forget(self, clients: Collection[str]) -> None:
        """Forget some clients, which another model serves from now on."""

    def named(self, clients: Collection[str]) -> tuple[str, ...]:
        """Return those of some clients that surely have drifted by now, if they drift alone."""
        return ()

    def rest_is_quiet(self, observed: Observed, groups: Mapping[str, int], named: Collection[str], sd: float) -> bool:
        """Tell whether all other clients than the named ones lie below so many standard deviations."""
        return True


class ScoreDetector(Detector):
    """A detector that looks at one number a round: the mean score of the serving model, in [0, 1]."""

    def update(self, observed: Observed, groups: Mapping[str, int]) -> Alarm | None:
        """Take the loss of a closed round, and return an alarm if there is one."""
        return self.take(observed.round, observed.loss, observed.records)

    @abc.abstractmethod
    def take(self, t: int, loss: float, records: int) -> Alarm | None:
        """Take the pooled loss of round t over `records` records, and return an alarm if there is one."""
