"""The phases of the coordinator."""

from enum import Enum


class Phase(Enum):
    """The phases of the coordinator. They are derived from its state, never stored.

    ==============  ==========================================  ==================================
    from            by                                          to
    ==============  ==========================================  ==================================
    STOPPED         `start`, after a kill                       COLLECTING
    GATHERING       the Join of the last client expected        COLLECTING
    COLLECTING      the last update, or the deadline            COLLECTING, the next round; SCORING
    SCORING         the last scores, or the deadline            COLLECTING; SCORING, the next stage
    ==============  ==========================================  ==================================
    """

    STOPPED = "a saved federation that has not been started"
    GATHERING = "fewer clients than expected have joined"
    COLLECTING = "a round is open and waits for updates"
    SCORING = "an alarm waits for scores of candidates"


# The phases that one event may lead to.
TRANSITIONS = {
    Phase.STOPPED: {Phase.STOPPED, Phase.COLLECTING},
    Phase.GATHERING: {Phase.GATHERING, Phase.COLLECTING},
    Phase.COLLECTING: {Phase.COLLECTING, Phase.SCORING},
    Phase.SCORING: {Phase.SCORING, Phase.COLLECTING},
}
