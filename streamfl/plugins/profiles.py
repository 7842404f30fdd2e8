"""The profiles by name: those of this package, and those that other packages register."""

from streamfl.errors import UsageError
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.learning.profiles.base import Profile
from streamfl.learning.profiles.experts import Experts
from streamfl.learning.profiles.paper.profile import Paper
from streamfl.plugins.registered import Registered

# The entry point under which other packages register a name and a class that derives from `Profile`.
GROUP = "streamfl.profiles"

PROFILES: dict[str, type[Profile]] = {"adaptive": Promotion, "paper": Paper, "experts": Experts}

_REGISTERED = Registered[Profile]("profile", Profile, GROUP, PROFILES)


def profiles() -> dict[str, type[Profile]]:
    """Return all profiles by name. No other package can take a name of this package's.

    Raises
    ------
    UsageError
        A package that registers one is at fault.

    >>> list(profiles())[:3]
    ['adaptive', 'paper', 'experts']
    """
    return _REGISTERED.all()


def named_profile(name: str) -> type[Profile]:
    """Return the class of a profile; its `of` makes one from the user's options.

    Raises
    ------
    UsageError
        There is no such profile, it was removed, or the package that registers it is at fault.

    >>> named_profile("experts").__name__
    'Experts'
    >>> named_profile("calibrated")
    Traceback (most recent call last):
    ...
    streamfl.errors.UsageError: profile calibrated was removed; start a new federation with profile adaptive or paper
    """
    if name in Profile.removed:
        raise UsageError(Profile.removed[name])
    return _REGISTERED.named(name)
