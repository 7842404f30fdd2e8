"""A peer as a method of the benchmark: a plain test-then-train loop over a drawn stream."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from threadpoolctl import threadpool_limits

from streamfl.arrays import FloatArray
from streamfl.runtime.clock import stopwatch
from streamfl_benchmarks.findings import Found
from streamfl_benchmarks.meter import Meter
from streamfl_benchmarks.peers.base import SOFTMAX, ClientRecords, Peer, scores
from streamfl_benchmarks.peers.registry import PeerSpec, Stream
from streamfl_benchmarks.records import Drawn, with_intercept
from streamfl_benchmarks.run import PENALTY, Finished, finished


def run_peer(spec: PeerSpec, drawn: Drawn, method: str, l2: float = PENALTY) -> Finished:
    """Run every variant of a peer, and return the one with the best prequential accuracy.

    That is the best constant in hindsight, an advantage over methods that must choose before the run.
    """
    Z = with_intercept(drawn.table)
    stream = Stream(
        d=Z.shape[1],
        labels=len(drawn.table.labels),
        rounds=drawn.stream.rounds,
        at=drawn.stream.at,
        seed=drawn.stream.seed,
        l2=l2,
        rounds_of=lambda t: drawn.round(t, Z),
    )
    with threadpool_limits(1):
        runs = [_Variant(name, spec.peer(stream, name), Meter.of(drawn)) for name in spec.variants]
        for t in range(1, drawn.stream.rounds + 1):
            clients = drawn.round(t, Z)
            for run in runs:
                run.play(t, clients)
    best = max(runs, key=lambda run: run.meter.served.sum())
    return finished(drawn, method, best.meter, best.restarts, best.seconds, l2=l2, variant=best.name)


@dataclass
class _Variant:
    """One choice of constants, and its counts."""

    name: str
    peer: Peer
    meter: Meter
    restarts: list[Found] = field(default_factory=list)
    seconds: float = 0.0

    def play(self, t: int, clients: Sequence[ClientRecords]) -> None:
        """Predict a round with the peer's model, let it learn, and predict the same round again."""
        began = stopwatch()
        losses = [self._predict(t, name, own) for name, own in zip(self.meter.names, clients, strict=True)]
        scored = np.concatenate(losses)
        self.meter.add_losses(t, scored)
        cause = self.peer.learn(t, clients, float(scored.mean()))
        if cause is not None:
            self.restarts.append(Found(round=t, cause=cause))
        for name, own in zip(self.meter.names, clients, strict=True):
            right = int((SOFTMAX.predict(self.peer.outputs(own.Z)) == own.y).sum())
            self.meter.add(name, t, post_update=right)
        self.seconds += stopwatch() - began

    def _predict(self, t: int, name: str, own: ClientRecords) -> FloatArray:
        outputs = self.peer.outputs(own.Z)
        right = int((SOFTMAX.predict(outputs) == own.y).sum())
        self.meter.add(name, t, records=len(own.y), served=right, at_start=right)
        return scores(outputs, own)
