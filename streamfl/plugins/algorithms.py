"""The base algorithms by name: those of this package, and those that other packages register."""

from streamfl.learning.algorithms.base import Algorithm
from streamfl.learning.algorithms.fedavg import FedAvg
from streamfl.learning.algorithms.fedomd import FedOMD
from streamfl.plugins.registered import Registered

# The entry point under which other packages register a name and a class that derives from `Algorithm`.
GROUP = "streamfl.algorithms"

ALGORITHMS: dict[str, type[Algorithm]] = {"fedavg": FedAvg, "fedomd": FedOMD}

_REGISTERED = Registered[Algorithm]("algorithm", Algorithm, GROUP, ALGORITHMS)


def algorithms() -> dict[str, type[Algorithm]]:
    """Return all base algorithms by name. No other package can take a name of this package's.

    Raises
    ------
    UsageError
        A package that registers one is at fault.

    >>> list(algorithms())[:2]
    ['fedavg', 'fedomd']
    """
    return _REGISTERED.all()


def named_algorithm(name: str) -> type[Algorithm]:
    """Return the class of a base algorithm; its `of` makes one from the user's options.

    Raises
    ------
    UsageError
        There is no such algorithm, or the package that registers it is at fault.

    >>> named_algorithm("fedomd").__name__
    'FedOMD'
    """
    return _REGISTERED.named(name)
