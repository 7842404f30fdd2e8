"""The phases of a client."""

from enum import Enum


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

    Simulations check every step of every client against a table of all transitions (`tests/worlds/phases.py`).
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
