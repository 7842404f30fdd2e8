"""What a drift detector is: it looks at every closed round, and says when the world has changed."""

import abc
from collections.abc import Callable, Collection, Mapping
from functools import reduce
from operator import or_
from typing import Any, ClassVar

from streamfl.core.drift.evidence import Observed
from streamfl.core.protocol.alarm import Alarm, Reading


class Detector(abc.ABC):
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
    classes
        How many classes of detectors there are by now, abstract ones counted.
    """

    kind: str
    reading: Reading | None
    compares: ClassVar[bool] = False
    classes: ClassVar[int] = 0

    def __init_subclass__(cls, **options: Any) -> None:
        """Count the classes: what reads saved ones has to know a new one, too."""
        super().__init_subclass__(**options)
        Detector.classes += 1

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

    def forget(self, clients: Collection[str]) -> None:  # noqa: B027  to do nothing is the default
        """Forget some clients, which another model serves from now on."""

    def named(self, clients: Collection[str]) -> tuple[str, ...]:
        """Return those of some clients that surely have drifted by now, if they drift alone."""
        return ()

    def rest_is_quiet(self, observed: Observed, groups: Mapping[str, int], named: Collection[str], sd: float) -> bool:
        """Tell whether all other clients than the named ones lie below so many standard deviations."""
        return True

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Read a detector as whichever class has its `kind`; the core itself knows nothing of pydantic."""
        return handler(source) if source is not Detector else handler.generate_schema(reduce(or_, known()))  # type: ignore[attr-defined]


class LossDetector(Detector):
    """A detector that looks at one number a round: the mean score of the serving model, in [0, 1]."""

    def update(self, observed: Observed, groups: Mapping[str, int]) -> Alarm | None:
        """Take the loss of a closed round, and return an alarm if there is one."""
        return self.take(observed.round, observed.loss, observed.records)

    @abc.abstractmethod
    def take(self, t: int, loss: float, records: int) -> Alarm | None:
        """Take the pooled loss of round t over `records` records, and return an alarm if there is one."""


def known(kind: type[Detector] = Detector) -> list[type[Detector]]:
    """Return the classes of detectors below one, abstract ones left out, whose modules have been imported."""
    found = {each for below in kind.__subclasses__() for each in (below, *known(below))}
    return sorted((each for each in found if not each.__abstractmethods__), key=lambda each: each.__name__)
