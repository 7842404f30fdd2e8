"""All peers by name, with the grid of constants from which the best in hindsight is taken."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Literal

import numpy as np

from streamfl.arrays import FloatArray
from streamfl_benchmarks.peers.adaptive_fedavg import AdaptiveFedAvg
from streamfl_benchmarks.peers.base import ClientRecords, Peer
from streamfl_benchmarks.peers.cda_fedavg import CDAFedAvg
from streamfl_benchmarks.peers.coin import CoinBetting
from streamfl_benchmarks.peers.fedavg import FedAvgPeer
from streamfl_benchmarks.peers.feddyn import FedDyn
from streamfl_benchmarks.peers.fednova import FedNova
from streamfl_benchmarks.peers.ifca import IFCA
from streamfl_benchmarks.peers.limit import Limit, RoundsOf
from streamfl_benchmarks.peers.local_work import LocalWork
from streamfl_benchmarks.peers.network import Network
from streamfl_benchmarks.peers.newton import Newton
from streamfl_benchmarks.peers.restarting import AtRounds, OnADWIN, OnGLR, Restarting, Rule
from streamfl_benchmarks.peers.scaffold import Scaffold
from streamfl_benchmarks.peers.server_adaptive import ServerAdaptive
from streamfl_benchmarks.peers.whitened import Whitened

Constants = Mapping[str, float]


def no_rounds(t: int) -> Sequence[ClientRecords]:
    """Return a round without records, for peers other than the limit, which do not use it."""
    return ()


@dataclass(frozen=True, slots=True)
class Stream:
    """The stream that a peer is built for.

    Parameters
    ----------
    d, labels
        Shape of a model.
    rounds
        T, the number of rounds.
    at
        The first round of each new concept; only the oracle and the limit use it.
    seed
        Seed of the order of local batches.
    l2
        Weight of the penalty, the same for all.
    rounds_of
        Returns the records of any round; only the limit uses it.
    """

    d: int
    labels: int
    rounds: int
    at: tuple[int, ...] = ()
    seed: int = 0
    l2: float = 2e-4
    rounds_of: RoundsOf = no_rounds

    @property
    def scratch(self) -> FloatArray:
        """Return an untrained model."""
        return np.zeros((self.d, self.labels))

    def work(self, steps: float = 1, batch: float | None = None) -> LocalWork:
        """Return local work in an order that follows from the seed."""
        return LocalWork(int(steps), None if batch is None else int(batch), self.seed)


@dataclass(frozen=True, slots=True)
class PeerSpec:
    """A method: how to build it, and its variants.

    Parameters
    ----------
    build
        Returns the peer for a stream and the constants of a variant.
    variants
        The constants of each variant by its suffix, such as `eta=0.3,mu=0.1`; of a method without a grid the only
        suffix is empty.

    Examples
    --------
    >>> spec = PEERS["fedavg"]
    >>> list(spec.variants)[:3]
    ['eta=0.03', 'eta=0.1', 'eta=0.3']
    >>> spec.peer(Stream(d=55, labels=7, rounds=500), "eta=0.3").W.shape
    (55, 7)
    """

    build: Callable[[Stream, Constants], Peer]
    variants: Mapping[str, Constants]

    def only(self, variant: str | None) -> "PeerSpec":
        """Return the method with one of its variants; with all if it has no such variant."""
        own = None if variant is None else self.variants.get(variant)
        return self if variant is None or own is None else replace(self, variants={variant: own})

    def peer(self, stream: Stream, variant: str) -> Peer:
        """Return a variant in its initial state."""
        return self.build(stream, self.variants[variant])


def grid(*, where: Callable[[Constants], bool] = lambda _: True, **axes: Iterable[float]) -> Mapping[str, Constants]:
    """Return every combination of constants for which `where` holds, by its suffix.

    >>> list(grid(eta=(0.1, 1.0), mu=(0.5,)))
    ['eta=0.1,mu=0.5', 'eta=1,mu=0.5']
    """
    points = [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]
    return {",".join(f"{name}={x:g}" for name, x in point.items()): point for point in points if where(point)}


# Features of norm 3 to 5 have a cross-entropy whose curvature is at most about 6 to 12: a full step may be long.
# Accuracy falls steeply on either side of the best step, which was 3 on covtype: there the grid is finer.
ONE_STEP = (0.03, 0.1, 0.3, 0.6, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0)
SOME_STEPS = (0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 2.0, 3.0, 5.0, 10.0)
ALONE: Mapping[str, Constants] = {"": {}}


def _fedavg(s: Stream, c: Constants) -> FedAvgPeer:
    return FedAvgPeer(s.scratch, c["eta"], s.work(c.get("steps", 1)), s.l2)


def _fedavg_of(steps: int) -> Callable[[Stream, Constants], Peer]:
    return lambda s, c: _fedavg(s, {**c, "steps": steps})


def _fedavg_sqrt(s: Stream, c: Constants) -> Peer:
    return FedAvgPeer(s.scratch, 1.0 / math.sqrt(s.rounds), s.work(), s.l2)


def _fedprox(s: Stream, c: Constants) -> Peer:
    return FedAvgPeer(s.scratch, c["eta"], s.work(10), s.l2, c["mu"])


def _feddyn(s: Stream, c: Constants) -> Peer:
    return FedDyn(s.scratch, c["eta"], c["alpha"], s.work(10), s.l2)


def _scaffold(s: Stream, c: Constants) -> Peer:
    return Scaffold(s.scratch, c["eta"], c["server_step"], s.work(10), s.l2)


def _cda_fedavg(s: Stream, c: Constants) -> Peer:
    return CDAFedAvg(s.scratch, c["eta"], int(c["memory"]), work=s.work(10), l2=s.l2)


def _ifca(s: Stream, c: Constants) -> Peer:
    return IFCA(s.scratch, int(c["models"]), c["eta"], s.work(10), s.seed, s.l2)


def _fednova(s: Stream, c: Constants) -> Peer:
    return FedNova(s.scratch, c["eta"], c["momentum"], c["mu"], s.work(c["passes"], batch=20), s.l2)


def _fedprox_sqrt(s: Stream, c: Constants) -> Peer:
    return FedAvgPeer(s.scratch, 1.0 / math.sqrt(s.rounds), s.work(10), s.l2, c["mu"])


def _fednova_sqrt(s: Stream, c: Constants) -> Peer:
    return FedNova(s.scratch, 1.0 / math.sqrt(s.rounds), work=s.work(batch=20), l2=s.l2)


def _adaptive_fedavg(s: Stream, c: Constants) -> Peer:
    return AdaptiveFedAvg(s.scratch, c["eta0"], bool(c["over_t"]), work=s.work(c["steps"]), l2=s.l2)


def _server(rule: Literal["adagrad", "adam", "yogi", "flash"]) -> Callable[[Stream, Constants], Peer]:
    return lambda s, c: ServerAdaptive(
        s.scratch, rule, c["server_step"], c["tau"], c["beta1"], eta=c["eta"], work=s.work(c["steps"]), l2=s.l2
    )


def _restarting(rule: Callable[[Stream, Constants], Rule]) -> Callable[[Stream, Constants], Peer]:
    return lambda s, c: Restarting(lambda: _fedavg(s, c), rule(s, c))


def _coin(s: Stream, c: Constants) -> CoinBetting:
    return CoinBetting(s.scratch, s.l2)


def _coin_glr(s: Stream, c: Constants) -> Peer:
    return Restarting(lambda: _coin(s, c), OnGLR())


def _newton(s: Stream, c: Constants) -> Peer:
    return Newton(s.scratch, c["forget"], s.l2)


def _network(units: int) -> Callable[[Stream, Constants], Network]:
    return lambda s, c: Network(s.d, s.labels, units, c["eta"], s.work(c["passes"], batch=c["batch"]), s.seed, s.l2)


def _network_glr(units: int) -> Callable[[Stream, Constants], Peer]:
    return lambda s, c: Restarting(lambda: _network(units)(s, c), OnGLR())


def _whitened_glr(s: Stream, c: Constants) -> Peer:
    return Restarting(lambda: Whitened(s.scratch, c["step"], s.l2), OnGLR())


def _limit(s: Stream, c: Constants) -> Peer:
    return Limit(s.d, s.labels, s.rounds, s.at, s.rounds_of, s.l2)


# The pull overshoots when eta mu is 2 or more, and ten local steps of it overflow.
_FEDPROX_GRID = grid(
    where=lambda c: c["eta"] * c["mu"] < 2.0, eta=(0.1, 0.3, 1.0, 3.0, 5.0, 10.0), mu=(0.001, 0.01, 0.1, 0.5, 1.0)
)
_FEDDYN_GRID = grid(
    where=lambda c: c["eta"] * c["alpha"] < 2.0,
    eta=(0.1, 0.3, 1.0, 3.0, 5.0, 10.0),
    alpha=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
)
_SCAFFOLD_GRID = grid(eta=(1.0, 2.0, 3.0, 5.0, 10.0), server_step=(0.5, 1.0, 1.5))
_CDA_FEDAVG_GRID = grid(eta=(1.0, 2.0, 3.0, 5.0, 10.0), memory=(50, 100, 200, 400, 800, 1600))
# A step over t can start far above a constant one.
_ADAPTIVE_GRID = grid(eta0=(0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0), over_t=(0, 1), steps=(1, 10))
# Momentum, a pull and more passes each change what one step does; six passes are for plain steps.
_FEDNOVA_GRID = grid(
    where=lambda c: (
        not (c["momentum"] and c["mu"])
        and (c["passes"] == 1.0 or 0.03 <= c["eta"] <= 5.0)
        and (c["passes"] <= 3.0 or not (c["momentum"] or c["mu"]))
    ),
    eta=SOME_STEPS,
    momentum=(0.0, 0.9),
    mu=(0.0, 0.1),
    passes=(1, 3, 6),
)


def _server_grid(server_step: Iterable[float], tau: Iterable[float]) -> Mapping[str, Constants]:
    """Return a grid with one local step, which only rescales the difference and has length 1, and with ten.

    As tau grows, the rules turn into plain steps of server_step / tau: a ridge, whose end is FedAvg.
    """
    return grid(
        where=lambda c: (
            c["eta"] == 1.0
            if c["steps"] == 1.0
            else c["tau"] >= 1e-2 and c["server_step"] >= 0.1 and c["beta1"] == 0.0
        ),
        server_step=server_step,
        tau=tau,
        beta1=(0.0, 0.9),
        steps=(1, 10),
        eta=(0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
    )


_SERVER_GRID = _server_grid((0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0), (1e-3, 1e-2, 1e-1, 1.0))
_ADAGRAD_GRID = _server_grid((0.3, 1.0, 3.0, 10.0, 30.0), (1e-2, 1e-1, 1.0))
_FEDAVG_GRID = grid(steps=(1, 10), eta=(0.01, *ONE_STEP))
# A step on few records is noisy, and must be short: of 45 points of a wider grid those along this ridge were the best
# over 60 rounds. A batch of one is the smallest that there is.
_NETWORK_GRID = grid(
    where=lambda c: 0.015 <= c["eta"] / c["batch"] <= 0.15,
    eta=(0.03, 0.1, 0.3, 1.0),
    batch=(1, 2, 5, 20),
    passes=(1, 3, 10),
)
# With restarts: smaller batches are better than without, so larger steps for each record are tried as well.
_NETWORK_GLR_GRID = grid(
    where=lambda c: 0.02 <= c["eta"] / c["batch"] <= 0.5, eta=(0.03, 0.1, 0.3, 1.0), batch=(1, 2, 5, 20), passes=(3,)
)
# Ten local steps, and a server step of about what they move.
_FLASH_GRID = grid(
    server_step=(0.03, 0.1, 0.3), tau=(0.0001, 0.001, 0.01, 0.1), beta1=(0.9,), steps=(10,), eta=(1.0, 3.0, 10.0)
)
_ADWIN_GRID = grid(steps=(1, 10), eta=(0.01, *ONE_STEP), by_client=(0, 1))

PEERS: Mapping[str, PeerSpec] = MappingProxyType(
    {
        "fedavg": PeerSpec(_fedavg, grid(eta=ONE_STEP)),
        "fedavg-10": PeerSpec(_fedavg_of(10), grid(eta=SOME_STEPS)),
        "fedavg-sqrt": PeerSpec(_fedavg_sqrt, ALONE),
        "fedprox": PeerSpec(_fedprox, _FEDPROX_GRID),
        "fedprox-sqrt": PeerSpec(_fedprox_sqrt, grid(mu=(0.001, 0.01, 0.1, 0.5, 1.0))),
        "fednova": PeerSpec(_fednova, _FEDNOVA_GRID),
        "fednova-sqrt": PeerSpec(_fednova_sqrt, ALONE),
        "feddyn": PeerSpec(_feddyn, _FEDDYN_GRID),
        "scaffold": PeerSpec(_scaffold, _SCAFFOLD_GRID),
        "ifca": PeerSpec(_ifca, grid(models=(2, 4, 8, 16, 32, 64), eta=(1.0, 3.0, 5.0, 10.0, 20.0))),
        "cda-fedavg": PeerSpec(_cda_fedavg, _CDA_FEDAVG_GRID),
        "adaptive-fedavg": PeerSpec(_adaptive_fedavg, _ADAPTIVE_GRID),
        "fedadam": PeerSpec(_server("adam"), _SERVER_GRID),
        "fedyogi": PeerSpec(_server("yogi"), _SERVER_GRID),
        "fedadagrad": PeerSpec(_server("adagrad"), _ADAGRAD_GRID),
        "fedavg-adwin": PeerSpec(_restarting(lambda s, c: OnADWIN(by_client=bool(c["by_client"]))), _ADWIN_GRID),
        "fedavg-glr": PeerSpec(_restarting(lambda s, c: OnGLR()), _FEDAVG_GRID),
        "flash": PeerSpec(_server("flash"), _FLASH_GRID),
        "coin": PeerSpec(_coin, ALONE),
        "coin-glr": PeerSpec(_coin_glr, ALONE),
        "oracle": PeerSpec(_restarting(lambda s, c: AtRounds(s.at)), _FEDAVG_GRID),
        "network-64": PeerSpec(_network(64), _NETWORK_GRID),
        "network-128": PeerSpec(_network(128), _NETWORK_GRID),
        "network-128-glr": PeerSpec(_network_glr(128), _NETWORK_GLR_GRID),
        "newton": PeerSpec(_newton, grid(forget=(0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98))),
        "whitened-glr": PeerSpec(_whitened_glr, grid(step=(1.0, 4.0, 8.0, 16.0, 32.0, 64.0))),
        "limit": PeerSpec(_limit, ALONE),
    }
)
