"""Profile `paper` driven round by round, with models that record the rounds in which they were trained."""

from collections.abc import Sequence

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.drift.evidence import LiveModel, ModelEvidence, RoundEvidence
from streamfl.learning.profiles.base import Restart
from streamfl.learning.profiles.paper.block import Block
from streamfl.learning.profiles.paper.profile import Paper, PaperSettings
from streamfl.learning.profiles.paper.schedule import PlacedInstance
from streamfl.protocol.alarm import Alarm

ROUNDS = 600
SCRATCH = np.zeros((ROUNDS, 1))


def trained_in(W: FloatArray) -> list[int]:
    """Return the rounds that a model was trained in."""
    return [int(t) for t in np.flatnonzero(W)]


def instance(order: int, start: int) -> PlacedInstance:
    """Return the placement of 2^order rounds from `start`."""
    return PlacedInstance(start=start, end=start + 2**order - 1, order=order)


def in_block(settings: PaperSettings, order: int, schedule: Sequence[PlacedInstance], start: int = 1) -> Paper:
    """Return a profile at the start of its first block, with a given schedule."""
    return Paper(settings, block=Block(order, start, 1, tuple(schedule)), blocks=1, horizon=settings.horizon)


def close(
    paper: Paper, t: int, loss: float = 0.0, *, past: float | None = None, records: int = 1000
) -> tuple[LiveModel, Alarm | None]:
    """Play round t up to the tests, and return the live model and the alarm."""
    (live,) = paper.open(t, SCRATCH, 1.0).live
    stepped = live.W.copy()
    stepped[t] = 1.0
    played = ModelEvidence(
        loss, 1.0 - loss, stepped, history_loss=past, history_records=records if past is not None else 0
    )
    return live, paper.close(RoundEvidence(t, records, {live.name: played}))


def play(
    paper: Paper, t: int, loss: float = 0.0, *, past: float | None = None, records: int = 1000
) -> tuple[LiveModel, Alarm | None]:
    """Play round t to its end, with the restart if there is an alarm."""
    live, alarm = close(paper, t, loss, past=past, records=records)
    if alarm is None:
        paper.advance(t)
    else:
        restart(paper, t, alarm)
    return live, alarm


def restart(paper: Paper, t: int, alarm: Alarm | None = None) -> Restart:
    """Restart after round t."""
    alarm = alarm or Alarm("test2", 1.0, 1.0, since=t)
    return paper.conclude(paper.deliberate(alarm, RoundEvidence(t, 1000, {}), SCRATCH))
