"""When a client asks again: the interval doubles as long as no answer comes."""

from dataclasses import dataclass, replace
from typing import Literal

Question = Literal["join", "leave"]

# A client asks again after `retry` seconds; the interval doubles at most this many times, to 32 times `retry`.
MOST_DOUBLINGS = 5


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client has waited, and when it asks again. Immutable: every method returns a new value.

    Examples
    --------
    >>> asked = Patience(retry=5.0).asks("join", now=10.0)
    >>> asked.ends, asked.loses().asks("join", now=15.0).ends, asked.loses().hears(now=17.0).ends
    (15.0, 25.0, 22.0)
    """

    retry: float  # seconds before it asks again for the first time
    since: float = 0.0  # when the client last received what it waits for, or asked
    unanswered: int = 0  # how often the wait has run out since the last answer
    setbacks: int = 0  # refusals and unusable messages since the last accepted update
    asked: Question | None = None  # the question that is waiting for an answer; None if the client may ask at once

    @property
    def ends(self) -> float:
        """Return when the client asks again while it waits for an answer."""
        return self.since + self.retry * 2.0 ** min(max(self.unanswered, self.setbacks), MOST_DOUBLINGS)

    @property
    def ends_at_last(self) -> float:
        """Return when the client asks although it waits for an announced time: that time may never come."""
        return self.since + self.retry * 2.0**MOST_DOUBLINGS

    def hears(self, now: float) -> "Patience":
        """Return the value after the client has received what it waits for."""
        # Every message that a client waits for comes here, and `replace` takes ten times as long.
        return Patience(self.retry, now, 0, self.setbacks, self.asked)

    def asks(self, question: Question, now: float) -> "Patience":
        """Return the value after the client has asked, or sent what counts as a question: it waits from now on."""
        return Patience(self.retry, now, self.unanswered, self.setbacks, question)

    def waits_again(self, now: float) -> "Patience":
        """Return the value with the wait started again."""
        return replace(self, since=now)

    def loses(self) -> "Patience":
        """Return the value after the wait has run out: the client may ask at once, and then waits longer."""
        return replace(self, asked=None, unanswered=self.unanswered + 1)

    def may_ask(self) -> "Patience":
        """Return the value that lets the client ask at once, whatever it asked before."""
        return replace(self, asked=None)

    def set_back(self) -> "Patience":
        """Return the value after a refusal or an unusable message: the client waits longer each time."""
        return replace(self, setbacks=self.setbacks + 1)

    def succeeds(self) -> "Patience":
        """Return the value after an accepted update: it clears the setbacks."""
        return replace(self, setbacks=0) if self.setbacks else self
