"""What noise on sums promises: epsilon at a delta, reckoned by `dp-accounting`."""

from functools import cache

from streamfl.errors import UsageError


@cache
def epsilon(multiplier: float, messages: int, delta: float) -> float:
    """Return epsilon for a record that several messages are about, each with Gaussian noise of its own.

    Two streams are neighbours if they differ in one record. Every record is of one round, so its epsilon is that of
    the messages about its round alone, however many rounds there are.

    Parameters
    ----------
    delta
        The probability with which the promise may fail.

    Raises
    ------
    UsageError
        `dp-accounting` is not installed.

    Examples
    --------
    >>> round(epsilon(2.0, 1, 1e-6), 2), round(epsilon(2.0, 3, 1e-6), 2)
    (2.25, 4.15)
    """
    try:
        from dp_accounting import dp_event  # noqa: PLC0415
        from dp_accounting.pld import PLDAccountant  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(
            f"privacy.noise needs the package dp-accounting ({error}): install the extra privacy (docs/install.md)"
        ) from None
    accountant = PLDAccountant()
    accountant.compose(dp_event.GaussianDpEvent(multiplier), messages)
    return float(accountant.get_epsilon(delta))
