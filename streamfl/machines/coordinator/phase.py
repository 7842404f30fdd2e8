"""The phases of the coordinator, and what leads from one to another."""

from enum import Enum

from streamfl.protocol.events import CoordinatorEvent
from streamfl.protocol.messages import Join


class Phase(Enum):
    """The phases of the coordinator. They are derived from its state, never stored.

    ==============  ==========================================  ==============================================
    from            by                                          to
    ==============  ==========================================  ==============================================
    STOPPED         `start`, after a kill                       COLLECTING
    GATHERING       the Join of the last client expected        COLLECTING
    COLLECTING      the last update, or the deadline            COLLECTING, the next round; SCORING; ENQUIRING
    SCORING         the last scores, or the deadline            COLLECTING; SCORING, the next stage; ENQUIRING
    ENQUIRING       the last answer, or the deadline            COLLECTING; SCORING
    ==============  ==========================================  ==============================================
    """

    STOPPED = "a saved federation that has not been started"
    GATHERING = "fewer clients than expected have joined"
    COLLECTING = "a round is open and waits for updates"
    SCORING = "an alarm waits for scores of candidates"
    ENQUIRING = "what clients have sent counts only after they have answered the enquiry of the kind of round"


# The event that may lead from one phase to another. Any message may be the last one that a round waits for, even a
# refused one: the round no longer waits for its client.
TRANSITIONS: dict[tuple[Phase, Phase], type] = {
    (Phase.GATHERING, Phase.COLLECTING): Join,
    (Phase.COLLECTING, Phase.SCORING): object,
    (Phase.SCORING, Phase.COLLECTING): object,
    (Phase.COLLECTING, Phase.ENQUIRING): object,
    (Phase.SCORING, Phase.ENQUIRING): object,
    (Phase.ENQUIRING, Phase.COLLECTING): object,
    (Phase.ENQUIRING, Phase.SCORING): object,
}


def may_follow(before: Phase, event: CoordinatorEvent, after: Phase) -> bool:
    """Tell whether an event may lead from one phase to another; simulations check every step against it.

    Examples
    --------
    >>> from streamfl.protocol.events import Tick
    >>> may_follow(Phase.COLLECTING, Tick(), Phase.SCORING), may_follow(Phase.COLLECTING, Tick(), Phase.GATHERING)
    (True, False)
    """
    return before is after or isinstance(event, TRANSITIONS.get((before, after), ()))
