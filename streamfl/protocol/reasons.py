"""Why a record or a message cannot be used: a text for people, with a code for programs."""

from enum import StrEnum
from typing import Self


class ReasonCode(StrEnum):
    """What is wrong with a record or a label."""

    NO_LABEL = "no-label"
    INFINITE = "infinite"
    NO_NUMBER = "no-number"
    EMPTY = "empty"
    NOT_JSON = "not-json"
    NOT_PACKED = "not-packed"
    UNREADABLE = "unreadable"
    NO_CLIENT = "no-client"
    NO_KEY = "no-key"
    BAD_LABEL = "bad-label"
    TOO_MANY_LABELS = "too-many-labels"
    TOO_LARGE = "too-large"
    NO_RECORD = "no-record"


class Reason(str):
    """The text of a reason, which carries its code from where it is made to the dead letter.

    Examples
    --------
    >>> reason = Reason("the label is missing", ReasonCode.NO_LABEL)
    >>> reason, reason.code.value, code_of(reason.within('field "y": ')).value, code_of("any other text")
    ('the label is missing', 'no-label', 'no-label', None)
    """

    __slots__ = ("code",)

    code: ReasonCode

    def __new__(cls, text: str, code: ReasonCode) -> Self:
        """Return a text with a code."""
        made = super().__new__(cls, text)
        made.code = code
        return made

    def __getnewargs__(self) -> tuple[str, ReasonCode]:  # type: ignore[override]
        """Return what a copy is made of."""
        return str(self), self.code

    def within(self, before: str, after: str = "") -> "Reason":
        """Return the reason with a text before it, and one after it."""
        return Reason(f"{before}{self}{after}", self.code)


def code_of(reason: str) -> ReasonCode | None:
    """Return the code of a reason; None if it has none."""
    return reason.code if isinstance(reason, Reason) else None


def coded(reason: str, code: ReasonCode) -> Reason:
    """Return a reason with its code, or with this one if it has none.

    >>> coded("the metadata have no list of labels", ReasonCode.NOT_PACKED).code.value
    'not-packed'
    """
    return reason if isinstance(reason, Reason) else Reason(reason, code)


def known_code(text: str) -> ReasonCode | None:
    """Return the code that a text names; None if it names none."""
    return next((code for code in ReasonCode if code.value == text), None)


def within(reason: str, before: str, after: str = "") -> str:
    """Return a reason, with or without a code, with a text before it and one after it."""
    return reason.within(before, after) if isinstance(reason, Reason) else f"{before}{reason}{after}"


def reason_of(error: Exception) -> str:
    """Return the reason that an error was raised with.

    >>> code_of(reason_of(ValueError(Reason("the message is empty", ReasonCode.EMPTY)))).value
    'empty'
    """
    first = error.args[0] if len(error.args) == 1 else None
    return first if isinstance(first, Reason) else str(error)
