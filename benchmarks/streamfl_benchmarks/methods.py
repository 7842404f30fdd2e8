"""The methods of the benchmark by name: federations of this package, and peers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from streamfl.errors import UsageError
from streamfl.learning.local_round import Learner
from streamfl.learning.profiles.adaptive.ladder import ladder_settings
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.plugins.detectors import named_detector
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl_benchmarks.federated import BestInHindsight, Federation
from streamfl_benchmarks.one_by_one import ONE_BY_ONE, run_one_by_one
from streamfl_benchmarks.peers.registry import PEERS
from streamfl_benchmarks.plain import run_peer
from streamfl_benchmarks.records import Drawn
from streamfl_benchmarks.run import PENALTY, Finished

_FEDOMD = LearningSettings(algorithm="fedomd", mirror="p-norm")
_AUTO = LearningSettings(features="auto")
_PAPER = ProfileSettings(profile="paper")
_WARM = ProfileSettings(profile="paper", start="warm")

# The step of the paper is for features of norm about 1; for others the best is chosen in hindsight, as for peers.
STEPS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)

NEVER = "river:NoDrift"


class Plain(ProfileSettings):
    """The default profile with a ladder of plain steps, to measure the gain of whitened ones."""

    def create(self, horizon: int, learner: Learner) -> Promotion:
        """Return the profile in its first state."""
        plain = ladder_settings(bounded_gradient=True, one_full_step=True, whitened=False)
        return Promotion(plain, named_detector(self.detector))


# FedAvg with a penalty that shrinks each weight, as the paper names it; its formula is that of L2.
_L1 = Federation(_WARM, LearningSettings(algorithm="fedomd", mirror="euclidean"), penalty="l1")
# Between a factor at which the tests alarm on streams without drift, and one at which they never alarm; with the step
# that is the best without alarms.
FACTORS = (1e-5, 5e-5, 2e-4)


def _best_step(own: Federation) -> BestInHindsight:
    return BestInHindsight({f"step={s:g}": _with(own, step=s) for s in STEPS})


def _best_factor(own: Federation) -> BestInHindsight:
    return BestInHindsight({f"rho_scale={f:g}": _with(own, step=10.0, rho_scale=f) for f in FACTORS})


def _with(own: Federation, **constants: float) -> Federation:
    return replace(own, profile=own.profile.model_copy(update=constants))


FEDERATIONS: Mapping[str, Federation | BestInHindsight] = MappingProxyType(
    {
        "adaptive": Federation(ProfileSettings()),
        "adaptive-never": Federation(ProfileSettings(detector=NEVER)),
        "adaptive-plain": Federation(Plain()),
        "adaptive-plain-never": Federation(Plain(detector=NEVER)),
        "adaptive-auto": Federation(ProfileSettings(), _AUTO),
        "auto-alone": Federation(ProfileSettings(), _AUTO, parts=Drawn.apart),
        "auto-in-one-place": Federation(ProfileSettings(), _AUTO, parts=Drawn.in_one_place),
        "adaptive-conformal": Federation(ProfileSettings(detector="conformal")),
        "adaptive-glr": Federation(ProfileSettings(detector="glr")),
        "experts": Federation(ProfileSettings(profile="experts")),
        "paper": Federation(_PAPER),
        "paper-warm": Federation(_WARM),
        "paper-best": _best_step(Federation(_PAPER)),
        "paper-warm-best": _best_step(Federation(_WARM)),
        "paper-warm-l1": _best_step(_L1),
        "paper-warm-tuned": _best_factor(Federation(_WARM)),
        "adaptive-fedomd": Federation(ProfileSettings(), _FEDOMD),
        "paper-fedomd": Federation(_PAPER, _FEDOMD),
        "paper-warm-fedomd": Federation(_WARM, _FEDOMD),
        "paper-fedomd-best": _best_step(Federation(_PAPER, _FEDOMD)),
        "paper-warm-fedomd-best": _best_step(Federation(_WARM, _FEDOMD)),
    }
)


def check(methods: Sequence[str]) -> None:
    """Refuse unknown methods.

    Raises
    ------
    UsageError
        The message lists all methods.

    >>> check(["adaptive", "fedavg"])
    >>> check(["sgd"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    streamfl.errors.UsageError: --method sgd: unknown; take some of adaptive, ...
    """
    names = [*FEDERATIONS, *PEERS, *ONE_BY_ONE]
    for method in methods:
        if method not in names:
            raise UsageError(f"--method {method}: unknown; take some of {', '.join(names)}")


def run(method: str, drawn: Drawn, l2: float = PENALTY, variant: str | None = None) -> Finished:
    """Run a method over a drawn stream, with a penalty of weight `l2`.

    With `variant`, a method of several variants runs with these constants, which were the best of its grid before;
    else with each, and the best run counts.
    """
    if method in ONE_BY_ONE:
        return run_one_by_one(ONE_BY_ONE[method](drawn.stream.seed), drawn, method, l2)
    if method in PEERS:
        return run_peer(PEERS[method].only(variant), drawn, method, l2)
    own = FEDERATIONS[method]
    return (own.only(variant) if isinstance(own, BestInHindsight) else own).run(drawn, method, l2)
