"""The messages between clients and the coordinator: the specification of the wire.

Messages are immutable values. Every message of the coordinator is published to all clients; every message of a client
goes to the coordinator. `streamfl.wire.messages` encodes them; the core never sees bytes.

**Conventions.**

- A *position* is the place of a record in its partition, an integer that grows. `Span` is a half-open range of them.
- An *ordinal* numbers the records of one client, good and bad, from 0, in the order in which they were read.
- *Rounds*, *epochs*, *entries* and *versions* are integers that grow. Rounds, epochs and entries begin at 1.
- A *score* is a loss that is bounded and scaled to [0, 1], so it has no unit. A *proper score* is the one by which
  candidates are compared. `streamfl.models` defines both.
- z is the standardised feature vector of a record with a constant 1 appended, of length d + 1 for d registered
  features. A weight matrix has the shape (d + 1, columns), with a column for each label, or one for targets.
- A time is told as the seconds until then: clocks of processes differ, and are set.
- Arrays are float64.

A reader discards a message of an older round or epoch than its own, so the order between topics does not matter. The
coordinator checks every field of every message of a client, and answers an update that does not count with `Refusal`.
"""

from streamfl.protocol.messages.base import Message
from streamfl.protocol.messages.changes import (
    APART,
    LOCAL_STATES,
    TOGETHER_AGAIN,
    FeatureMoved,
    FeatureStuck,
    Finding,
    InputsMoved,
    InputsStuck,
    LocalDrift,
    Noticed,
    Restarted,
)
from streamfl.protocol.messages.commands import Action, Command, MemberAction, MemberChanged
from streamfl.protocol.messages.decision_rule import DecisionRule, Tried
from streamfl.protocol.messages.entries import Accepted, Ended, RoundClosed
from streamfl.protocol.messages.joining import Fenced, Join, Joined, Leave, Left, Refusal
from streamfl.protocol.messages.ledger import HeldRecord, SampledRound, Watermark
from streamfl.protocol.messages.masks import Disclosed, Roster, Unmask, Unmasked, digest_of, ends_of
from streamfl.protocol.messages.models import (
    BEFORE,
    NOTHING,
    AgreedState,
    ModelPublished,
    ModelsChanged,
    OnlinePublished,
    RegistryPublished,
)
from streamfl.protocol.messages.rounds import (
    BranchGroup,
    EarlierRecords,
    HoldoutRule,
    MomentsAsked,
    RoundOpened,
    Slot,
    TotalsAsked,
    asked_of,
    wrong_slots,
)
from streamfl.protocol.messages.scores import Score, Scores
from streamfl.protocol.messages.updates import KeptRecords, LabelSums, Learnt, Numbers, Served, SlotLosses, Update

__all__ = [
    "APART",
    "BEFORE",
    "LOCAL_STATES",
    "NOTHING",
    "TOGETHER_AGAIN",
    "Accepted",
    "Action",
    "AgreedState",
    "BranchGroup",
    "Command",
    "DecisionRule",
    "Disclosed",
    "EarlierRecords",
    "Ended",
    "FeatureMoved",
    "FeatureStuck",
    "Fenced",
    "Finding",
    "FromClient",
    "FromCoordinator",
    "HeldRecord",
    "HoldoutRule",
    "InputsMoved",
    "InputsStuck",
    "Join",
    "Joined",
    "KeptRecords",
    "LabelSums",
    "Learnt",
    "Leave",
    "Left",
    "LocalDrift",
    "MemberAction",
    "MemberChanged",
    "Message",
    "ModelPublished",
    "ModelsChanged",
    "MomentsAsked",
    "Noticed",
    "Numbers",
    "OnlinePublished",
    "Refusal",
    "RegistryPublished",
    "Restarted",
    "Roster",
    "RoundClosed",
    "RoundOpened",
    "SampledRound",
    "Score",
    "Scores",
    "Served",
    "Slot",
    "SlotLosses",
    "TotalsAsked",
    "Tried",
    "Unmask",
    "Unmasked",
    "Update",
    "Watermark",
    "asked_of",
    "digest_of",
    "ends_of",
    "wrong_slots",
]

FromClient = Join | Leave | Update | Scores | Unmasked
FromCoordinator = (
    Joined
    | Left
    | Fenced
    | Refusal
    | RoundOpened
    | RegistryPublished
    | ModelPublished
    | ModelsChanged
    | OnlinePublished
    | Roster
    | Score
    | Unmask
    | RoundClosed
    | Restarted
    | LocalDrift
    | InputsMoved
    | InputsStuck
    | Noticed
    | MemberChanged
    | Ended
)
