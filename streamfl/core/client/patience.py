"""When a client asks again: the longer it hears nothing, the more seldom."""

from dataclasses import dataclass, replace
from typing import Literal

Question = Literal["join", "leave"]

# A client asks again after `retry` seconds, then after twice as many, at most doubled so often: 32 times `retry`.
MOST_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client has waited, and when it asks again; every method returns what it is afterwards.

    Parameters
    ----------
    retry
        Seconds after which it asks again for the first time.
    since
        When it last heard what it waits for, or asked.
    in_vain
        How often in a row it lost patience and then heard nothing.
    setbacks
        How often it was refused, or could not use what it had been told, since an update of it was last accepted.
    asked
        The question that was asked and need not be asked again yet; None if any is to be asked at once.

    Examples
    --------
    >>> asked = Patience(retry=5.0).asks("join", now=10.0)
    >>> asked.ends, asked.loses().asks("join", now=15.0).ends, asked.loses().heard(now=17.0).ends
    (15.0, 25.0, 22.0)
    """

    retry: float
    since: float = 0.0
    in_vain: int = 0
    setbacks: int = 0
    asked: Question | None = None

    @property
    def ends(self) -> float:
        """Return when it asks again while it waits for an answer."""
        return self.since + self.retry * 2.0 ** min(max(self.in_vain, self.setbacks), MOST_DOUBLINGS)

    @property
    def ends_at_last(self) -> float:
        """Return when it asks though it waits for a time that was told: that time may never come."""
        return self.since + self.retry * 2.0**MOST_DOUBLINGS

    def heard(self, now: float) -> "Patience":
        """It has heard what it waited for."""
        return replace(self, since=now, in_vain=0)

    def asks(self, question: Question, now: float) -> "Patience":
        """It asks, and begins to wait for the answer."""
        return replace(self, since=now, asked=question)

    def has_asked(self, question: Question) -> "Patience":
        """What it has just sent asks as well: the question itself is only sent if nothing is heard."""
        return replace(self, asked=question)

    def waits_anew(self, now: float) -> "Patience":
        """It begins to wait anew."""
        return replace(self, since=now)

    def loses(self) -> "Patience":
        """It has waited long enough: it may ask at once, and then waits longer."""
        return replace(self, asked=None, in_vain=self.in_vain + 1)

    def may_ask(self) -> "Patience":
        """It may ask at once, whatever it has asked before."""
        return replace(self, asked=None)

    def set_back(self) -> "Patience":
        """It was refused, or could not use what it was told: it tries again later each time."""
        return replace(self, setbacks=self.setbacks + 1)

    def succeeds(self) -> "Patience":
        """An update of it was accepted: there are no setbacks any more."""
        return replace(self, setbacks=0)
