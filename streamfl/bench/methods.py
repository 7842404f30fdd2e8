"""The methods of the benchmark by name: federations of this package, and peers."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from streamfl.bench.federated import Federation
from streamfl.bench.peers.registry import PEERS
from streamfl.bench.plain import run_peer
from streamfl.bench.records import Drawn
from streamfl.bench.run import PENALTY, Finished
from streamfl.core.errors import UsageError
from streamfl.settings import LearningSettings, ProfileSettings

_FEDOMD = LearningSettings(algorithm="fedomd", mirror="p-norm")
_PAPER = ProfileSettings(profile="paper")
_WARM = ProfileSettings(profile="paper", start="warm")

FEDERATIONS: Mapping[str, Federation] = MappingProxyType(
    {
        "adaptive": Federation(ProfileSettings()),
        "adaptive-auto": Federation(ProfileSettings(), LearningSettings(features="auto")),
        "adaptive-glr": Federation(ProfileSettings(detector="glr")),
        "experts": Federation(ProfileSettings(profile="experts")),
        "calibrated": Federation(ProfileSettings(profile="calibrated")),
        "paper": Federation(_PAPER),
        "paper-warm": Federation(_WARM),
        "adaptive-fedomd": Federation(ProfileSettings(), _FEDOMD),
        "paper-fedomd": Federation(_PAPER, _FEDOMD),
        "paper-warm-fedomd": Federation(_WARM, _FEDOMD),
    }
)


def check(methods: Sequence[str]) -> None:
    """Refuse a method that there is not.

    Raises
    ------
    UsageError
        Names it, and lists those there are.

    >>> check(["adaptive", "fedavg"])
    >>> check(["sgd"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    streamfl.core.errors.UsageError: --method sgd: unknown; take some of adaptive, ...
    """
    names = [*FEDERATIONS, *PEERS]
    for method in methods:
        if method not in names:
            raise UsageError(f"--method {method}: unknown; take some of {', '.join(names)}")


def run(method: str, drawn: Drawn, l2: float = PENALTY) -> Finished:
    """Run a method over a drawn stream, the penalty having this weight."""
    if method in FEDERATIONS:
        return FEDERATIONS[method].run(drawn, method, l2)
    return run_peer(PEERS[method], drawn, method, l2)
