"""Which events may lead from one phase of a client, or of the coordinator, to another: all transitions, as tables."""

from typing import NamedTuple

from streamfl.machines.client.phase import Phase
from streamfl.machines.coordinator.phase import Phase as Stage
from streamfl.protocol.decisions import ClientDecision, Dropped
from streamfl.protocol.events import (
    BufferDue,
    ClientEvent,
    CoordinatorEvent,
    FeaturesEnded,
    RecordsFetched,
    RecordsRead,
    SourceEnded,
    Stopped,
    Tick,
    WindowFull,
)
from streamfl.protocol.messages import (
    Ended,
    Fenced,
    Join,
    Joined,
    Left,
    ModelPublished,
    ModelsChanged,
    OnlinePublished,
    Refusal,
    RegistryPublished,
    Roster,
    RoundClosed,
    RoundOpened,
    Score,
)


class Transition(NamedTuple):
    """Any phase of `before` may lead to any of `after`, by any event of `by`. Dropped counts as an event."""

    before: tuple[Phase, ...]
    by: tuple[type, ...]
    after: tuple[Phase, ...]


UNPLACED = (Phase.FILLING, Phase.JOINING)
BEFORE_UPDATE = (Phase.RESTORING, Phase.WAITING, Phase.GATHERING)
IN_FLIGHT = (Phase.SENT, Phase.SCORING)
ALL_BUT_LEFT = (*UNPLACED, *BEFORE_UPDATE, *IN_FLIGHT, Phase.LEAVING)

ANYTHING = (object,)
MODELS = (RegistryPublished, ModelPublished, ModelsChanged, OnlinePublished, Roster)

TRANSITIONS = (
    # One round after another.
    Transition((Phase.FILLING,), (RecordsRead, SourceEnded, FeaturesEnded, BufferDue, WindowFull), (Phase.JOINING,)),
    Transition(UNPLACED, (Joined,), (*BEFORE_UPDATE, Phase.SENT, Phase.LEAVING)),
    Transition((Phase.RESTORING,), (RecordsFetched,), (Phase.WAITING, Phase.GATHERING, Phase.SENT)),
    Transition((Phase.WAITING,), (RoundOpened, *MODELS), (Phase.GATHERING, Phase.SENT)),
    Transition((Phase.GATHERING,), ANYTHING, (Phase.SENT,)),  # its closing time may pass with any event
    Transition((Phase.SENT,), (Score,), (Phase.SCORING,)),
    Transition((Phase.SCORING,), (*MODELS, Score), (Phase.SENT,)),
    Transition(IN_FLIGHT, (RoundClosed,), (*BEFORE_UPDATE, Phase.SENT, Phase.LEAVING)),
    # The end.
    Transition(BEFORE_UPDATE, (SourceEnded,), (Phase.LEAVING,)),
    Transition((*UNPLACED, *BEFORE_UPDATE), (Stopped,), (Phase.LEAVING,)),
    # Too few are left to mask their sums; or not, after all.
    Transition((Phase.WAITING,), (RoundOpened, RoundClosed, *MODELS, RecordsRead), (Phase.LEAVING,)),
    Transition((Phase.LEAVING,), (RoundOpened, RoundClosed, Roster), BEFORE_UPDATE),
    Transition(ALL_BUT_LEFT, (Left, Refusal, Fenced), (Phase.LEFT,)),  # Left may come late, and Refusal evict
    # The place in the ledger becomes unknown, or all messages are forgotten.
    Transition((*BEFORE_UPDATE, *IN_FLIGHT), (RoundOpened, RoundClosed, Refusal, Ended, Dropped), UNPLACED),
    Transition((*BEFORE_UPDATE, *IN_FLIGHT), (Joined, Left), UNPLACED),  # of another start; that it has not asked for
    Transition((Phase.LEAVING,), (RoundOpened, RoundClosed, Ended, Joined, Dropped), (Phase.JOINING,)),
    Transition((Phase.JOINING, *IN_FLIGHT), (Dropped,), (Phase.LEAVING,)),  # it was stopped
    # A belief turns out wrong: a round of another size, other models, more records, a late answer.
    Transition((Phase.FILLING,), (RoundOpened, Stopped, Left, Dropped), (Phase.JOINING,)),
    Transition((Phase.JOINING,), (RoundOpened, RecordsRead, Dropped), (Phase.FILLING,)),
    Transition((Phase.WAITING,), (RoundClosed, Tick), (Phase.GATHERING, Phase.SENT)),
    Transition((Phase.GATHERING,), (RoundOpened, RoundClosed, *MODELS), (Phase.WAITING,)),
    Transition(IN_FLIGHT, (RoundOpened,), (Phase.RESTORING, Phase.WAITING, Phase.SENT, Phase.LEAVING)),
    Transition((Phase.LEAVING,), (RecordsRead,), (*BEFORE_UPDATE, Phase.SENT)),
    Transition((*BEFORE_UPDATE, *IN_FLIGHT, Phase.LEAVING), (Joined,), (*BEFORE_UPDATE, Phase.SENT, Phase.LEAVING)),
)


def may_follow(before: Phase, event: ClientEvent, decisions: list[ClientDecision], after: Phase) -> bool:
    """Tell whether one phase may follow another.

    Examples
    --------
    >>> may_follow(Phase.FILLING, SourceEnded(), [], Phase.JOINING), may_follow(Phase.LEFT, Tick(), [], Phase.JOINING)
    (True, False)
    """
    causes = [event, *(decision for decision in decisions if isinstance(decision, Dropped))]
    return before is after or any(
        before in row.before and after in row.after and any(isinstance(cause, row.by) for cause in causes)
        for row in TRANSITIONS
    )


# The event that may lead from one phase to another. Any message may be the last one that a round waits for, even a
# refused one: the round no longer waits for its client.
STAGES: dict[tuple[Stage, Stage], type] = {
    (Stage.GATHERING, Stage.COLLECTING): Join,
    (Stage.COLLECTING, Stage.SCORING): object,
    (Stage.SCORING, Stage.COLLECTING): object,
    (Stage.COLLECTING, Stage.ENQUIRING): object,
    (Stage.SCORING, Stage.ENQUIRING): object,
    (Stage.ENQUIRING, Stage.COLLECTING): object,
    (Stage.ENQUIRING, Stage.SCORING): object,
}


def stage_may_follow(before: Stage, event: CoordinatorEvent, after: Stage) -> bool:
    """Tell whether an event may lead from one phase to another.

    Examples
    --------
    >>> from streamfl.protocol.events import Tick
    >>> [stage_may_follow(Stage.COLLECTING, Tick(), after) for after in (Stage.SCORING, Stage.GATHERING)]
    [True, False]
    """
    return before is after or isinstance(event, STAGES.get((before, after), ()))
