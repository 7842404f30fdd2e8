"""The phases of a client, and the events that lead from one to another."""

from enum import Enum
from typing import NamedTuple

from streamfl.protocol.decisions import ClientDecision, Dropped
from streamfl.protocol.events import (
    BufferDue,
    ClientEvent,
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


class Phase(Enum):
    """The phases of a client. They are derived from its state (`ClientState.phase`), never stored.

    ==========  ==================================================  ============================  =================
    phase       what it does                                        until                         then
    ==========  ==================================================  ============================  =================
    FILLING     reads the records to join with                      enough records, or no more    JOINING
    JOINING     asks for its place in the ledger                    Joined                        RESTORING WAITING
    RESTORING   reads old records that the ledger lists again       RecordsFetched                WAITING
    WAITING     waits for the next round and its models             all have arrived              GATHERING
    GATHERING   reads the records of the open round                 enough records, or the clock  SENT
    SENT        has sent its update, and waits for the ledger       RoundClosed, or Score         WAITING SCORING
    SCORING     is asked to score candidates, and waits for them    all have arrived              SENT
    LEAVING     has nothing left to send, and asks to leave         Left                          LEFT
    LEFT        has left, was evicted or superseded: does nothing   the end
    ==========  ==================================================  ============================  =================

    One event may lead through several phases: if models and records have arrived already, Joined leads from JOINING
    to SENT. A client with no records left goes to LEAVING instead of GATHERING. When its place in the ledger becomes
    unknown it starts again with JOINING, or with FILLING if it has too few records.

    `TRANSITIONS` lists every allowed transition and its events; simulations check every step of every client.
    """

    FILLING = "filling"
    JOINING = "joining"
    RESTORING = "restoring"
    WAITING = "waiting"
    GATHERING = "gathering"
    SENT = "sent"
    SCORING = "scoring"
    LEAVING = "leaving"
    LEFT = "left"

    @property
    def waits(self) -> bool:
        """Tell whether the next step is the coordinator's, so that the client asks if no message comes."""
        return self not in WAITS_FOR_NOBODY


# What comes next is the client's own step, or nothing.
WAITS_FOR_NOBODY = (Phase.FILLING, Phase.GATHERING, Phase.LEFT)


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

    Parameters
    ----------
    before, after
        The phases before and after one event.

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
