"""The totals of a round in which clients send sums: the one update, and the one answer to Score, of all together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamfl.arrays import IntArray
from streamfl.errors import BrokenInvariantError
from streamfl.learning.pooling.layout import Layout
from streamfl.learning.pooling.masks import plain_total, total_of
from streamfl.learning.pooling.sums import EVERYBODY, of_text, pooled, pooled_scores
from streamfl.learning.profiles.base import Restart
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.messages import (
    LocalDrift,
    RoundOpened,
    Score,
    Scores,
    Unmasked,
    Update,
)
from streamfl.protocol.registry import Registry


@dataclass(frozen=True)
class Pool:
    """How sums of clients are added up.

    Parameters
    ----------
    settings
        How the coordinator works.
    opened, registry
        The open round and its registry.
    """

    settings: CoordinatorSettings
    opened: RoundOpened
    registry: Registry

    @property
    def layout(self) -> Layout:
        """Return the layout of updates."""
        by_label = self.settings.noise is None
        return Layout.of_round(self.opened, self.registry, self.settings.learner.model.columns, by_label=by_label)

    def layout_of(self, asked: Score) -> Layout:
        """Return the layout of the scores that are asked for."""
        return Layout.of_scores(asked, self.registry, self.settings.learner.model.columns)

    def update(self, updates: Sequence[Update], answers: Sequence[Unmasked]) -> Update:
        """Return the update of all clients together.

        Parameters
        ----------
        updates
            Those whose sums are added up, in the order of their clients.
        answers
            The seeds of their masks; none if they are not masked.
        """
        total = self._total([update.sums for update in updates], answers)
        made = pooled(updates, total, self.opened, self.layout, self.registry)
        noise = self.settings.noise
        return made if noise is None else self._with_noise(made, noise.deviations(self.layout), len(updates))

    def _with_noise(self, update: Update, deviations: Mapping[str, float], clients: int) -> Update:
        """Return an update of which is told that there is noise in it.

        Sums of squares of losses grow by the variance of the noise in their sums: detectors reckon with that.
        Second moments have no eigenvalue below what noise alone reaches, so that no step is long because of it.
        """
        variance = clients * deviations["losses"] ** 2
        losses = {name: replace(one, square=one.square + variance) for name, one in update.losses.items()}
        C = update.second_moments
        if C is not None:
            least = 2.0 * math.sqrt(clients * len(C)) * deviations["second"]
            values, vectors = np.linalg.eigh(C)
            C = (vectors * np.maximum(values, least)) @ vectors.T
        return replace(update, losses=losses, second_moments=C)

    def scores(
        self,
        scores: Sequence[Scores],
        updates: Mapping[str, Update],
        asked: Score,
        answers: Sequence[Unmasked],
        *,
        more: int,
    ) -> Scores:
        """Return the scores of all clients together, of the records of their updates; `more` labels are new."""
        total = self._total([one.sums for one in scores], answers)
        of = [updates[one.client] for one in scores]
        return pooled_scores(
            total,
            asked,
            self.layout_of(asked),
            records=sum(update.records for update in of),
            trained=sum(update.trained for update in of),
            more=more,
        )

    def _total(self, texts: Sequence[str], answers: Sequence[Unmasked]) -> IntArray:
        sums = [part for part in map(of_text, texts) if part is not None]
        if self.settings.sums == "pooled":
            return plain_total(sums)
        if self.settings.expand is None:
            raise BrokenInvariantError("sums are masked, and nothing expands the seeds of masks")
        return total_of(sums, answers, self.settings.expand)


def without_everybody(decision: Restart | LocalDrift) -> Restart | LocalDrift:
    """Return a decision that names no clients: what changed is known of all together."""
    if isinstance(decision, LocalDrift):
        return replace(decision, clients=tuple(client for client in decision.clients if client != EVERYBODY))
    clients = tuple(client for client in decision.alarm.clients if client != EVERYBODY)
    return replace(decision, alarm=replace(decision.alarm, clients=clients))


def wrong_sums(text: str, layout: Layout) -> str | None:
    """Return why a text is not the sums of a client, or None.

    >>> import numpy as np
    >>> from streamfl.learning.pooling.layout import Block
    >>> from streamfl.learning.pooling.sums import as_text
    >>> layout = Layout((Block("losses", (2, 6)),))
    >>> wrong_sums(as_text(np.zeros(12)), layout), wrong_sums(as_text(np.zeros(11)), layout)
    (None, 'sums of another layout')
    """
    digits = 4 * -(-8 * layout.size // 3)
    sums = of_text(text) if len(text) == digits else None
    return None if sums is not None and len(sums) == layout.size else "sums of another layout"
