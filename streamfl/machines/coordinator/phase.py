"""The phases of the coordinator."""

from enum import Enum


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
