"""Whether a client's message counts: the one place where it is refused, with the first thing that is wrong with it.

What each check looks at is in `checks.py`, `names.py`, and, of what is learnt between rounds, in `core/between`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from streamfl.core.coordinator.checks import refusal, wrong_introduction, wrong_partitions, wrong_scores
from streamfl.core.coordinator.settings import CoordinatorSettings
from streamfl.core.coordinator.state import CoordinatorState
from streamfl.core.coordinator.unsaved import Unsaved
from streamfl.core.learning.between_rounds import Covered
from streamfl.core.protocol.decisions import Refused
from streamfl.core.protocol.messages import Join, Scores, Update

# Of partitions, by name, the position behind the last record.
LogEnds = Callable[[Collection[str]], Mapping[str, int | None]]


@dataclass
class Admission:
    """What stands between a message and the model.

    Parameters
    ----------
    settings
        How the coordinator works.
    log_ends
        Returns the position behind the last record of each of some partitions, None where it cannot be told; asked
        only of positions that are farther than what it has said before. Without it every position is believed.
    """

    settings: CoordinatorSettings
    log_ends: LogEnds | None = None
    _ends: dict[str, int] = field(default_factory=dict)

    def wrong_join(self, join: Join, state: CoordinatorState, unsaved: Unsaved) -> str | None:
        """Return why an introduction cannot be used, or None."""
        return wrong_introduction(join, self.settings.limits) or self._one_too_many(join.client, state, unsaved)

    def _one_too_many(self, client: str, state: CoordinatorState, unsaved: Unsaved) -> str | None:
        """Return why a client is one more than are remembered, or None: any writer can invent names."""
        if client in state.members:
            return None
        remembered = state.members.keys() | unsaved.introductions.keys() | unsaved.deferred.keys()
        most = self.settings.limits.clients
        if client in remembered or len(remembered) < most:
            return None
        return f"one client more than the {most} that the federation takes"

    def update(self, update: Update, state: CoordinatorState, unsaved: Unsaved) -> Refused | None:
        """Return why an update does not count, or None if it does; one that comes too late is no fault."""
        if unsaved.open is None or unsaved.undecided is not None:
            return Refused(update.client, "no round is open")
        refused = refusal(
            update,
            member=state.members.get(update.client),
            opened=unsaved.open.told,
            already=unsaved.updates,
            registry=state.registry,
            columns=self._columns(update, state),
            members=len(state.members),
            limits=self.settings.limits,
        )
        if refused is not None:
            return refused
        wrong = self._wrong_between(update, state) if update.records else None
        wrong = wrong or self._wrong_places(update, state)
        return None if wrong is None else Refused(update.client, wrong, is_fault=True)

    def scores(self, scores: Scores, state: CoordinatorState, unsaved: Unsaved) -> Refused | None:
        """Return why scores of candidates do not count, or None if they do."""
        undecided, update = unsaved.undecided, unsaved.updates.get(scores.client)
        if undecided is None or update is None or not undecided.is_answered_by(scores):
            return Refused(scores.client, "no scores are asked for")
        wrong = wrong_scores(
            scores,
            update,
            asked=undecided.asked,
            opened=unsaved.opened.told,
            rows=state.registry.rows,
            columns=self._columns(update, state),
            fitted=self.settings.learner.model.log_likelihoods(undecided.live[0].W[:1]).shape[1],
            members=len(state.members),
            sample=state.members[scores.client].sample,
        )
        return None if wrong is None else Refused(scores.client, wrong, is_fault=True)

    def _columns(self, update: Update, state: CoordinatorState) -> int:
        return self.settings.learner.model.columns(len(state.registry.labels) + len(update.new_labels))

    def _wrong_between(self, update: Update, state: CoordinatorState) -> str | None:
        """Return what is wrong with what was learnt between rounds, or with the models said to have answered."""
        between, registry = self.settings.learner.between, state.registry
        if between is None:
            wrong = None if update.learnt is None else "models between rounds that not all have"
            return wrong or ("answers of models that nobody has" if update.served.shares else None)
        covered = Covered(
            records=update.records,
            features={*registry.features, *update.new_features},
            labels={*registry.labels, *update.new_labels},
            members=len(state.members),
            limits=self.settings.limits,
        )
        answering = between.names >= update.served.shares.keys()
        wrong = between.refusal(update.learnt, state.between, covered)
        return wrong or (None if answering else "answers of models that nobody has")

    def _wrong_places(self, update: Update, state: CoordinatorState) -> str | None:
        """Return why records cannot be where an update says: in another's partition, or beyond the end of the log."""
        wrong = wrong_partitions(update, state.members[update.client], self.settings.partitions)
        farther = {span.partition: span.end for span in update.spans if span.end > self._ends.get(span.partition, 0)}
        if wrong is not None or self.log_ends is None or not farther:
            return wrong
        told = {name: end for name, end in self.log_ends(farther.keys()).items() if end is not None}
        self._ends |= told
        beyond = sorted(name for name, end in farther.items() if end > told.get(name, end))
        return f"positions of {beyond[0]} beyond the end of its log" if beyond else None
