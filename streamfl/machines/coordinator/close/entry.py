"""The entry of a closed round, and the ledger after it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from streamfl.bounds import REFUSALS_IN_A_ROW, bounded
from streamfl.machines.coordinator.round.closing import Closing
from streamfl.machines.coordinator.round.refusals import Refusals
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.protocol.digits import significant
from streamfl.protocol.messages import Accepted, Refusal, RoundClosed, Served, Update


def enter(
    closing: Closing, members: Mapping[str, Member], refusals: Refusals
) -> tuple[RoundClosed, dict[str, Member]]:
    """Return the ledger entry, without the fields that depend on the next round, and the members after it.

    Members pay for the names that they have brought alone.

    Parameters
    ----------
    members
        The ledger before it, by client.
    """
    updates, message = list(closing.updates.values()), closing.opened.message
    records = sum(update.records for update in updates)
    after, accepted = dict(members), list[Accepted]()
    for update in updates:
        after[update.client] = member = members[update.client].copy()
        accepted.append(member.accept(update, update.records / records if records else 0.0))
    for name in _absent(closing, members):
        after[name] = replace(members[name], missed=members[name].missed + 1)
    for name, more in closing.grant.cost.items():
        if more:
            after[name] = replace(after[name], spent=after[name].spent + more)
    observed = closing.observed
    entry = RoundClosed(
        entry=message.entry,
        round=message.round,
        epoch=message.epoch,
        block=message.block,
        accepted=tuple(accepted),
        records=records,
        trained=sum(update.trained for update in updates),
        rejected=sum(update.rejected for update in updates),
        losses={} if observed is None else {name: significant(one.loss) for name, one in observed.models.items()},
        serves=message.serves,
        readings={name: one.for_people() for name, one in closing.readings.items()},
        served=_served_in_all(closing.counted.updates if closing.counted.pooled else updates),
        model="",
        registry=message.registry,
        refused=refusals.count,
        late=refusals.late,
        unlearnt=sum(update.numbers.learnt.unlearnt for update in updates if update.numbers.learnt is not None),
    )
    return entry, after


def _absent(closing: Closing, members: Mapping[str, Member]) -> list[str]:
    """Return the members that were there and have sent nothing."""
    excused = closing.updates.keys() | (closing.excluded or frozenset())
    return [name for name, member in members.items() if not member.left and name not in excused]


def _served_in_all(updates: Sequence[Update]) -> Served:
    """Return the counts of all clients' served predictions."""
    parts = [update.numbers.served for update in updates]
    names = dict.fromkeys(name for p in parts for name in p.shares)
    return Served(
        records=sum(p.records for p in parts),
        correct=sum(p.correct for p in parts),
        unanswered=sum(p.unanswered for p in parts),
        absolute_error=significant(math.fsum(p.absolute_error for p in parts)),
        no_change=significant(math.fsum(p.no_change for p in parts)),
        shares={name: significant(math.fsum(p.shares.get(name, 0.0) for p in parts)) for name in names},
    )


def evict(
    members: Mapping[str, Member], refusals: Refusals, updates: Mapping[str, Update], entry: int
) -> tuple[dict[str, Member], list[Refusal]]:
    """Count refused members in the ledger; return it, and what is told of those that are evicted because of that.

    Bytes that are not a message evict no client: any writer can send them under any key.
    """
    after, told = dict(members), list[Refusal]()
    for client, reason in refusals.at_fault.items():
        member = members[client]
        if client in refusals.unusable or member.left or client in updates:
            continue
        after[client] = member = replace(member, refused=member.refused + 1)
        if member.refused >= REFUSALS_IN_A_ROW:
            after[client] = replace(member, left=True, evicted=True)
            why = bounded(f"evicted, refused for {member.refused} entries in a row: {reason}")
            told.append(Refusal(client=client, incarnation=member.incarnation, entry=entry, reason=why, evicted=True))
    return after, told
