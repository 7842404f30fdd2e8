"""Rounds in which clients send sums: there is one update, and one answer to Score, of all clients together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from streamfl.arrays import IntArray
from streamfl.learning.pooling.layout import Layout
from streamfl.learning.pooling.masks import plain_total
from streamfl.learning.pooling.sums import EVERYBODY, of_text, pooled, pooled_scores
from streamfl.learning.profiles.base import Decision, Decisions
from streamfl.machines.coordinator.round.closing import Closing, CountedUpdates
from streamfl.machines.coordinator.round.unsaved import Enquiry, PendingAlarm
from streamfl.machines.coordinator.round_kinds.base import NoTotal, RoundKind
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import InputsMoved, LocalDrift, RoundOpened, Score, Scores, Unmasked, Update
from streamfl.protocol.registry import Registry


@dataclass(frozen=True)
class SummedRounds(RoundKind):
    """Clients send sums that the coordinator adds up. No client's own are judged: nobody's influence is bounded."""

    sends_sums: ClassVar[bool] = True
    finds_culprits: ClassVar[bool] = False

    @property
    def min_clients_per_name(self) -> int:
        """Return the minimum number of clients of a total: what it says of a name of fewer would be about these."""
        return self.settings.min_clients_per_sum

    def layout(self, opened: RoundOpened, registry: Registry) -> Layout:
        """Return the layout of the sums of an update."""
        columns, by_label = self.settings.learner.model.columns, self.settings.noise is None
        return Layout.of_round(opened, registry, columns, by_label=by_label)

    def layout_of(self, asked: Score, registry: Registry) -> Layout:
        """Return the layout of the sums of scores."""
        return Layout.of_scores(asked, registry, self.settings.learner.model.columns)

    def count(self, closing: Closing, state: CoordinatorState) -> CountedUpdates | Enquiry | NoTotal:
        """Return the total."""
        return self._added_up(closing, closing.senders, (), state.registry)

    def _added_up(
        self, closing: Closing, updates: Sequence[Update], answers: Sequence[Unmasked], registry: Registry
    ) -> CountedUpdates:
        """Return the sums of clients as one update; `answers` are the seeds of their masks."""
        opened = closing.opened.message
        layout = self.layout(opened, registry)
        total = self._total([update.sums for update in updates], answers)
        made = pooled(updates, total, opened, layout, registry)
        noise = self.settings.noise
        if noise is not None:
            made = with_noise(made, noise.deviations(layout), len(updates))
        return CountedUpdates((made,), pooled=tuple(update.client for update in updates))

    def count_scores(
        self, alarm: PendingAlarm, scores: Mapping[str, Scores], enquiry: Enquiry | None, registry: Registry
    ) -> Sequence[tuple[Update, Scores]] | Enquiry:
        """Return the scores of all clients together, with the update whose records they are about."""
        summed = [scores[name] for name in alarm.closing.counted.pooled if name in scores and scores[name].sums]
        return self._count_scores(alarm, summed, (), registry)

    def _count_scores(
        self, alarm: PendingAlarm, summed: Sequence[Scores], answers: Sequence[Unmasked], registry: Registry
    ) -> Sequence[tuple[Update, Scores]]:
        """Return the total of some scores; `answers` are the seeds of their masks."""
        closing, counted = alarm.closing, alarm.closing.counted
        if not summed:
            return []
        of, one = [closing.updates[part.client] for part in summed], counted.updates[0]
        records, trained = sum(update.records for update in of), sum(update.trained for update in of)
        made = pooled_scores(
            self._total([part.sums for part in summed], answers),
            alarm.asked,
            self.layout_of(alarm.asked, registry),
            records=records,
            trained=trained,
            more=len(one.new_labels),
        )
        return [(replace(one, records=records, trained=trained), made)]

    def _total(self, texts: Sequence[str], answers: Sequence[Unmasked]) -> IntArray:
        return plain_total(numbers_in(texts))

    def with_known_clients(self, decided: Decisions) -> Decisions:
        """Return decisions that name no clients: what changed is known of all together."""
        return tuple(map(without_clients, decided))


def numbers_in(texts: Sequence[str]) -> list[IntArray]:
    """Return the numbers of sums."""
    return [part for part in map(of_text, texts) if part is not None]


def with_noise(update: Update, deviations: Mapping[str, float], clients: int) -> Update:
    """Return an update of which is told that there is noise in it.

    Sums of squares of losses grow by the variance of the noise in their sums: detectors reckon with that. Second
    moments have no eigenvalue below what noise alone reaches, so that no step is long because of it.
    """
    variance = clients * deviations["losses"] ** 2
    losses = {name: replace(one, square=one.square + variance) for name, one in update.numbers.losses.items()}
    C = update.numbers.second_moments
    if C is not None:
        least = 2.0 * math.sqrt(clients * len(C)) * deviations["second"]
        values, vectors = np.linalg.eigh(C)
        C = (vectors * np.maximum(values, least)) @ vectors.T
    return replace(update, numbers=replace(update.numbers, losses=losses, second_moments=C))


def without_clients(decision: Decision) -> Decision:
    """Return a decision that names no clients."""
    if isinstance(decision, LocalDrift | InputsMoved):
        return replace(decision, clients=tuple(client for client in decision.clients if client != EVERYBODY))
    clients = tuple(client for client in decision.alarm.clients if client != EVERYBODY)
    return replace(decision, alarm=replace(decision.alarm, clients=clients))
