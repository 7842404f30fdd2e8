"""Admission: the one place where the content of a client's message is checked; the first fault refuses it.

The single checks are in `checks.py` and `names.py`, and for online models in `online`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from streamfl.learning.online_models import Covered, OnlineModels
from streamfl.machines.coordinator.gate.checks import (
    NO_MEMBER,
    OTHER_INCARNATION,
    Claim,
    refusal,
    shows_work,
    wrong_introduction,
    wrong_partitions,
    wrong_pooled_scores,
    wrong_scores,
)
from streamfl.machines.coordinator.gate.senders import incarnation_in
from streamfl.machines.coordinator.round.unsaved import Unsaved
from streamfl.machines.coordinator.round_kinds.base import RoundKind
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import Refused
from streamfl.protocol.memory import MOST_KEPT
from streamfl.protocol.messages import Join, RoundOpened, Scores, Unmasked, Update


class Grants(Protocol):
    """Who may speak for which client."""

    def refusal(self, client: str, signer: str, state: CoordinatorState) -> str | None:
        """Return why a signer may not speak for a client, or None; the signer of an unsigned message is empty."""
        ...

    def meant(self, client: str, state: CoordinatorState) -> str:
        """Return the end of a sentence that names the client that may have been meant; empty if there is none."""
        ...


# Why a client that an operator has evicted is refused.
BARRED = "an operator has evicted it; `streamfl members admit` lets it in again"

# By name of a partition, the position after its last record.
LogEnds = Callable[[Collection[str]], Mapping[str, int | None]]

# By name of a partition, what tells its log from one that is made in its place later.
LogIds = Callable[[Collection[str]], Mapping[str, str | None]]


def named(update: Update, state: CoordinatorState, online: OnlineModels[Any, Any] | None) -> Update:
    """Return an update with the names that its client left out, because the coordinator knows them.

    Nothing of the update is checked yet: arrays that do not fit the names are refused like all others.
    """
    if state.agreement is None:  # no update counts yet
        return update
    numbers = update.numbers
    moments, learnt = numbers.moments, numbers.learnt
    if moments is not None and not moments.features and moments.count.size:
        moments = replace(moments, features=(*state.registry.features, *update.new_features))
    if online is not None:
        learnt = online.completed(learnt, state.online)
    if moments is numbers.moments and learnt is numbers.learnt:
        return update
    return replace(update, numbers=replace(numbers, moments=moments, learnt=learnt))


@dataclass
class Admission:
    """The checks of every message of a client.

    Parameters
    ----------
    settings
        How the coordinator works.
    kind
        What clients send.
    log_ends
        Returns the position after the last record of each of some partitions, None where it is unknown. It is called
        only for positions beyond its earlier answers. Without it every position is accepted.
    log_ids
        Returns the identity of the log of each of some partitions, None where it is unknown. An update about another
        log than that of the ledger is refused: positions in one mean nothing in the other.
    grants
        Who may speak for which client; without it everybody may for every one.
    """

    settings: CoordinatorSettings
    kind: RoundKind
    log_ends: LogEnds | None = None
    grants: Grants | None = None
    log_ids: LogIds | None = None
    _ends: dict[str, int] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)

    def not_granted(self, client: str, signer: str, state: CoordinatorState) -> str | None:
        """Return why a signer may not speak for a client, or None."""
        if client in state.barred:
            return BARRED
        return None if self.grants is None else self.grants.refusal(client, signer, state)

    def meant(self, client: str, state: CoordinatorState) -> str:
        """Return the end of a sentence that names the client that may have been meant; it takes time."""
        return "" if self.grants is None else self.grants.meant(client, state)

    def wrong_join(self, join: Join, state: CoordinatorState, unsaved: Unsaved) -> str | None:
        """Return why a Join cannot be used, or None."""
        return (
            wrong_introduction(join, self.settings.limits)
            or self._one_too_many(join.client, state, unsaved)
            or self._too_much(join, state, unsaved)
        )

    def _one_too_many(self, client: str, state: CoordinatorState, unsaved: Unsaved) -> str | None:
        """Return why the ledger has no room for a client, or None: any writer can invent names."""
        if client in state.members:
            return None
        remembered = state.members.keys() | state.keys.keys() | unsaved.introductions.keys() | unsaved.deferred.keys()
        most = self.settings.limits.clients
        if client in remembered or len(remembered) < most:
            return None
        return f"one client more than the {most} that the federation takes"

    def _too_much(self, join: Join, state: CoordinatorState, unsaved: Unsaved) -> str | None:
        """Return why the names and moments of a client cannot wait for the federation to begin, or None."""
        if state.agreement is not None:
            return None
        others = sum([one.memory for name, one in unsaved.introductions.items() if name != join.client])
        if others + join.memory <= MOST_KEPT:
            return None
        return f"what all clients say of their records takes more than {MOST_KEPT} bytes"

    def update(self, update: Update, state: CoordinatorState, unsaved: Unsaved) -> Update | Refused:
        """Return an update as it counts, or why it is refused; a late update is not a fault."""
        update = named(update, state, self.settings.learner.online)
        return self._refused(update, state, unsaved) or update

    def _refused(self, update: Update, state: CoordinatorState, unsaved: Unsaved) -> Refused | None:
        if unsaved.open is None or unsaved.pending_alarm is not None or unsaved.enquiry is not None:
            return Refused(update.client, "no round is open")
        opened, member = unsaved.open.message, state.members.get(update.client)
        if member is None:
            return Refused(update.client, NO_MEMBER)
        refused = refusal(
            Claim(
                update,
                member=member,
                opened=opened,
                already=unsaved.updates,
                registry=state.registry,
                columns=self._columns(update, state),
                members=len(state.members),
                limits=self.settings.limits,
                layout=self.kind.layout(opened, state.registry),
            )
        )
        if refused is not None:
            return refused
        wrong = self.kind.not_listed(update.client, state)
        if wrong is not None:
            return Refused(update.client, wrong)
        wrong = self._wrong_online(update, opened, state) if update.records else None
        wrong = wrong or self._wrong_places(update, state)
        return None if wrong is None else Refused(update.client, wrong, is_fault=True)

    def shows_work(self, update: Update, member: Member, state: CoordinatorState) -> bool:
        """Tell whether an update that came too late is of records that its client can have read."""
        if not shows_work(update, member, self.settings.limits) or self._wrong_places(update, state) is not None:
            return False
        return self.log_ends is None or all(span.partition in self._ends for span in update.spans)

    def scores(self, scores: Scores, state: CoordinatorState, unsaved: Unsaved) -> Refused | None:
        """Return why scores of candidates are refused, or None."""
        pending_alarm, update = unsaved.pending_alarm, unsaved.updates.get(scores.client)
        if pending_alarm is None or update is None or not pending_alarm.is_answered_by(scores):
            return Refused(scores.client, "nobody has asked for scores")
        if incarnation_in(scores.attempt) != state.members[scores.client].incarnation:
            return Refused(scores.client, OTHER_INCARNATION)
        layout = self.kind.layout_of(pending_alarm.asked, state.registry)
        if layout is not None:
            wrong = wrong_pooled_scores(scores, update, layout)
            return None if wrong is None else Refused(scores.client, wrong, is_fault=True)
        wrong = wrong_scores(
            scores,
            update,
            asked=pending_alarm.asked,
            opened=unsaved.opened.message,
            rows=state.registry.rows,
            columns=self._columns(update, state),
            fitted=self.settings.learner.model.log_likelihoods(pending_alarm.live[0].W[:1]).shape[1],
            members=len(state.members),
            sample=state.members[scores.client].sample,
        )
        return None if wrong is None else Refused(scores.client, wrong, is_fault=True)

    def seeds(self, answer: Unmasked, state: CoordinatorState, unsaved: Unsaved) -> Refused | None:
        """Return why the seeds of masks are refused, or None; one that comes late or twice is not a fault."""
        enquiry, client = unsaved.enquiry, answer.client
        if enquiry is None or (answer.entry, answer.stage) != (enquiry.asked.entry, enquiry.asked.stage):
            return Refused(client, "nobody has asked for seeds")
        if client not in enquiry.lacking:
            return Refused(client, "nobody has asked for seeds of this client")
        if answer.attempt != enquiry.asked.attempts[client]:
            return Refused(client, "the seeds are of another attempt")
        wrong = self.kind.wrong_answer(answer, enquiry, state)
        return None if wrong is None else Refused(client, wrong, is_fault=True)

    def _columns(self, update: Update, state: CoordinatorState) -> int:
        return self.settings.learner.model.columns(len(state.registry.labels) + len(update.new_labels))

    def _wrong_online(self, update: Update, opened: RoundOpened, state: CoordinatorState) -> str | None:
        """Return what is wrong with `learnt`, or with the names of experts in `served`."""
        online, registry = self.settings.learner.online, state.registry
        if online is None:
            wrong = (
                None if update.numbers.learnt is None else "either the update or the federation has no online models"
            )
            return wrong or ("predictions name models that are unknown" if update.numbers.served.shares else None)
        covered = Covered(
            records=update.records,
            features={*registry.features, *update.new_features},
            labels={*registry.labels, *update.new_labels},
            members=len(state.members),
            limits=self.settings.limits,
            measured=opened.asks.of(update.client),
        )
        answering = online.names >= update.numbers.served.shares.keys()
        wrong = online.refusal(update.numbers.learnt, state.online, covered)
        return wrong or (None if answering else "predictions name models that are unknown")

    def _wrong_places(self, update: Update, state: CoordinatorState) -> str | None:
        """Return why an update's positions are impossible: another client's partition, or beyond the log's end."""
        member, settings = state.members[update.client], self.settings
        wrong = wrong_partitions(update, member, settings.partitions, settings.features)
        reached = update.reached
        farther = {name: end for name, end in reached.items() if end > self._ends.get(name, 0)}
        wrong = wrong or self._made_again(reached.keys(), state)
        if wrong is not None or self.log_ends is None or not farther:
            return wrong
        ends = {name: end for name, end in self.log_ends(farther.keys()).items() if end is not None}
        self._ends |= ends
        beyond = sorted(name for name, end in farther.items() if end > ends.get(name, end))
        return f"positions of {beyond[0]} beyond the end of its log" if beyond else None

    def _made_again(self, partitions: Collection[str], state: CoordinatorState) -> str | None:
        """Return why an update is refused if the log of one of its partitions is not the one of the ledger."""
        if self.log_ids is None or not partitions:
            return None
        ids = {name: found for name, found in self.log_ids(partitions).items() if found is not None}
        self._ids |= ids
        other = sorted(name for name, found in ids.items() if state.logs.get(name, found) != found)
        if not other:
            return None
        what = f"the topic of {other[0]} was deleted and made again: the ledger is about another one of this name"
        remedy = "write the records to a topic of another name, or take another [federation] name"
        return f"{what}, and its first records would be lost; {remedy}"

    def logs_of(self, update: Update) -> dict[str, str]:
        """Return the identities of the logs that an update is about, where they are known."""
        return {name: self._ids[name] for name in update.reached if name in self._ids}
