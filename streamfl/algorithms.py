"""The base algorithms by name: those of this package, and those that others register."""

from streamfl.core.learning.algorithms.base import Algorithm
from streamfl.core.learning.algorithms.fedavg import FedAvg
from streamfl.core.learning.algorithms.fedomd import FedOMD
from streamfl.registered import Registered

# What other packages register under this entry point: a name, and a class that derives from `Algorithm`.
GROUP = "streamfl.algorithms"

ALGORITHMS: dict[str, type[Algorithm]] = {"fedavg": FedAvg, "fedomd": FedOMD}

_REGISTERED = Registered[Algorithm]("algorithm", Algorithm, GROUP, ALGORITHMS)


def algorithms() -> dict[str, type[Algorithm]]:
    """Return all base algorithms by name; those of this package keep theirs.

    Raises
    ------
    UsageError
        A package that registers one is at fault.

    >>> list(algorithms())[:2]
    ['fedavg', 'fedomd']
    """
    return _REGISTERED.all()


def named_algorithm(name: str) -> type[Algorithm]:
    """Return a base algorithm; `of` makes it from what a person chose.

    Raises
    ------
    UsageError
        There is no such algorithm, or the package that registers it is at fault.

    >>> named_algorithm("fedomd").__name__
    'FedOMD'
    """
    return _REGISTERED.named(name)
