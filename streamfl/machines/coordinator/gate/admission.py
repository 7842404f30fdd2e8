"""The gate: the one place where a client's message is checked before anything changes; the first fault refuses it.

The single checks are in `checks.py`, `partitions.py` and `names.py`, and for online models in `online`.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from streamfl.bounds import NAMED, Limits, is_name
from streamfl.learning.online_models import OnlineModels
from streamfl.machines.coordinator.gate.checks import (
    MOST_RECORDS,
    NO_MEMBER,
    OTHER_INCARNATION,
    Claim,
    refusal,
    shows_work,
    wrong_introduction,
    wrong_pooled_scores,
    wrong_scores,
)
from streamfl.machines.coordinator.gate.learnt import wrong_learnt
from streamfl.machines.coordinator.gate.partitions import PartitionLogs, wrong_places
from streamfl.machines.coordinator.gate.senders import incarnation_in, sender_of
from streamfl.machines.coordinator.round.unsaved import Unsaved
from streamfl.machines.coordinator.round_kinds.base import RoundKind
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import Refused
from streamfl.protocol.events import Signed, Unusable
from streamfl.protocol.memory import MOST_KEPT
from streamfl.protocol.messages import FromClient, Join, Leave, RoundOpened, Scores, Update
from streamfl.protocol.moments import Moments


class Grants(Protocol):
    """Who may speak for which client."""

    def refusal(self, client: str, signer: str, state: CoordinatorState) -> str | None:
        """Return why a signer may not speak for a client, or None; the signer of an unsigned message is empty."""
        ...

    def suggestion(self, client: str, state: CoordinatorState) -> str:
        """Return the end of a sentence that names the client that may have been meant; empty if there is none."""
        ...


# Why a client that an operator has evicted is refused.
BARRED = "an operator has evicted it; `streamfl members admit` lets it in again"


def wrong_identity(message: FromClient, limits: Limits = NAMED) -> str | None:
    """Return why a message has no valid client and start, or None; names are short, as they are published to all.

    The client's name may be empty: the only client of a process needs none.

    >>> wrong_identity(Leave(client="c0", nonce="7f")), wrong_identity(Leave(client="c0", nonce="7" * 300))
    (None, 'the client has no name, or the start that sent the message is unknown')
    """
    if isinstance(message, Join | Leave):
        starts = len(message.nonce) > 0 and is_name(message.nonce) and 0 <= message.after < MOST_RECORDS
    else:
        starts = incarnation_in(message.attempt) is not None
    named = starts and is_name(message.client, limits.name_bytes)
    return None if named else "the client has no name, or the start that sent the message is unknown"


def with_names(update: Update, state: CoordinatorState, online: OnlineModels[Any, Any] | None) -> Update:
    """Return an update with the names that its client left out, because the coordinator knows them.

    Nothing of the update is checked yet: arrays that do not fit the names are refused like all others.
    """
    if state.agreement is None:  # no update counts yet
        return update
    numbers = update.numbers
    if numbers.moments is None and numbers.arrived is None and online is None:  # most updates of models of rounds
        return update
    features, learnt = state.registry.features, numbers.learnt
    moments = _named(numbers.moments, (*features, *update.new_features))
    arrived = _named(numbers.arrived, features)
    if online is not None:
        learnt = online.completed(learnt, state.online)
    if moments is numbers.moments and arrived is numbers.arrived and learnt is numbers.learnt:
        return update
    return replace(update, numbers=replace(numbers, moments=moments, arrived=arrived, learnt=learnt))


def _named(moments: Moments | None, features: tuple[str, ...]) -> Moments | None:
    """Return moments with the names of their features, if they have none."""
    without = moments is not None and not moments.features and moments.count.size
    return replace(moments, features=features) if moments is not None and without else moments


@dataclass(frozen=True, slots=True)
class Denial:
    """A message that does not pass the gate."""

    client: str  # in whose name it is
    reason: str  # what is wrong with it

    # It came too `late`, which is no fault; its content is at `fault`; its bytes are no message, and `unusable`; or
    # its `signer` may not speak for the client.
    how: Literal["late", "fault", "unusable", "signer"]
    incarnation: int | None = None  # the start that sent it; 0 for one that holds none, None if that is not known


@dataclass
class Admission:
    """The checks of every message of a client."""

    settings: CoordinatorSettings  # how the coordinator works
    kind: RoundKind  # what clients send
    logs: PartitionLogs  # the logs that updates are about
    grants: Grants | None = None  # who may speak for which client; without it everybody may for every one

    def admit(
        self, event: FromClient | Signed | Unusable, state: CoordinatorState, unsaved: Unsaved
    ) -> FromClient | Denial:
        """Return a message as it counts, or why it does not; nothing is changed."""
        client, message = event.client, event.message if isinstance(event, Signed) else event
        wrong = None if isinstance(message, Unusable) else wrong_identity(message, self.settings.limits)
        if wrong is not None:
            return Denial(client, wrong, "fault")
        signer = event.signer if isinstance(event, Signed | Unusable) else ""
        wrong = self._not_granted(client, signer, state)
        if isinstance(message, Unusable):
            return Denial(client, message.reason, "unusable" if wrong is None else "signer")
        if wrong is not None:
            return Denial(client, wrong, "signer")
        if isinstance(message, Update):
            message = with_names(message, state, self.settings.learner.online)
        refused = self._check(message, state, unsaved)
        if refused is None:
            return message
        how: Literal["fault", "late"] = "fault" if refused.is_fault else "late"
        return Denial(client, refused.reason, how, sender_of(message, state.members))

    def _not_granted(self, client: str, signer: str, state: CoordinatorState) -> str | None:
        """Return why a signer may not speak for a client, or None."""
        if client in state.barred:
            return BARRED
        return None if self.grants is None else self.grants.refusal(client, signer, state)

    def _check(self, message: FromClient, state: CoordinatorState, unsaved: Unsaved) -> Refused | None:
        """Return why the content of a message is refused, or None; one that comes late is not a fault."""
        match message:
            case Update():
                return self._update(message, state, unsaved)
            case Scores():
                return self._scores(message, state, unsaved)
            case Join():
                wrong = self.wrong_join(message, state, unsaved)
                return None if wrong is None else Refused(message.client, wrong, is_fault=True)
            case Leave():
                return None
            case answer:
                return self.kind.refusal(answer, unsaved.enquiry, state)

    def suggestion(self, client: str, state: CoordinatorState) -> str:
        """Return the end of a sentence that names the client that may have been meant; it takes time."""
        return "" if self.grants is None else self.grants.suggestion(client, state)

    def wrong_join(self, join: Join, state: CoordinatorState, unsaved: Unsaved) -> str | None:
        """Return why a Join cannot be used, or None."""
        return (
            wrong_introduction(join, self.settings.limits)
            or self._one_too_many(join.client, state, unsaved)
            or self._too_much(join, state, unsaved)
        )

    def _one_too_many(self, client: str, state: CoordinatorState, unsaved: Unsaved) -> str | None:
        """Return why the ledger has no room for a client, or None: any writer can invent names."""
        remembered: tuple[Collection[str], ...]
        remembered = (state.members, state.keys, unsaved.introductions, unsaved.deferred)
        most = self.settings.limits.clients
        # A client may be in several of them. While all together have room, nobody has to be counted once.
        if any(client in names for names in remembered) or sum([len(names) for names in remembered]) < most:
            return None
        if len(set().union(*remembered)) < most:
            return None
        return f"the limit of {most} clients is reached"

    def _too_much(self, join: Join, state: CoordinatorState, unsaved: Unsaved) -> str | None:
        """Return why the names and moments of a client cannot wait for the federation to begin, or None."""
        if state.agreement is not None:
            return None
        before = unsaved.introductions.get(join.client)
        others = unsaved.introduced - (0 if before is None else before.memory)
        if others + join.memory <= MOST_KEPT:
            return None
        return f"what is kept of all clients' records would take more than {MOST_KEPT} bytes"

    def _update(self, update: Update, state: CoordinatorState, unsaved: Unsaved) -> Refused | None:
        if unsaved.open is None or unsaved.pending_alarm is not None or unsaved.enquiry is not None:
            return Refused(update.client, "no round is open")
        opened, member = unsaved.open.message, state.members.get(update.client)
        if member is None:
            return Refused(update.client, NO_MEMBER)
        refused = refusal(self._claim(update, member, opened, state, unsaved))
        if refused is not None:
            return refused
        wrong = self.kind.not_listed(update.client, state)
        if wrong is not None:
            return Refused(update.client, wrong)
        wrong = wrong_learnt(update, opened, state, self.settings) if update.records else None
        wrong = wrong or wrong_places(update, member, self.logs, state, self.settings)
        return None if wrong is None else Refused(update.client, wrong, is_fault=True)

    def _claim(
        self, update: Update, member: Member, opened: RoundOpened, state: CoordinatorState, unsaved: Unsaved
    ) -> Claim:
        """Return an update with what is known of its sender."""
        registry = state.registry
        return Claim(
            update,
            member,
            opened,
            unsaved.updates,
            registry,
            self.settings.learner.model.columns(len(registry.labels) + len(update.new_labels)),
            len(state.members),
            self.settings.limits,
            self.kind.layout(opened, registry),
        )

    def shows_work(self, update: Update, member: Member, state: CoordinatorState) -> bool:
        """Tell whether an update that came too late is of records that its client can have read."""
        if not shows_work(update, member, self.settings.limits):
            return False
        return wrong_places(update, member, self.logs, state, self.settings) is None and self.logs.knows_ends_of(
            update
        )

    def _scores(self, scores: Scores, state: CoordinatorState, unsaved: Unsaved) -> Refused | None:
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
        member, model = state.members[scores.client], self.settings.learner.model
        claim = self._claim(update, member, unsaved.open_round.message, state, unsaved)
        fitted = max([model.log_likelihoods(live.W[:1]).shape[1] for live in pending_alarm.live[:1]], default=0)
        wrong = wrong_scores(scores, claim, pending_alarm.asked, fitted)
        return None if wrong is None else Refused(scores.client, wrong, is_fault=True)
