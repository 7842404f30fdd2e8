"""Scripts for federations whose sums are masked: who is added up, who is waited for, and what is refused."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from unit.machines.script import (
    LEARNER,
    PROFILES,
    answer,
    batch,
    broadcast,
    client,
    closed,
    coordinator,
    feed,
    join,
    joined,
    opening,
    refusals,
    sent,
)

from streamfl.learning.pooling.layout import Layout
from streamfl.learning.pooling.masks import Masks
from streamfl.learning.pooling.sums import as_text, sums_of, with_sums
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.phase import Phase
from streamfl.machines.coordinator.saved.agreement import Agreement
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import Commit
from streamfl.protocol.events import RecordsRead, SourceEnded, Tick
from streamfl.protocol.messages import (
    Disclosed,
    HoldoutRule,
    Joined,
    Leave,
    Refusal,
    Roster,
    RoundClosed,
    RoundOpened,
    Score,
    Scores,
    Slot,
    Unmask,
    Unmasked,
    Update,
    digest_of,
)
from streamfl.runtime.nodes import not_overtaken
from streamfl.sampling import generator
from streamfl.wire.masking import MaskKeys, expand
from streamfl_benchmarks.liars.fields import altered

NAMES = tuple(f"c{i}" for i in range(10))


@dataclass
class Members:
    """Ten clients by hand: their keys, and the masks of the open entry."""

    opened: RoundOpened
    roster: Roster | None
    registry: Any
    keys: dict[str, MaskKeys]
    masks: dict[str, Masks] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))

    def update(self, name: str, **more: Any) -> Update:
        """Return a client's update of the open entry, masked if there is a roster."""
        made = answer(self.opened, name, start=self.at[name], loss=0.1 + 0.05 * int(name[1:]), **more)
        if not made.records:
            return made
        layout = Layout.of_round(self.opened, self.registry, LEARNER.model.columns)
        sums = sums_of(made, self.opened, layout, self.registry)
        if self.roster is not None:
            self.masks[name] = Masks(name, self.keys[name], self.roster, self.opened.entry, min_clients_per_sum=3)
            sums = self.masks[name].masked(sums, 0, made.attempt)
        return with_sums(made, sums)

    def follow(self, decisions: list[Any]) -> None:
        """Follow what the coordinator has published."""
        for entry in broadcast(decisions, RoundClosed):
            self.at |= {one.client: one.spans[0].end for one in entry.accepted if one.spans}
        (self.opened,) = broadcast(decisions, RoundOpened)[-1:] or (self.opened,)
        (self.roster,) = broadcast(decisions, Roster)[-1:] or (self.roster,)

    def seeds(self, asked: Unmask) -> dict[str, Unmasked]:
        """Return the seeds that those who are asked tell."""
        told = {name: self.masks[name].unmasked(asked) for name in asked.attempts}
        return {name: seeds for name, seeds in told.items() if seeds is not None}


def federation(sums: str = "masked", **settings: Any) -> tuple[Coordinator, Members]:
    """Return a coordinator of ten clients whose round 1 is open, and these."""
    keys = {name: MaskKeys(name.encode() * 32) for name in NAMES}
    machine = coordinator(10, secure_aggregation=sums, min_clients_per_sum=3, expand=expand, **settings)
    period = 3 if settings.get("by_event_time") else None
    decisions = feed(machine, *(join(name, key=keys[name].public, period=period) for name in NAMES))
    members = Members(*broadcast(decisions, RoundOpened), None, machine.state.registry, keys)
    members.follow(decisions)
    return machine, members


def asked_by(decisions: list[Any]) -> Unmask:
    (asked,) = broadcast(decisions, Unmask)
    return asked


def rounds(sums: str, count: int = 8) -> list[str]:
    """Return the digests of the models of rounds in which three of ten are absent, and one of them comes late."""
    machine, members = federation(sums, quorum=7)
    rng, digests = generator(0, "absent"), []
    for _ in range(count):
        there = sorted(rng.permutation(NAMES)[:7].tolist())
        decisions = feed(machine, *(members.update(name) for name in there))
        if sums == "masked":
            asked = asked_by(decisions)
            assert sorted(asked.attempts) == there
            late = feed(machine, members.update(next(name for name in NAMES if name not in there)))
            assert [reason for _, reason in refusals(late)] == ["no round is open"]
            decisions = feed(machine, *members.seeds(asked).values())
        (closed,) = broadcast(decisions, RoundClosed)
        assert [(one.client, one.measured) for one in closed.accepted] == [(name, None) for name in there]
        members.follow(decisions)
        digests.append(machine.digest())
    return digests


def test_with_three_of_ten_absent_masks_change_no_bit():
    clear = rounds("pooled")
    assert rounds("masked") == clear
    assert len(set(clear)) == 8


def test_a_total_of_fewer_than_three_is_not_asked_for_and_the_round_stays_open():
    machine, members = federation(deadline=5.0, quorum=2)
    decisions = feed(machine, *(members.update(name) for name in NAMES[:2]))
    decisions += feed(machine, Tick(), now=100.0)
    assert broadcast(decisions, Unmask) == broadcast(decisions, RoundClosed) == []
    assert sorted(asked_by(feed(machine, members.update("c2"))).attempts) == ["c0", "c1", "c2"]


def test_a_total_of_two_is_not_asked_for_because_the_update_of_a_third_was_refused():
    machine, members = federation(deadline=5.0)
    feed(machine, *(members.update(name) for name in NAMES[:2]), replace(members.update("c2"), sums="none"))
    decisions = feed(machine, Tick(), now=100.0)
    assert broadcast(decisions, Unmask) == []
    (closed,) = broadcast(decisions, RoundClosed)
    assert (closed.accepted, closed.records) == ((), 0)


def test_a_member_that_never_tells_its_seeds_is_left_out_ever_longer_and_the_others_go_on():
    machine, members = federation(deadline=5.0)
    told, logged = [], []
    for entry in range(3):
        decisions = silent(machine, members, "c4", now=6.0 * entry)
        told += broadcast(decisions, Refusal)
        logged += refusals(decisions)
        members.follow(decisions)
    (refusal,) = told
    why = "it has sent updates, but no seeds of its masks, for 3 totals in a row: left out until entry 12"
    assert (refusal.client, refusal.evicted, refusal.reason) == ("c4", False, why)
    assert logged == [("c4", why)]
    for entry in range(4, 12):
        assert (members.opened.entry, members.roster.keys.keys()) == (entry, set(NAMES) - {"c4"})
        asked = asked_by(feed(machine, *(members.update(name) for name in NAMES if name != "c4"), now=6.0 * entry))
        decisions = feed(machine, *members.seeds(asked).values(), now=6.0 * entry)
        assert broadcast(decisions, RoundClosed)[0].records == 36
        members.follow(decisions)
    assert members.roster.keys.keys() == set(NAMES)
    members.follow(silent(machine, members, "c4", now=90.0))
    assert machine.state.members["c4"].rests == 13 + 16


def test_nobody_is_left_out_if_too_few_were_left_for_a_total():
    machine, members = federation(deadline=5.0)
    for entry in range(4):
        members.follow(silent(machine, members, *NAMES[:8], now=6.0 * entry))
    assert members.roster.keys.keys() == set(NAMES)


def test_a_member_that_tells_its_seeds_again_begins_anew():
    machine, members = federation(deadline=5.0)
    for entry in range(6):
        if entry % 3 == 2:
            asked = asked_by(feed(machine, *(members.update(name) for name in NAMES), now=6.0 * entry))
            decisions = feed(machine, *members.seeds(asked).values(), now=6.0 * entry)
        else:
            decisions = silent(machine, members, "c4", now=6.0 * entry)
        members.follow(decisions)
    assert (members.opened.round, machine.state.members["c4"].rests) == (3, 0)


def test_a_key_with_whose_owner_nobody_has_a_secret_joins_no_roster():
    machine, _ = federation()
    told = feed(machine, join("c10", key="01" + "0" * 62))
    assert refusals(told) == [("c10", "the key for masks is not a key")]


@pytest.mark.parametrize("settings", [{"interval": 10.0}, {"by_event_time": True}])
def test_where_too_few_have_records_the_entry_ends_and_these_are_in_the_next_total(settings):
    machine, members = federation(deadline=5.0, **settings)
    period = 4 if "by_event_time" in settings else None
    there = [members.update(name, records=4 if name in NAMES[:2] else 0, period=period) for name in NAMES]
    decisions = feed(machine, *there)
    (closed,) = broadcast(decisions, RoundClosed)
    assert (closed.records, len(closed.accepted), broadcast(decisions, Unmask)) == (0, 8, [])
    members.follow(decisions)
    assert (members.opened.entry, members.opened.round, members.opened.period) == (2, 1, period)
    there = [members.update(name, records=8 if name in NAMES[:2] else 4, period=period and 5) for name in NAMES]
    decisions = feed(machine, *members.seeds(asked_by(feed(machine, *there))).values())
    assert [closed.records for closed in broadcast(decisions, RoundClosed)] == [48]


def test_a_client_that_sends_no_seeds_has_nothing_learnt_and_no_record_lost():
    machine, members = federation(deadline=5.0)
    asked = asked_by(feed(machine, *(members.update(name) for name in NAMES)))
    before = machine.digest()
    decisions = feed(machine, *(seeds for name, seeds in members.seeds(asked).items() if name != "c4"))
    assert decisions == []
    assert machine.phase is Phase.ENQUIRING
    assert machine.waited_for == {"c4"}
    decisions = feed(machine, Tick(), now=5.0)
    (closed,) = broadcast(decisions, RoundClosed)
    (opened,) = broadcast(decisions, RoundOpened)
    assert (closed.accepted, closed.records) == ((), 0)
    assert (opened.entry, opened.round, machine.digest()) == (2, 1, before)
    missed = {name: member.missed for name, member in machine.state.members.items()}
    assert missed == {**dict.fromkeys(NAMES, 0), "c4": 1}


def test_a_label_or_feature_is_taken_up_when_as_many_clients_have_named_it_as_a_total_is_of():
    machine, members = federation()
    for here, named in ((NAMES[:2], ("a", "b")), (NAMES[:3], ("a", "b", "new"))):
        new = {"new_labels": ("new",), "new_features": ("z",)}
        there = [members.update(name, **(new if name in here else {})) for name in NAMES]
        decisions = feed(machine, *there)
        members.follow(feed(machine, *members.seeds(asked_by(decisions)).values()))
        assert machine.state.registry.labels == named
        assert ("z" in machine.state.registry.features) is (len(here) == 3)
    joins = [replace(join(name), labels=("a",) if name in NAMES[:2] else ("b",)) for name in NAMES[:5]]
    assert Agreement.of(joins, scaling=False, fewest=3).registry.labels == ("b",)


def silent(machine: Coordinator, members: Members, *absent: str, now: float) -> list[Any]:
    """Return what is decided at the deadline of the seeds, some of which are missing_clients."""
    there = [members.update(name) for name in NAMES]
    asked = asked_by(feed(machine, *there, now=now))
    feed(machine, *(seeds for name, seeds in members.seeds(asked).items() if name not in absent), now=now)
    return feed(machine, Tick(), now=now + 5.0)


def test_a_total_that_failed_is_asked_for_again_of_the_same_clients_and_records_alone():
    machine, members = federation(deadline=5.0)
    machine.handle(join("c10", key=MaskKeys(bytes(64)).public), 0.0)
    members.follow(silent(machine, members, "c4", now=0.0))
    assert (members.opened.entry, members.opened.round, members.opened.totals.repeats) == (2, 1, 1)
    newcomer = MaskKeys(bytes(64))
    members.keys["c10"], members.at["c10"] = newcomer, 0
    decisions = feed(machine, members.update("c10"), *(members.update(name) for name in NAMES), now=6.0)
    assert sorted(asked_by(decisions).attempts) == list(NAMES)
    (entry,) = broadcast(feed(machine, *members.seeds(asked_by(decisions)).values(), now=6.0), RoundClosed)
    assert [one.client for one in entry.accepted] == list(NAMES)
    assert (machine.state.repeats, {one.disclosed for one in machine.state.members.values()}) == (0, {None})


@pytest.mark.parametrize("wrong", ["a client is absent", "a client has left", "other records", "silent again"])
def test_a_total_that_cannot_be_repeated_gives_way_to_one_over_more_records(wrong):
    machine, members = federation(deadline=5.0)
    members.follow(silent(machine, members, "c4", now=0.0))
    now = 6.0
    if wrong == "silent again":
        decisions = silent(machine, members, "c4", now=now)
    else:
        left = [Leave(client="c4", nonce="i1", after=1)] if wrong == "a client has left" else []
        more = {"records": 8} if wrong == "other records" else {}
        there = [members.update(name) for name in NAMES if name != "c4"]
        there += [members.update("c4", **more)] if more else []
        decisions = feed(machine, *left, *there, Tick(), now=now + 5.0)
    (after,) = broadcast(decisions, RoundClosed)
    assert (after.entry, after.records, broadcast(decisions, Unmask)) == (2, 0, [])
    (opened,) = broadcast(decisions, RoundOpened)
    assert (opened.round, opened.totals.repeats) == (1, None)


def test_what_is_asked_for_is_saved_first_and_told_to_starts_that_come_later():
    machine, members = federation(deadline=5.0)
    decisions = feed(machine, *(members.update(name) for name in NAMES))
    assert any(isinstance(one, Commit) and isinstance(one.messages[-1], Unmask) for one in decisions)
    again = Coordinator(machine.settings, machine.state)
    (opened,) = broadcast(again.start(0.0), RoundOpened)
    assert (opened.entry, opened.totals.repeats) == (2, 1)
    (told,) = broadcast(feed(again, join("c4", start=2, key=MaskKeys(bytes(64)).public, after=1)), Joined)
    assert told.disclosed == Disclosed(1, digest_of(NAMES), {"c4": 4}, 4)


def test_an_entry_without_a_total_takes_no_period_with_it():
    machine, members = federation(by_event_time=True, deadline=5.0)
    feed(machine, *(members.update(name, period=5) for name in NAMES))
    decisions = feed(machine, Tick(), now=5.0)
    assert (members.opened.period, [opened.period for opened in broadcast(decisions, RoundOpened)]) == (3, [3])


def test_a_start_that_is_lost_with_its_masks_ends_the_entry_at_once_and_takes_part_in_the_next():
    machine, members = federation()
    feed(machine, *(members.update(name) for name in NAMES))
    anew = MaskKeys(bytes(range(64)))
    decisions = feed(machine, join("c4", start=2, key=anew.public))
    assert broadcast(decisions, RoundClosed) == []  # the others may still answer, but this changes nothing:
    asked = Unmask(entry=1, stage=0, attempts=dict.fromkeys(NAMES, "1-1"))
    decisions = feed(machine, *(seeds for name, seeds in members.seeds(asked).items() if name != "c4"))
    (closed,) = broadcast(decisions, RoundClosed)
    (roster,) = broadcast(decisions, Roster)
    assert closed.records == 0
    assert roster.keys["c4"] == anew.public


def test_who_joins_while_a_round_is_open_waits_for_the_next_entry():
    machine, members = federation(quorum=10)
    newcomer = MaskKeys(bytes(64))
    feed(machine, join("c10", key=newcomer.public))
    members.keys["c10"], members.at["c10"] = newcomer, 0
    late = with_sums(answer(members.opened, "c10"), np.zeros(1, np.int64))
    layout = Layout.of_round(members.opened, members.registry, LEARNER.model.columns)
    late = replace(late, sums=as_text(np.zeros(layout.size, np.int64)))
    assert refusals(feed(machine, late)) == [("c10", "it joined after the round was opened, and sums are masked")]
    asked = asked_by(feed(machine, *(members.update(name) for name in NAMES)))
    members.follow(feed(machine, *members.seeds(asked).values()))
    assert "c10" in members.roster.keys


def test_a_coordinator_that_starts_again_opens_another_entry_for_the_same_round():
    machine, members = federation()
    feed(machine, *(members.update(name) for name in NAMES))
    again = Coordinator(machine.settings, machine.state)
    decisions = again.start(0.0)
    (opened,) = broadcast(decisions, RoundOpened)
    assert (opened.entry, opened.round, opened.resumed) == (2, 1, 0)


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"squared_norm": 1.0}, "the message has numbers about records next to their sums"),
        ({"times": (1, 2)}, "the message has numbers about records next to their sums"),
        ({"sums": ""}, "the sums do not have the layout of the round"),
        ({"sums": as_text(np.zeros(3))}, "the sums do not have the layout of the round"),
        ({"sums": "?" * 100}, "the sums do not have the layout of the round"),
    ],
)
def test_an_update_is_refused_that_tells_more_or_less_than_its_sums(lie, reason):
    machine, members = federation()
    told = refusals(feed(machine, altered(members.update("c0"), **lie)))
    assert told == [("c0", reason)]


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"own": "0"}, "no seeds"),
        ({"own": "G" * 64}, "no seeds"),
        ({"shared": {"c9": "0" * 64}}, "the seeds are not shared with the clients that were asked for"),
        ({"attempt": "1-7"}, "the seeds are of another attempt"),
        ({"entry": 4}, "nobody has asked for seeds"),
    ],
)
def test_seeds_are_refused_that_were_not_asked_for(lie, reason):
    machine, members = federation(deadline=5.0)
    asked = asked_by(feed(machine, *(members.update(name) for name in NAMES)))
    seeds = members.seeds(asked)
    told = feed(machine, replace(seeds["c0"], **lie))
    assert refusals(told) == [("c0", reason)]
    rest = feed(machine, *(one for name, one in seeds.items() if name != "c0"), Tick(), now=5.0)
    assert len(broadcast(rest, RoundClosed)) == 1, "the round goes on without it"


def test_wrong_seeds_and_wild_sums_leave_a_model_of_finite_numbers():
    machine, members = federation()
    wild = [replace(members.update(name), sums=as_text(_wild(members, int(name[1:])))) for name in NAMES]
    asked = asked_by(feed(machine, *wild))
    decisions = feed(machine, *(replace(one, own="5" * 64) for one in members.seeds(asked).values()))
    assert len(broadcast(decisions, RoundClosed)) == 1
    assert np.isfinite(machine.serving()[1]).all()


@pytest.mark.parametrize("profile", PROFILES)
def test_whatever_clients_add_no_round_raises(profile):
    settings = CoordinatorSettings(LEARNER, min_clients=3, secure_aggregation="pooled", expand=expand)
    for seed in range(6):
        machine, rng = Coordinator(settings, PROFILES[profile]()), np.random.default_rng(seed)
        decisions = feed(machine, *(join(name) for name in NAMES[:3]))
        for at in range(0, 60, 4):
            (opened,) = broadcast(decisions, RoundOpened)
            layout = Layout.of_round(opened, machine.state.registry, LEARNER.model.columns)
            decisions = feed(machine, *(_lie(answer(opened, name, start=at), layout, rng) for name in NAMES[:3]))
            while asked := broadcast(decisions, Score):
                layout = Layout.of_scores(asked[0], machine.state.registry, LEARNER.model.columns)
                told = {"entry": asked[0].entry, "epoch": asked[0].epoch, "stage": asked[0].stage}
                blank = [Scores(client=name, attempt="1-1", losses={}, differences={}, **told) for name in NAMES[:3]]
                decisions = feed(machine, *(replace(one, sums=as_text(_numbers(layout, rng))) for one in blank))
            assert broadcast(decisions, RoundClosed)[0].records == 12


def _lie(update: Update, layout: Layout, rng: np.random.Generator) -> Update:
    return with_sums(update, _numbers(layout, rng))


def _numbers(layout: Layout, rng: np.random.Generator) -> np.ndarray:
    """Return sums that nobody has: any numbers, very large or small ones, zeros, or a few whole steps."""
    n = layout.size
    kinds = (
        lambda: rng.integers(-(2**63), 2**63 - 1, n),
        lambda: (rng.standard_normal(n) * 2.0 ** rng.integers(0, 62)).clip(-(2.0**62), 2.0**62).astype(np.int64),
        lambda: np.zeros(n, np.int64),
        lambda: rng.integers(-5, 5, n) << 32,
    )
    return kinds[rng.integers(len(kinds))]()


def _wild(members: Members, seed: int) -> np.ndarray:
    size = Layout.of_round(members.opened, members.registry, LEARNER.model.columns).size
    return np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, size)


# --- a client --------------------------------------------------------------------------------------------------


def masking(start: int = 1, **settings: Any) -> Any:
    return client(
        "c0", start=start, secrets=MaskKeys(bytes(64)), secure_aggregation="masked", min_clients_per_sum=2, **settings
    )


def roster(machine: Any, *others: str) -> Roster:
    keys = {"c0": machine.secrets.public} | {name: MaskKeys(name.encode() * 32).public for name in others}
    return Roster(version=1, keys=keys)


def test_a_client_introduces_itself_by_names_and_its_key_alone():
    machine = masking()
    (asked,) = (message for message in (d.message for d in feed(machine, RecordsRead((batch("abab"),)))))
    assert (asked.moments.features, asked.labels, asked.records) == (("x",), ("a", "b"), 4)
    assert asked.moments.count.tolist() == asked.moments.mean.tolist() == asked.moments.m2.tolist() == [0.0]
    assert asked.key == machine.secrets.public


def test_a_client_sends_nothing_in_a_round_that_is_opened_with_less_protection_than_it_wants():
    for more in ({}, {"pooled": True}):
        machine = masking()
        decisions = feed(machine, RecordsRead((batch("abab"),)), joined(), roster(machine, "c1"))
        decisions += feed(machine, *opening(**more))
        assert sent(decisions, Update) == []
        assert machine.dropped == 1


@pytest.mark.parametrize(
    "again",
    [
        {"held": HoldoutRule(per_label=2, since=1)},
        {"keep": 2},
        {"slots": (Slot(name="m", version=1, eta=0.5, trained=True, history=(1,)),)},
    ],
)
def test_a_client_whose_sums_are_masked_scores_no_record_of_an_earlier_round(again):
    machine = placed("c1")
    decisions = feed(machine, *opening(pooled=True, roster=1, **again))
    assert (sent(decisions, Update), machine.dropped) == ([], 1)


def test_a_client_waits_until_the_roster_has_its_key_and_enough_others():
    machine = masking()
    feed(machine, RecordsRead((batch("abab"),)), joined())
    other = MaskKeys(b"x" * 64).public
    of_another = Roster(version=1, keys={"c0": other, "c1": MaskKeys(b"y" * 64).public})
    assert sent(feed(machine, of_another, *opening(pooled=True, roster=1)), Update) == []
    assert sent(feed(machine, roster(machine)), Update) == []  # alone
    (update,) = sent(feed(machine, roster(machine, "c1")), Update)
    assert (update.numbers.losses, update.numbers.differences, update.records) == ({}, {}, 4)
    asked = Unmask(entry=1, stage=0, attempts={"c0": update.attempt, "c1": "1-1"})
    (seeds,) = sent(feed(machine, asked), Unmasked)
    assert (seeds.client, seeds.shared) == ("c0", {})
    assert sent(feed(machine, replace(asked, attempts={"c0": update.attempt})), Unmasked) == []


def test_a_client_whose_stream_has_ended_leaves_if_too_few_others_are_left():
    machine = masking()
    feed(machine, RecordsRead((batch("abab"),)), joined())
    decisions = feed(machine, roster(machine), *opening(pooled=True, roster=1), SourceEnded())
    assert len(sent(decisions, Leave)) == 1
    assert machine.pending == 4


def told(machine: Any, *others: str, repeats: int = 0, entry: int = 1) -> list[Unmasked]:
    """Open an entry of round 1, and return the seeds that a client tells for itself and some others."""
    decisions = feed(machine, *opening(entry, t=1, pooled=True, roster=1, repeats=repeats))
    attempts = [update.attempt for update in sent(decisions, Update)]
    asked = [Unmask(entry=entry, stage=0, attempts={"c0": a, **dict.fromkeys(others, "1-1")}) for a in attempts]
    return sent(feed(machine, *asked), Unmasked)


def placed(*others: str, records: str = "abab", **more: Any) -> Any:
    """Return a client whose sums of a round may be masked, which has read some records."""
    machine = masking(**more)
    feed(machine, RecordsRead((batch(records),)), joined(), roster(machine, *others))
    return machine


def test_a_client_tells_about_the_same_records_again_only_for_the_same_clients():
    for others, repeats, tells in (("c1", 1, True), ("c1", 0, False), ("c2", 1, False), ("c1 c2", 1, False)):
        machine = placed("c1", "c2")
        assert len(told(machine, "c1")) == 1
        feed(machine, closed(1))
        assert bool(told(machine, *others.split(), repeats=repeats, entry=2)) is tells, (others, repeats)


def test_a_client_adds_records_to_those_that_it_has_told_about_and_then_tells_for_any_clients():
    machine = placed("c1", "c2", min_records=2)
    assert len(told(machine, "c1")) == 1
    feed(machine, closed(1), RecordsRead((batch("a", start=4),)))
    assert sent(feed(machine, *opening(2, t=1, pooled=True, roster=1)), Update) == []  # it waits for a round more
    (update,) = sent(feed(machine, RecordsRead((batch("bab", start=5),))), Update)
    assert (update.records, update.spans[0].end) == (8, 8)
    asked = Unmask(entry=2, stage=0, attempts={"c0": update.attempt, "c2": "1-1"})
    assert len(sent(feed(machine, asked), Unmasked)) == 1


def test_a_client_whose_stream_has_ended_keeps_records_that_it_has_told_about_if_no_total_is_repeated():
    machine = placed("c1", "c2")
    assert len(told(machine, "c1")) == 1
    assert sent(feed(machine, SourceEnded(), closed(1)), Leave) == []  # the total may be asked for again
    decisions = feed(machine, *opening(2, t=1, pooled=True, roster=1))
    assert (sent(decisions, Update), len(sent(decisions, Leave)), machine.pending) == ([], 1, 4)


def test_a_start_does_not_tell_what_an_earlier_one_may_have_told():
    def start(disclosed: Disclosed | None) -> Any:
        machine = masking(2)
        feed(machine, RecordsRead((batch("abababab"),)), joined(start=2, entry=2, disclosed=disclosed))
        feed(machine, roster(machine, "c1", "c2"))
        return machine

    before = Disclosed(1, digest_of(["c0", "c1"]), {"c0": 3}, 3)
    assert told(start(before), "c2", repeats=1, entry=2) == []
    assert len(told(start(before), "c1", repeats=1, entry=2)) == 1
    machine = start(before)
    (update,) = sent(feed(machine, *opening(2, t=1, pooled=True, roster=1)), Update)
    assert update.records == 7  # those that were told about, and four more


def test_a_question_for_seeds_that_newer_messages_have_overtaken_is_dropped():
    machine = placed("c1", "c2")
    (update,) = sent(feed(machine, *opening(pooled=True, roster=1)), Update)
    asked = Unmask(entry=1, stage=0, attempts={"c0": update.attempt, "c1": "1-1"})
    opened = opening(2, t=1, pooled=True, roster=1)
    assert not_overtaken([asked, closed(1), *opened]) == [closed(1), *opened]
    assert not_overtaken([asked]) == [asked]
    feed(machine, closed(1))
    assert sent(feed(machine, asked), Unmasked) == []
