"""Our own models that learn between rounds, as the machines know them: `streamfl.core.learning.between_rounds`."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from streamfl.core.arrays import IntArray
from streamfl.core.between.native.admission import wrong_learnt
from streamfl.core.between.native.agreed_round import after_round
from streamfl.core.between.native.at_client import NativeAtClient
from streamfl.core.bounds import Limits
from streamfl.core.learning.between_rounds import BetweenRounds, Covered, Renewal
from streamfl.core.protocol.messages import BetweenPublished
from streamfl.core.protocol.native.learnt import NativeLearnt
from streamfl.core.protocol.native.models import NativeState
from streamfl.core.protocol.native.settings import NativeSettings


@dataclass(frozen=True)
class NativeBetweenRounds(BetweenRounds[NativeState, NativeLearnt]):
    """Linear models, ferns, nearest neighbours, and a mixture of them.

    Parameters
    ----------
    settings
        Which of them learn, and what.

    Examples
    --------
    >>> native = NativeBetweenRounds(NativeSettings("linear", neighbours=False))
    >>> sorted(native.names), native.initial(("a",)).seen
    (['linear-10', 'rounds', 'whitened-0.01', 'whitened-0.1'], 0)
    """

    state = NativeState
    learnt = NativeLearnt
    pairs_features = True

    settings: NativeSettings

    @cached_property
    def names(self) -> AbstractSet[str]:
        """Return the names of the experts that are mixed."""
        return frozenset(self.settings.experts)

    def initial(self, labels: tuple[str, ...]) -> NativeState:
        """Return models over no names: they learn these as records come."""
        return NativeState.none(self.settings)

    def has_made(self, agreed: NativeState) -> bool:
        """Tell whether agreed models have the shapes that the settings give them."""
        return agreed.fits(self.settings, self.settings.table_rows)

    def wrong(self, learnt: NativeLearnt, agreed: NativeState, covered: Covered) -> str | None:
        """Return why what a client has learnt cannot be used, or None."""
        return wrong_learnt(learnt, agreed, covered)

    def after(
        self,
        agreed: NativeState,
        learnt: Mapping[str, NativeLearnt],
        labels: tuple[str, ...],
        *,
        apart: AbstractSet[str] = frozenset(),
        renewal: Renewal | None = None,
        limits: Limits,
    ) -> tuple[NativeState, IntArray | None]:
        """Return the models after a round; they forget by themselves, so that a restart renames labels at most."""
        renamed = None if renewal is None else renewal.renamed
        return after_round(agreed, learnt, labels, self.settings, apart=apart, renamed=renamed)

    def published(self, agreed: NativeState, version: int, changed: IntArray | None = None) -> BetweenPublished:
        """Return the models with all of the table of ferns, or with the rows that changed."""
        rows = agreed.table.copy() if changed is None else agreed.table.take(changed, axis=0)
        cells = None if changed is None else changed.astype(np.float64)
        return BetweenPublished(version=version, agreed=replace(agreed, table=rows), cells=cells)

    def unusable(self, published: BetweenPublished) -> str | None:
        """Return why a client cannot use what was published, or None if it can."""
        if not isinstance(published.agreed, NativeState):
            return None  # of another learner: it is not taken
        cells, rows = published.cells, self.settings.table_rows
        if cells is not None and (cells.ndim != 1 or not ((cells >= 0) & (cells < rows)).all()):
            return "rows of a table that has none such"
        fits = published.agreed.fits(self.settings, rows if cells is None else len(cells))
        return None if fits else "models between rounds that do not fit their names"

    def at_client(self) -> NativeAtClient:
        """Return them at a client that has learnt nothing yet."""
        return NativeAtClient(self.settings)
