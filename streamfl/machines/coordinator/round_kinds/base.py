"""The interface of a kind of round. A coordinator has one, chosen once; nothing else asks what clients send."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from streamfl.learning.pooling.layout import Layout
from streamfl.learning.profiles.base import Decisions
from streamfl.machines.coordinator.round.closing import Closing, CountedUpdates
from streamfl.machines.coordinator.round.unsaved import Enquiry, PendingAlarm
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import Refused
from streamfl.protocol.messages import Refusal, Roster, RoundOpened, Score, Scores, Unmasked, Update
from streamfl.protocol.registry import Registry

# Why an answer is refused that answers nothing.
NOT_ASKED = "nobody has asked for seeds"


@dataclass(frozen=True, eq=False)
class NoTotal:
    """No total can be told: the entry closes without learning anything."""

    # What clients say of the next period of event time; None: the period stays.
    periods: tuple[int | None, ...] | None = None
    silent: frozenset[str] = frozenset()  # the clients because of which no total can be told
    left_out: tuple[Refusal, ...] = ()  # what is told of those of them that are left out of the next totals


@dataclass(frozen=True)
class RoundKind(ABC):
    """What clients send of a round, and what of it counts."""

    settings: CoordinatorSettings  # how the coordinator works

    sends_sums: ClassVar[bool] = False
    """Whether clients send sums, of which only the total over clients is used."""

    resumes: ClassVar[bool] = True
    """Whether an entry that was open before a kill can be opened again; otherwise its records go to the next one."""

    on_grids: ClassVar[bool] = True
    """Whether what is sent and published is rounded to fit in few bytes."""

    finds_culprits: ClassVar[bool] = True
    """Whether it can be found out whose message makes something raise, by leaving it out."""

    @property
    def min_clients_per_name(self) -> int:
        """Return how many clients name a feature or label in a round, at least, when it is taken up."""
        return 1

    # --- who takes part --------------------------------------------------------------------------------------------

    def roster(self, state: CoordinatorState) -> Roster | None:
        """Return the clients that mask their sums in the round that opens; None if sums are not masked."""
        return None

    def entry_to_repeat(self, state: CoordinatorState) -> int:
        """Return the entry whose total the round that opens repeats; 0 for none."""
        return 0

    def not_listed(self, name: str, state: CoordinatorState) -> str | None:
        """Return why a member cannot send an update for the open round, or None."""
        return None

    def has_newcomers(self, names: Iterable[str], state: CoordinatorState) -> bool:
        """Tell whether one of these members can send an update for the next entry, and none for the open one."""
        return False

    def is_lost(self, name: str, state: CoordinatorState) -> bool:
        """Tell whether a client whose sums count is gone, without which no total can be told."""
        return False

    def is_enough(self, updates: Mapping[str, Update], state: CoordinatorState) -> bool:
        """Tell whether a round can be closed with these updates."""
        return bool(updates)

    # --- what is sent ----------------------------------------------------------------------------------------------

    def layout(self, opened: RoundOpened, registry: Registry) -> Layout | None:
        """Return the layout of the sums of an update; None if clients send no sums."""
        return None

    def layout_of(self, asked: Score, registry: Registry) -> Layout | None:
        """Return the layout of the sums of scores; None if clients send no sums."""
        return None

    # --- what counts -----------------------------------------------------------------------------------------------

    @abstractmethod
    def count(self, closing: Closing, state: CoordinatorState) -> CountedUpdates | Enquiry | NoTotal:
        """Return what counts of a round with records, or what clients are asked first."""

    def count_after(self, enquiry: Enquiry, closing: Closing, state: CoordinatorState) -> CountedUpdates | NoTotal:
        """Return what counts of a round about which clients were asked, by the answers that have come."""
        raise NotImplementedError

    @abstractmethod
    def count_scores(
        self, alarm: PendingAlarm, scores: Mapping[str, Scores], enquiry: Enquiry | None, registry: Registry
    ) -> Sequence[tuple[Update, Scores]] | Enquiry:
        """Return the scores of candidates that count, each with the update whose records they are about.

        Parameters
        ----------
        enquiry
            What clients were asked about them, with the answers that have come; None if they were not asked. If they
            have to be, the enquiry is returned.
        """

    def refusal(self, answer: Unmasked, enquiry: Enquiry | None, state: CoordinatorState) -> Refused | None:
        """Return why an answer to an enquiry is refused, or None; one that comes late or twice is not a fault."""
        return Refused(answer.client, NOT_ASKED)

    def with_known_clients(self, decided: Decisions) -> Decisions:
        """Return the decisions of a profile with the clients that can be named."""
        return decided
