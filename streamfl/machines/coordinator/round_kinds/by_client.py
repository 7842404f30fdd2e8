"""Rounds in which each client sends an update of its own: the influence of each is bounded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamfl.machines.coordinator.round.closing import Closing, CountedUpdates
from streamfl.machines.coordinator.round.unsaved import Enquiry, PendingAlarm
from streamfl.machines.coordinator.round_kinds.base import RoundKind
from streamfl.machines.coordinator.round_kinds.bounded_influence import bounded_scores, with_bounded_influence
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import Scores, Update
from streamfl.protocol.registry import Registry


@dataclass(frozen=True)
class ClientUpdates(RoundKind):
    """Clients send updates of their own."""

    def count(self, closing: Closing, state: CoordinatorState) -> CountedUpdates:
        """Bound the influence of each update."""
        learner, secret, plan = self.settings.learner, self.settings.secret, closing.opened.plan
        made = with_bounded_influence(
            closing.granted_updates,
            plan.live,
            state.agreed,
            state.influence.shown(secret),
            apart=closing.opened.apart,
            most=self.settings.round_size,
            online=learner.online,
            agreed=state.online,
            seed=learner.seed if secret is None else secret.seed,
        )
        return CountedUpdates(made.updates, made.shares, made.influence)

    def count_scores(
        self, alarm: PendingAlarm, scores: Mapping[str, Scores], enquiry: Enquiry | None, registry: Registry
    ) -> Sequence[tuple[Update, Scores]]:
        """Return each client's scores, of as many records, and with steps that count as much, as in its update."""
        counted, sent = alarm.closing.counted, alarm.closing.updates
        sums = {model.name for model in alarm.live if model.whitened}
        return [
            (update, bounded_scores(scores[name], counted.shares.get(name, 1.0), sent[name], update, sums))
            for update in counted.updates
            if (name := update.client) in scores and update.records
        ]
