"""Scores of candidates after an alarm."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamfl.arrays import FloatArray
from streamfl.protocol.messages.base import Message
from streamfl.protocol.messages.rounds import Slot
from streamfl.protocol.messages.updates import SlotLosses


@dataclass(frozen=True, kw_only=True)
class Score(Message):
    """Coordinator: asks clients to score candidates on the records of the round that raised an alarm.

    Published after an alarm, before the round closes, once for each stage. Clients keep the round's records until
    `RoundClosed`.
    """

    # As in the open round:
    entry: int
    round: int
    epoch: int
    registry: int
    # The candidates; those with `trained` need a difference as well. None if only `untrained_loss` is wanted.
    slots: tuple[Slot, ...]
    stage: int = 1  # a counter, from 1: what is asked for may depend on the answers of the stage before
    # The slots of which clients also send sums for relabelling, see `Scores.relabelling`.
    relabel: tuple[str, ...] = ()
    wants_untrained_loss: bool = False  # whether clients also send `Scores.untrained_loss`
    resumed: int = 0  # as in the open round: a restarted coordinator asks from stage 1 on


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores(Message):
    """Client: answers `Score`.

    A client whose answer has not come by the deadline is left out of the choice.
    """

    # As in `Update`; the attempt is that of this answer.
    client: str
    attempt: str
    entry: int
    epoch: int
    # By slot, as in `Update`.
    losses: Mapping[str, SlotLosses]
    differences: Mapping[str, FloatArray]
    stage: int = 1

    # By slot of `relabel`, the sums S[a, b] of max(ln p_b, -2 ln K) over its records of label a, with p_b the
    # probability of label b and K the number of labels; shape (labels, labels), in nats.
    relabelling: Mapping[str, FloatArray] = field(default_factory=dict)
    sums: str = ""  # as in `Update`
    # The mean log-loss over its records of untrained online models that learn them one by one, in nats. Compared with
    # the mean of `NativeLearnt.loss`. None if it was not asked for, or the models are not compared.
    untrained_loss: float | None = None
    resumed: int = 0  # as in the `Score`
