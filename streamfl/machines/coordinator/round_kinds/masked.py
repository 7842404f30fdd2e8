"""Rounds in which sums are masked: the clients alone can tell a total, by seeds of their masks.

Which totals they tell is said by the law in `streamfl.learning.pooling.masks`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from streamfl.arrays import IntArray
from streamfl.errors import BrokenInvariantError
from streamfl.learning.pooling.masks import absent_peers, is_seed, total_of
from streamfl.machines.coordinator.round.closing import Closing, CountedUpdates
from streamfl.machines.coordinator.round.unsaved import Enquiry, PendingAlarm
from streamfl.machines.coordinator.round_kinds.base import NOT_ASKED, NoTotal
from streamfl.machines.coordinator.round_kinds.summed import SummedRounds, numbers_in
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.decisions import Refused
from streamfl.protocol.messages import Disclosed, Refusal, Roster, Scores, Unmask, Unmasked, Update, ends_of
from streamfl.protocol.registry import Registry

# Why a member is left out whose update is in totals that nobody knows without it.
SILENT = "it has sent updates, but no seeds of its masks, for {} totals in a row: left out until entry {}"


@dataclass(frozen=True)
class MaskedRounds(SummedRounds):
    """Clients send masked sums. The clients of an open round, the roster, are those whose masks cancel."""

    resumes: ClassVar[bool] = False

    # --- who takes part --------------------------------------------------------------------------------------------

    def roster(self, state: CoordinatorState) -> Roster:
        """Return the clients that mask their sums from now on."""
        kept, keys = state.roster, self._keys(state)
        if kept is not None and kept.keys == keys:
            return kept
        return Roster(version=1 if kept is None else kept.version + 1, keys=keys)

    def _keys(self, state: CoordinatorState) -> dict[str, str]:
        """Return the public keys of the members that mask sums, by name: all that are there and not left out.

        None is left out if too few would be left for a total.
        """
        members = state.members
        keys = {name: members[name].key for name in sorted(state.active()) if members[name].key}
        here = {name: key for name, key in keys.items() if members[name].rests <= state.entry}
        return here if len(here) >= self.settings.min_clients_per_sum else keys

    def entry_to_repeat(self, state: CoordinatorState) -> int:
        """Return the entry whose total is repeated; none if a client of the total has left, or is left out."""
        roster = state.roster
        is_whole = roster is None or repeated_in(state).keys() <= roster.keys.keys()
        return state.repeats if is_whole else 0

    def not_listed(self, name: str, state: CoordinatorState) -> str | None:
        """Return why a member cannot mask its sums for the open round: its present start is not on the roster."""
        roster = state.roster
        listed = roster is None or roster.keys.get(name) == state.members[name].key
        return None if listed else "it joined after the round was opened, and sums are masked"

    def has_newcomers(self, names: Iterable[str], state: CoordinatorState) -> bool:
        """Tell whether one of these members has started again, and can mask its sums in the next entry."""
        keys = self._keys(state)
        return any(name in keys and self.not_listed(name, state) is not None for name in names)

    def is_lost(self, name: str, state: CoordinatorState) -> bool:
        """Tell whether a start is gone, so that nobody can tell the seeds of its masks any more."""
        return state.members[name].left or self.not_listed(name, state) is not None

    def is_enough(self, updates: Mapping[str, Update], state: CoordinatorState) -> bool:
        """Tell whether there are enough for a total, or one without records, whose client may have some next time.

        Or others take part than were on the roster, who cannot send any before the next entry.
        """
        if state.roster is not None and self._keys(state) != state.roster.keys:
            return True
        senders = sum(update.records > 0 for update in updates.values())
        return bool(updates) and not len(updates) == senders < self.settings.min_clients_per_sum

    # --- what counts -----------------------------------------------------------------------------------------------

    def count(self, closing: Closing, state: CoordinatorState) -> Enquiry | NoTotal:
        """Ask for the total. An entry that repeats one has the same clients and records, or nothing is learnt.

        What is asked for is noted in the state, which is saved before clients are told, so that no kill forgets it.
        """
        there = {update.client: update for update in closing.senders}
        repeated = repeated_in(state)
        if any(name not in there or ends_of(there[name].spans) != one.ends for name, one in repeated.items()):
            state.repeats = 0
            return NoTotal()
        if repeated:
            others = there.keys() - repeated.keys()
            closing = replace(closing, updates={name: u for name, u in closing.updates.items() if name not in others})
            there = {name: there[name] for name in repeated}
        if len(there) < self.settings.min_clients_per_sum:
            # Too few have records of this period: these go to the next one.
            return NoTotal(tuple(update.period for update in closing.updates.values()))
        state.repeats = state.repeats or state.entry
        for name, update in there.items():
            state.members[name].disclosed = Disclosed.of(update, state.repeats, there)
        attempts = {name: there[name].attempt for name in sorted(there)}
        return Enquiry(Unmask(entry=state.entry, stage=0, attempts=attempts), closing=closing)

    def count_after(self, enquiry: Enquiry, closing: Closing, state: CoordinatorState) -> CountedUpdates | NoTotal:
        """Return the total; there is none if a client has not told its seeds."""
        if enquiry.missing_clients:
            state.repeats = 0 if closing.opened.message.totals.repeats else state.repeats
            left_out = tuple(one for name in sorted(enquiry.missing_clients) for one in _count_silence(name, state))
            return NoTotal(silent=frozenset(enquiry.missing_clients), left_out=left_out)
        updates = [closing.grant.update(closing.updates[client]) for client in sorted(enquiry.asked.attempts)]
        return self._added_up(closing, updates, _in_order(enquiry), state.registry)

    def count_scores(
        self, alarm: PendingAlarm, scores: Mapping[str, Scores], enquiry: Enquiry | None, registry: Registry
    ) -> Sequence[tuple[Update, Scores]] | Enquiry:
        """Ask for the total of scores, if all have sent some; without one of them it would tell of the others."""
        pooled = alarm.closing.counted.pooled
        summed = {name: scores[name] for name in sorted(scores) if scores[name].sums}
        if summed.keys() != set(pooled):
            return []
        if enquiry is None:
            attempts = {name: one.attempt for name, one in summed.items()}
            return Enquiry(Unmask(entry=alarm.asked.entry, stage=alarm.asked.stage, attempts=attempts))
        if enquiry.missing_clients:
            return []
        return self._count_scores(alarm, [summed[name] for name in pooled], _in_order(enquiry), registry)

    def refusal(self, answer: Unmasked, enquiry: Enquiry | None, state: CoordinatorState) -> Refused | None:
        """Return why the seeds of masks are refused, or None; those that come late or twice are not a fault."""
        client = answer.client
        if enquiry is None or (answer.entry, answer.stage) != (enquiry.asked.entry, enquiry.asked.stage):
            return Refused(client, NOT_ASKED)
        if client not in enquiry.missing_clients:
            return Refused(client, f"{NOT_ASKED} of this client")
        if answer.attempt != enquiry.asked.attempts[client]:
            return Refused(client, "the seeds are of another attempt")
        wrong = self._wrong_seeds(answer, enquiry, state)
        return None if wrong is None else Refused(client, wrong, is_fault=True)

    def _wrong_seeds(self, answer: Unmasked, enquiry: Enquiry, state: CoordinatorState) -> str | None:
        """Return why seeds of masks cannot be used, or None."""
        roster = state.roster
        absent = set() if roster is None else absent_peers(roster, answer.client, enquiry.asked.attempts)
        if answer.shared.keys() != absent:
            return "the seeds are not shared with the clients that were asked for"
        return None if all(map(is_seed, (answer.own, *answer.shared.values()))) else "no seeds"

    def _total(self, texts: Sequence[str], answers: Sequence[Unmasked]) -> IntArray:
        if self.settings.expand is None:
            raise BrokenInvariantError("sums are masked, and nothing expands the seeds of masks")
        return total_of(numbers_in(texts), answers, self.settings.expand)


def repeated_in(state: CoordinatorState) -> dict[str, Disclosed]:
    """Return the records of the total that the open entry repeats, by client."""
    repeats, members = state.repeats, state.members
    told = {name: member.disclosed for name, member in members.items()} if repeats else {}
    return {name: one for name, one in told.items() if one is not None and one.entry == repeats}


def _in_order(enquiry: Enquiry) -> list[Unmasked]:
    return [enquiry.answers[name] for name in sorted(enquiry.answers)]


def _count_silence(client: str, state: CoordinatorState) -> list[Refusal]:
    """Count a total that failed because of a member; if these are several in a row, say that it is left out."""
    member = state.members[client]
    if not member.count_silence(state.entry):
        return []
    reason = SILENT.format(member.silent, member.rests)
    return [Refusal(client=client, incarnation=member.incarnation, entry=state.entry, reason=reason)]
