"""The failure of a check or of an invariant, and how a check fails."""


class Violation(AssertionError):  # noqa: N818  what is violated is an invariant, by whatever
    """Something that must hold did not; the message says what, or how that came about."""


def expect(holds: bool, otherwise: str) -> None:
    """Fail unless something holds.

    Raises
    ------
    Violation
        It does not hold; `otherwise` is the message.

    >>> expect(1 + 1 == 2, "a sum is wrong")
    """
    if not holds:
        raise Violation(otherwise)
