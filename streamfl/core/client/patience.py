"""When a client asks again: the longer it hears nothing, the more seldom."""

from dataclasses import dataclass, replace
from typing import Literal

Question = Literal["join", "leave"]

# A client asks again after `retry` seconds, then after twice as many, at most doubled so often: 32 times `retry`.
MOST_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class Patience:
    """Since when a client waits, and when it asks again. A value: every method returns another one.

    Parameters
    ----------
    retry
        Seconds after which it asks again for the first time.
    since
        When the client last heard what it waits for, or asked.
    in_vain
        How often it has lost patience since it last heard anything.
    setbacks
        How often the client was refused, or could not use what it was told, since its last update that was accepted.
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
        """Return it once the client has heard what it waits for."""
        return replace(self, since=now, in_vain=0)

    def asks(self, question: Question, now: float) -> "Patience":
        """Return it once the client has asked: it waits for the answer from now on."""
        return replace(self, since=now, asked=question)

    def has_asked(self, question: Question) -> "Patience":
        """Return it once something was sent that asks as well: the question follows only if nothing is heard."""
        return replace(self, asked=question)

    def waits_anew(self, now: float) -> "Patience":
        """Return it with the waiting begun anew."""
        return replace(self, since=now)

    def loses(self) -> "Patience":
        """Return it at its end: the client may ask at once, and then waits longer."""
        return replace(self, asked=None, in_vain=self.in_vain + 1)

    def may_ask(self) -> "Patience":
        """Return it with leave to ask at once, whatever was asked before."""
        return replace(self, asked=None)

    def set_back(self) -> "Patience":
        """Return it after a refusal, or after something that could not be used: the client waits longer each time."""
        return replace(self, setbacks=self.setbacks + 1)

    def succeeds(self) -> "Patience":
        """Return it once an update was accepted: there are no setbacks any more."""
        return replace(self, setbacks=0)
