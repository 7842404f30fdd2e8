"""One drift that reaches clients in different rounds: told as one by times or rounds, and corrected by a message."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from unit.machines.script import LEARNER, Federation, as_bytes, cut, reborn, swapping

from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.one_drift import Drift, Extent, in_one_drift
from streamfl.machines.coordinator.saved.places import Places
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.messages import LocalDrift, Noticed, Restarted

HOUR = 3_600_000


def member(rate: int, rounds: int, *, times: bool = True, first: int = 1) -> Member:
    """Return an account after so many rounds of ten records, of which a client has `rate` an hour from hour 0 on."""
    took = 10 * HOUR // rate
    spans = tuple((t, (t - 1) * took, t * took - 1) for t in range(first, rounds + 1))
    begun = tuple((t, 10 * (t - 1)) for t in range(first, rounds + 1))
    return Member(1, positions={"p": 10 * rounds}, places=Places({"p": begun}, spans if times else ()))


def local(t: int, *clients: str, since: int | None = None, state: str = "latched") -> LocalDrift:
    return LocalDrift(
        round=t, epoch=1, clients=clients, since=since or t, state=state, statistic=11.0, threshold=9.2, labels=("a",)
    )


def restart(t: int, *clients: str, cause: str = "excess") -> Restarted:
    return Restarted(
        round=t, epoch=2, cause=cause, chosen="scratch", clients=clients, since=t, statistic=11.0, threshold=9.2
    )


def told(drifts: tuple[Drift, ...], found: LocalDrift | Restarted, members: Mapping[str, Member]):
    """Return the drifts after a finding, and (what it is, its drift, its clients) of all that is announced."""
    drifts, made = in_one_drift(drifts, (found,), members)
    return drifts, [
        (each.state if isinstance(each, LocalDrift) else "restart", each.drift, each.clients)
        for each in made
        if isinstance(each, LocalDrift | Restarted)
    ]


def at(t: int, **rates: int) -> dict[str, Member]:
    """Return the accounts of clients in round t, by their records an hour."""
    return {name: member(rate, t) for name, rate in rates.items()}


# The drift is at hour 20. With 10 records a round client a has it from round 2 on, b from 20 on, c and d from 60 on.
RATES = {"a": 1, "b": 10, "c": 30, "d": 30}


def test_a_restart_at_the_time_of_a_local_drift_in_an_earlier_round_completes_and_corrects_it() -> None:
    drifts, first = told((), local(3, "a"), at(3, **RATES))
    assert first == [("latched", 3, ("a",))]
    drifts, second = told(drifts, restart(61, "c", "d"), at(61, **RATES))
    assert second == [("restart", 3, ("c", "d")), ("corrected", 3, ("a",))]
    _, again = told(drifts, restart(62, "c", "d"), at(62, **RATES))
    assert again == [("restart", 3, ("c", "d"))]  # corrected once


def test_a_restart_at_another_time_leaves_a_local_drift_local() -> None:
    drifts, _ = told((), local(3, "a"), at(3, **RATES))
    _, later = told(drifts, restart(121, "c", "d"), at(121, **RATES))  # hour 40
    assert later == [("restart", 121, ("c", "d"))]
    _, earlier = told(drifts, restart(20, "c", "d"), at(20, **RATES))  # hour 6
    assert earlier == [("restart", 20, ("c", "d"))]


def test_three_tenths_of_the_clients_that_drift_one_by_one_are_no_local_drift() -> None:
    rates = {f"c{i}": rate for i, rate in enumerate((1, 2, 4, 8, 30, 30, 30, 30))}
    drifts, first = told((), local(3, "c0"), at(3, **rates))
    drifts, second = told(drifts, local(5, "c1"), at(5, **rates))
    assert (first, second) == ([("latched", 3, ("c0",))], [("latched", 3, ("c1",))])
    drifts, third = told(drifts, local(9, "c2"), at(9, **rates))  # 3 of 8 are 0.3 or more
    assert third == [("latched", 3, ("c2",)), ("corrected", 3, ("c0", "c1", "c2"))]
    _, fourth = told(drifts, local(17, "c3"), at(17, **rates))
    assert fourth == [("latched", 3, ("c3",)), ("corrected", 3, ("c3",))]


def test_later_states_of_a_branch_tell_its_drift() -> None:
    drifts, _ = told((), local(3, "a"), at(3, **RATES))
    drifts, _ = told(drifts, local(40, "b"), at(40, **RATES))
    assert told(drifts, local(42, "b", since=40, state="branched"), at(42, **RATES))[1] == [("branched", 40, ("b",))]
    assert told(drifts, local(42, "a", since=3, state="merged"), at(42, **RATES))[1] == [("merged", 3, ("a",))]
    assert told((), local(42, "a", since=3, state="merged"), at(42, **RATES))[1] == [("merged", 0, ("a",))]


def test_the_states_of_a_branch_that_was_found_later_tell_the_drift_of_before() -> None:
    drifts, _ = told((), local(3, "a"), at(3, **RATES))
    drifts, _ = told(drifts, local(61, "c"), at(61, **RATES))
    drifts, _ = told(drifts, local(90, "d"), at(90, **RATES))
    assert told(drifts, local(92, "c", since=61, state="returned"), at(92, **RATES))[1] == [("returned", 3, ("c",))]


def test_how_many_others_have_no_records_yet_of_the_time_of_a_local_drift() -> None:
    _, (early,) = in_one_drift((), (local(3, "a"),), at(3, **RATES))
    assert isinstance(early, LocalDrift)
    assert early.behind == 3
    gone = at(3, **RATES) | {"d": replace(member(30, 3), left=True)}
    _, (fewer,) = in_one_drift((), (local(3, "a"),), gone)
    _, (late,) = in_one_drift((), (local(61, "c"),), at(61, **RATES))
    assert isinstance(fewer, LocalDrift)
    assert isinstance(late, LocalDrift)
    assert (fewer.behind, late.behind) == (2, 0)


def test_a_client_that_lies_about_its_times_cannot_correct_the_drift_of_another() -> None:
    rates = RATES | dict.fromkeys("efgh", 30)
    drifts, _ = told((), local(3, "a"), at(3, **rates))
    members = at(121, **rates)
    everywhere = tuple((t, -62_135_596_800_000, 253_402_300_799_999) for t in range(1, 122))
    members["d"] = replace(members["d"], places=replace(members["d"].places, times=everywhere))
    assert told(drifts, restart(121, "c", "d"), members)[1] == [("restart", 121, ("c", "d"))]
    assert told(drifts, local(121, "d"), members)[1] == [("latched", 3, ("d",))]  # it counts as one client of eight


def test_without_times_a_client_that_was_silent_has_records_of_all_rounds_since_it_was_heard() -> None:
    silent = Places({"p": ((1, 0), (30, 10), (80, 20))})
    members = {name: member(1, 80, times=False) for name in ("b", "c", "d")} | {"a": Member(1, places=silent)}
    drifts, _ = told((), local(59, "b"), members)
    assert told(drifts, restart(80, "a"), members)[1] == [("restart", 59, ("a",)), ("corrected", 59, ("b",))]
    assert told(drifts, restart(80, "c"), members)[1] == [("restart", 80, ("c",))]
    drifts, _ = told((), local(20, "b"), members)  # the change may lie in its update of round 30, too
    assert told(drifts, restart(80, "a"), members)[1] == [("restart", 20, ("a",)), ("corrected", 20, ("b",))]


def test_a_new_label_and_a_notice_are_no_such_drift() -> None:
    drifts, _ = told((), local(3, "a"), at(3, **RATES))
    new = restart(61, "c", "d", cause="new-label")
    noticed = Noticed(round=61, epoch=1, cause="class-mix", statistic=30.0, threshold=20.0, since=61)
    assert in_one_drift(drifts, (new, noticed), at(61, **RATES)) == (drifts, (new, noticed))


def test_only_the_last_drifts_are_remembered() -> None:
    drifts: tuple[Drift, ...] = ()
    for t in range(10, 1000, 10):
        drifts, _ = told(drifts, local(t, "c"), at(t, c=30))
    assert [drift.first.round for drift in drifts] == list(range(840, 1000, 10))  # 16 of them


@pytest.mark.parametrize(("rounds", "meets"), [((60, 62), True), ((62, 62), False)])
def test_findings_in_the_same_rounds_are_one_drift_without_times(rounds: tuple[int, int], meets: bool) -> None:
    assert Extent((58, 60)).meets(Extent(rounds)) is meets


# --- a whole federation ------------------------------------------------------------------------------------------


def in_turn(**more) -> Federation:
    """Return eight clients whose classes are exchanged at one time; c0 has an eighth of the others' records."""
    rounds = {"c0": 24, **{f"c{i}": 40 for i in range(1, 8)}}
    at = {name: 9 if name == "c0" else 16 for name in rounds}
    records = {}
    for name, many in rounds.items():
        own = swapping(name, many, size=40, at=at[name])
        own = cut(own, own.span.start, own.span.end)
        rate = 1.0 / (at[name] - 1)  # the exchange is at second 1
        records[name] = replace(own, times=rate * own.positions / (own.span.end / many))
    machine = Coordinator(CoordinatorSettings(learner=LEARNER, min_clients=8), CoordinatorState(Promotion()))
    return Federation(machine, records, ClientSettings(learner=LEARNER, round_size=40), **more)


def test_a_federation_tells_one_drift_as_one_and_so_does_a_coordinator_that_is_killed() -> None:
    run, restored = in_turn().run(), in_turn(restart=reborn).run()
    states = [(drift.round, drift.state, drift.drift, drift.clients) for drift in run.of(LocalDrift)]
    assert states[0] == (9, "latched", 9, ("c0",))
    assert states[-1] == (16, "corrected", 9, ("c0",))
    assert [(restarted.round, restarted.drift) for restarted in run.of(Restarted)] == [(16, 9)]
    assert run.of(LocalDrift)[0].behind == 7
    assert restored.coordinator is not run.coordinator
    for kind in (LocalDrift, Restarted):
        assert as_bytes(restored.of(kind)) == as_bytes(run.of(kind))


def test_what_is_told_changes_nothing_that_is_learnt() -> None:
    run, plain = in_turn(), in_turn()
    plain.records = {name: replace(own, times=None) for name, own in plain.records.items()}
    assert run.run().coordinator.digest() == plain.run().coordinator.digest()
    assert [restarted.drift for restarted in plain.of(Restarted)] == [16]  # rounds alone do not show it
    assert np.isfinite(run.now)
