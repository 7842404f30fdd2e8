"""How many examples hypothesis tries where each is expensive: few, and ten times as many in `make test-all`.

Other tests leave their number to the profile, 30 or 300: they set no `max_examples`.
"""

from hypothesis import settings


def examples(few: int) -> int:
    """Return the number of examples for the profile that pytest has loaded: `few`, or ten times as many in `full`.

    >>> examples(5) in {5, 50}
    True
    """
    return 10 * few if settings.get_current_profile_name() == "full" else few
