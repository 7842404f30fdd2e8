"""Native models behind the interface of `streamfl.learning.online_models`."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Optional

from streamfl.bounds import Limits
from streamfl.learning.influence import Contributions
from streamfl.learning.online_models import NO_BRANCHES, Covered, OnlineModels, Renewal
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.merging import influence
from streamfl.online.native.merging.agreed_round import after_round
from streamfl.online.native.merging.alone import ALONE
from streamfl.online.native.merging.in_order import learnt_as_received
from streamfl.online.native.merging.of_branches import with_branches
from streamfl.online.native.merging.on_grids import ON_GRIDS
from streamfl.online.native.merging.way import Way
from streamfl.protocol.messages import OnlinePublished
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import LAST_ANSWER, OWN, NativeSettings

if TYPE_CHECKING:
    from streamfl.online.native.shared import Shared


@dataclass(frozen=True)
class NativeOnlineModels(OnlineModels[NativeState, NativeLearnt]):
    """Linear models, ferns and nearest neighbours, whose predictions are mixed.

    Examples
    --------
    >>> native = NativeOnlineModels(NativeSettings("linear", neighbours=False))
    >>> sorted(native.names), native.initial(("a",)).seen
    (['last-answer', 'linear-10', 'own', 'rounds', 'whitened-0.01', 'whitened-0.1'], 0)
    """

    state = NativeState
    learnt = NativeLearnt
    pairs_features = True

    settings: NativeSettings  # which of them learn, and whether they predict labels or targets
    # What its clients share; None: nothing.
    shared: Optional["Shared"] = field(default=None, compare=False, repr=False)
    way: Way = ON_GRIDS  # how what a client learnt goes to the coordinator

    @cached_property
    def names(self) -> AbstractSet[str]:
        """Return the names of the experts, those of each client included."""
        own = (LAST_ANSWER, OWN) if self.settings.last_answer else ()
        return frozenset((*self.settings.experts, *own))

    def initial(self, labels: tuple[str, ...]) -> NativeState:
        """Return the state of untrained models; they learn the labels from records, as the features."""
        return NativeState.none(self.settings)

    def has_made(self, agreed: NativeState) -> bool:
        """Tell whether an agreed state has the shapes that the settings require."""
        return agreed.is_sound(self.settings, self.settings.table_rows)

    def named(self, learnt: NativeLearnt, agreed: NativeState) -> NativeLearnt:
        """Return what a client learnt with all names, and cells: an update has new names, and places."""
        named = learnt.named(agreed.features, agreed.labels)
        return learnt_as_received(named, agreed.order) if agreed.steps.are_known else named

    def wrong(self, learnt: NativeLearnt, agreed: NativeState, covered: Covered) -> str | None:
        """Return why what a client learnt cannot be merged, or None if it can."""
        return self.way.wrong(learnt, agreed, covered)

    def after(
        self,
        agreed: NativeState,
        learnt: Mapping[str, NativeLearnt],
        labels: tuple[str, ...],
        *,
        apart: AbstractSet[str] = frozenset(),
        branches: Mapping[str, Collection[str]] = NO_BRANCHES,
        renewal: Renewal | None = None,
        limits: Limits,
    ) -> tuple[NativeState, NativeChange | None]:
        """Return the agreed state after a round.

        Native models forget on their own, so most restarts only rename labels. They begin again if that is better.
        """
        if renewal is not None and renewal.begins_again:
            return replace(
                self.initial(labels).grown((), labels), times_begun_again=agreed.times_begun_again + 1
            ), None
        renamed = None if renewal is None else renewal.renamed
        merged = after_round(agreed, learnt, labels, self.settings, apart=apart, renamed=renamed, way=self.way)
        return with_branches(agreed, learnt, branches, *merged)

    def contributions(
        self, learnt: Mapping[str, NativeLearnt], agreed: NativeState, seed: int
    ) -> Mapping[str, Contributions]:
        """Return what clients learnt as numbers to be compared: the linear weights, and the cells of ferns."""
        return influence.contributions(learnt, agreed, seed)

    def times(self, learnt: NativeLearnt, share: float) -> NativeLearnt:
        """Return what a client learnt, of which a share counts."""
        pairs = influence.fewer_pairs(learnt.pairs, share)
        return replace(learnt, weights=share * learnt.weights, table=share * learnt.table, pairs=pairs)

    def of_fewer(self, learnt: NativeLearnt, records: int) -> NativeLearnt:
        """Return what a client learnt as if from fewer records."""
        return influence.of_fewer(learnt, records)

    def published(self, agreed: NativeState, version: int, change: NativeChange | None = None) -> OnlinePublished:
        """Return the agreed state as it is published, or its change."""
        if change is not None:
            return OnlinePublished(version=version, agreed=change)
        whole = replace(agreed.published, table=agreed.table.copy())
        return OnlinePublished(version=version, agreed=whole)

    def unusable(self, published: OnlinePublished) -> str | None:
        """Return why a client cannot use a published state, or None; a change is checked when it is used."""
        agreed = published.agreed
        if not isinstance(agreed, NativeState) or agreed.is_sound(self.settings, self.settings.table_rows):
            return None  # of an external model: it is ignored
        return "the online models do not fit their names"

    def at_client(self) -> NativeAtClient:
        """Return the models at a client that has learnt nothing yet."""
        return NativeAtClient(self.settings, self.shared, self.way)

    def agreed_only(self) -> "NativeOnlineModels":
        """Return the same without nearest neighbours and the last answer, which are a client's own."""
        return replace(self, settings=self.settings.agreed_only)

    def alone(self) -> "NativeOnlineModels":
        """Return the same models of a client that is alone, for good: what it learns is not rounded."""
        return replace(self, way=ALONE)

    def in_one_process(self) -> "NativeOnlineModels":
        """Return the same models for clients that are driven by one thread: they share the agreed table."""
        # Compiled loops take half a second to import, and a coordinator does without.
        from streamfl.online.native.shared import Shared  # noqa: PLC0415

        return replace(self, shared=Shared())
