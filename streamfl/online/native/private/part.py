"""All that one client knows alone, as a value: what a saved estimator keeps, and what a client's own file adds."""

from dataclasses import dataclass, field
from typing import ClassVar

from streamfl.arrays import HOLDS_ARRAYS
from streamfl.online.native.mixture_state import MixtureState
from streamfl.online.native.private.last_answer_state import LastAnswerState
from streamfl.online.native.private.neighbours import Neighbours
from streamfl.online.native.private.own_state import OwnState
from streamfl.protocol.native.sleeping import Rest


@dataclass(frozen=True, eq=False)
class OwnPart:
    """What a client's native models know that the client never sends, at one time."""

    __pydantic_config__: ClassVar[dict[str, object]] = HOLDS_ARRAYS

    mixture: MixtureState  # the client's own mixture of all experts but its own model and the last answer
    neighbours: Neighbours | None  # its last records; None if the settings have no such experts, as the next two
    last: LastAnswerState | None  # its last label or target, what followed it so far, and the outer mixture
    own: OwnState | None  # its own model
    rest: Rest = field(default_factory=Rest)  # the sleep of its nearest neighbours
