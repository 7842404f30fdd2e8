"""The record of one run of one method."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from streamfl.arrays import FloatArray
from streamfl.run.evaluation.result import DatedLocalDrift, Figures
from streamfl_benchmarks.drawn import DrawnStream
from streamfl_benchmarks.findings import Found, Local, detections, false_alarms, local_figures, local_findings
from streamfl_benchmarks.meter import Meter
from streamfl_benchmarks.records import Drawn

PENALTY = 2e-4  # that of the paper's experiment


class Run(BaseModel):
    """The figures of one method on one stream with one seed.

    `variant` names the constants that were best in hindsight, if the method has some; `seconds` are of that
    variant. `loss` is the mean cross-entropy of the models at the starts of rounds, in units of 2 ln K and clipped at
    1, K being the number of labels of the stream; a label that a federation has not registered yet counts 1. `l2` is
    the weight of the penalty. For a recorded stream it is unknown which alarms are false.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stream: str
    drift: str
    method: str
    seed: int
    at: tuple[int, ...]
    condition: str
    clients: int
    round_size: int
    rounds: int
    l2: float = PENALTY
    variant: str = ""
    records: int
    accuracy: Figures
    loss: float
    restarts: tuple[Found, ...]
    detections: tuple[int | None, ...]
    false_alarms: int | None
    local: Local | None = None
    seconds: float

    @property
    def drawn(self) -> DrawnStream:
        """Return the stream that was learnt from."""
        return DrawnStream(
            stream=self.stream,
            drift=self.drift,
            at=self.at,
            condition=self.condition,
            clients=self.clients,
            round_size=self.round_size,
            rounds=self.rounds,
            seed=self.seed,
        )

    @property
    def key(self) -> str:
        """Return the unique name of this run."""
        return key(self.drawn, self.method, self.l2)


def key(stream: DrawnStream, method: str, l2: float = PENALTY) -> str:
    """Return the name of a run; the penalty of the paper is not mentioned.

    >>> key(DrawnStream("covtype", "class-swap", (65, 187), rounds=200, seed=3), "fedavg")
    'covtype class-swap@65,187 plain 20x1000x200 seed 3: fedavg'
    """
    at = f"@{','.join(map(str, stream.at))}" if stream.at else ""
    size = f"{stream.clients}x{stream.round_size}x{stream.rounds}"
    penalty = "" if l2 == PENALTY else f" l2 {l2:g}"
    return f"{stream.stream} {stream.drift}{at} {stream.condition} {size}{penalty} seed {stream.seed}: {method}"


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """A run and the loss of each of its rounds, shape (rounds,)."""

    run: Run
    losses: FloatArray


def finished(
    drawn: Drawn,
    method: str,
    meter: Meter,
    restarts: Sequence[Found],
    seconds: float,
    *,
    l2: float,
    variant: str = "",
    local_drifts: Sequence[DatedLocalDrift] = (),
) -> Finished:
    """Return the run of a method from its counts and findings."""
    stream = drawn.stream
    found = [*restarts, *local_findings(local_drifts)]
    run = Run(
        stream=stream.stream,
        drift=stream.drift,
        method=method,
        seed=stream.seed,
        at=stream.at,
        condition=stream.condition,
        clients=stream.clients,
        round_size=stream.round_size,
        rounds=stream.rounds,
        l2=l2,
        variant=variant,
        records=int(meter.records.sum()),
        accuracy=meter.figures(),
        loss=meter.mean_loss(),
        restarts=tuple(restarts),
        detections=detections(stream, found),
        false_alarms=None if stream.is_recorded else false_alarms(stream, found),
        local=local_figures(stream, local_drifts, meter) if stream.drift == "local" else None,
        seconds=round(seconds, 3),
    )
    return Finished(run, meter.losses())
