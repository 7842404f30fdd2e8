"""Numbers for people: as many digits as anybody compares, so that a message spends no bytes on others."""

SIGNIFICANT = 6


def significant(number: float) -> float:
    """Return the nearest number with six significant digits.

    >>> significant(2 / 3), significant(87.0), significant(-1234567.0)
    (0.666667, 87.0, -1234570.0)
    """
    return float(f"{number:.{SIGNIFICANT}g}")
