"""Positions and times of what is announced: from the records' times to the message, and what a lie can do."""

from dataclasses import replace

import numpy as np
import pytest
from unit.machines.script import (
    Federation,
    answer,
    as_bytes,
    batch,
    begun,
    broadcast,
    client,
    coordinator,
    feed,
    first_update,
    parting,
    reborn,
    refusals,
    scores,
)
from worlds.audit import Audit

from streamfl.machines.coordinator.saved.announcements import MOST_NAMED, with_places
from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.places import MOST_PARTITIONS, WINDOW, Places
from streamfl.protocol.messages import LocalDrift, Numbers, Restarted, RoundClosed, RoundOpened, Score, Update
from streamfl.protocol.records import Span
from streamfl.testing.violation import Violation
from streamfl_benchmarks.liars.fields import altered

NAMES = ("c0", "c1", "c2")
DRIFTED = LocalDrift(round=9, epoch=1, clients=(), since=9, state="latched", statistic=11.0, threshold=9.2)


# --- a client tells the times of its first and its last record ----------------------------------------------------


def test_an_update_has_the_times_of_its_first_and_its_last_record_as_read() -> None:
    records = replace(batch("abab"), times=np.array([np.nan, 100.25, 90.0, 101.5]))
    assert first_update(client(), records).numbers.times == (100_250, 101_500)
    assert first_update(client(), replace(records, times=np.full(4, np.nan))).numbers.times is None
    assert first_update(client(), batch("abab")).numbers.times is None


def test_the_earlier_time_is_the_first_also_of_records_that_came_late() -> None:
    records = replace(batch("abab"), times=np.array([200.0, 150.0, 170.0, 100.0]))
    assert first_update(client(), records).numbers.times == (100_000, 200_000)


def test_times_stay_with_their_records_when_a_batch_is_cut() -> None:
    records = replace(batch("a!ba"), times=np.array([1.0, 3.0, 4.0]))
    assert records.head(2).times.tolist() == [1.0, 3.0]  # type: ignore[union-attr]
    assert records.after(2).times.tolist() == [3.0, 4.0]  # type: ignore[union-attr]
    assert records.only(np.array([2])).times.tolist() == [4.0]  # type: ignore[union-attr]


# --- admission ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "times", [(2000, 1000), (-(10**15), 0), (0, 253_402_300_800_000), (10**30, 10**30), (-62_135_596_800_001, 0)]
)
def test_times_that_no_records_have_are_refused(times: tuple[int, int]) -> None:
    machine = coordinator(1)
    opened = begun(machine, "c0")
    decisions = feed(machine, answer(opened, "c0", times=times))
    assert refusals(decisions) == [("c0", "times are out of range")]


def test_an_update_without_records_has_no_times() -> None:
    machine = coordinator(1)
    opened = begun(machine, "c0")
    update = answer(opened, "c0", records=0, rejected=4, spans=(Span("c0", 0, 4),))
    assert refusals(feed(machine, altered(update, times=(1, 2)))) == [
        ("c0", "the update has data about records, but no records")
    ]


# --- a restart ---------------------------------------------------------------------------------------------------


def restarted(*, times: dict[str, tuple[int, int]], **settings: object) -> Restarted:
    """Return the restart of three clients whose losses are too high in round 11, after 100 records in each round.

    A round begins 60 seconds after the one before; in round 11 the clients have the given times.
    """
    machine = coordinator(3, **settings)
    opened = begun(machine, *NAMES)
    for t in range(10):
        usual = (60_000 * t, 60_000 * t + 59_000)
        sent = [answer(opened, n, loss=0.2, records=100, start=100 * t, times=usual) for n in NAMES]
        (opened,) = broadcast(feed(machine, *sent), RoundOpened)
    updates = [answer(opened, n, loss=0.7, records=100, start=1000, times=times.get(n)) for n in NAMES]
    (asked,) = broadcast(feed(machine, *updates), Score)
    (found,) = broadcast(feed(machine, *(scores(update, asked, 0.1) for update in updates)), Restarted)
    return found


def test_a_restart_tells_the_positions_and_the_times_between_which_the_change_lies() -> None:
    found = restarted(times=dict.fromkeys(NAMES, (600000, 659000)))
    assert (found.round, found.since, found.known_since) == (11, 11, 11)
    assert found.positions == {"c0": (1000, 1100), "c1": (1000, 1100), "c2": (1000, 1100)}
    assert found.times == (600_000, 659_000)


def test_a_client_that_lies_about_its_times_does_not_change_those_that_are_told() -> None:
    honest = (600_000, 659_000)
    for lie in ((0, 0), (253_402_300_799_999, 253_402_300_799_999), (-62_135_596_800_000, 253_402_300_799_999)):
        assert restarted(times={"c0": honest, "c1": lie, "c2": honest}).times == honest


def test_without_times_only_positions_are_told() -> None:
    assert restarted(times={}).times is None


# --- local drift -------------------------------------------------------------------------------------------------


def timed(run: Federation) -> Federation:
    """Give record i of every client the time of i seconds."""
    run.records = {name: replace(own, times=own.positions.astype(np.float64)) for name, own in run.records.items()}
    return run


def test_a_local_drift_tells_those_of_the_clients_named_and_so_does_a_coordinator_that_was_killed() -> None:
    run, restored = timed(parting()).run(), timed(parting(restart=reborn)).run()
    latched, branched = run.of(LocalDrift)
    spans = {closed.round: closed.accepted[1].spans[0] for closed in run.of(RoundClosed)}
    assert [latched.round, latched.since, branched.round, branched.since] == [9, 9, 11, 9]
    assert latched.positions == {"c1": (spans[9].start, spans[9].end)}
    assert branched.positions == {"c1": (spans[9].start, spans[11].end)}
    assert latched.times == (1000 * spans[9].start, 1000 * (spans[9].end - 1))
    assert as_bytes(restored.of(LocalDrift)) == as_bytes([latched, branched])
    assert restored.coordinator is not run.coordinator


def test_times_change_nothing_that_is_learnt() -> None:
    with_times, without = timed(parting()).run(), parting().run()
    assert with_times.coordinator.digest() == without.coordinator.digest()
    assert [drift.state for drift in with_times.of(LocalDrift)] == [drift.state for drift in without.of(LocalDrift)]


def test_an_audit_holds_the_positions_against_the_ledger() -> None:
    run = parting().run()
    audit, wrong = Audit(), Audit()
    for message in run.log:
        audit.watch(0.0, "coordinator", message)
    found = run.of(LocalDrift)[0]
    (first, last) = found.positions["c1"]
    with pytest.raises(Violation, match="of c1 since round 9: not the ledger's"):
        for message in run.log:
            moved = replace(found, positions={"c1": (first - 1, last)})
            wrong.watch(0.0, "coordinator", moved if message is found else message)


# --- bounds ------------------------------------------------------------------------------------------------------


def moved(t: int, start: int, *partitions: str) -> Update:
    """Return an update that moves some partitions by 10, with times."""
    return Update(
        client="c0", attempt="1-1", entry=t, round=t, epoch=1, registry=1, records=10, trained=10, rejected=0,
        spans=tuple(Span(name, start, start + 10) for name in partitions or ("p",)),
        numbers=Numbers(times=(1000 * start, 1000 * start + 9)),
    )  # fmt: skip


def test_no_more_rounds_than_the_window_are_kept() -> None:
    places = Places()
    for t in range(1, 101):
        places = places.after(moved(t, 10 * t))
    assert places.begun["p"][0] == (101 - WINDOW, 10 * (101 - WINDOW))
    assert len(places.begun["p"]) == len(places.times) == WINDOW
    member = Member(1, positions={"p": 1010}, places=places)
    told = with_places(replace(DRIFTED, round=100, since=40, clients=("c0",)), {"c0": member})
    assert (told.known_since, told.positions) == (69, {"p": (690, 1010)})
    assert told.times == (690_000, 1_000_009)


def test_a_second_entry_of_a_round_does_not_move_its_beginning() -> None:
    places = Places().after(moved(7, 100)).after(moved(7, 110))
    assert places.begun == {"p": ((7, 100),)}


def test_a_client_with_many_partitions_has_some_of_them_told() -> None:
    names = [f"p{i:03}" for i in range(MOST_PARTITIONS + 20)]
    assert len(Places().after(moved(1, 0, *names)).begun) == MOST_PARTITIONS


def test_the_clients_named_come_first_and_an_announcement_has_a_bound() -> None:
    members = {
        f"c{i:04}": Member(1, positions={f"p{i:04}": 10}, places=Places().after(moved(9, 0, f"p{i:04}")))
        for i in range(MOST_NAMED + 50)
    }
    found = Restarted(
        round=9, epoch=2, cause="excess", chosen="scratch", clients=("c0149",), since=9, statistic=11.0, threshold=9.2
    )
    told = with_places(found, members)
    assert list(told.positions)[:2] == ["p0149", "p0000"]
    assert len(told.positions) == MOST_NAMED
    assert list(with_places(replace(DRIFTED, clients=("c0007",)), members).positions) == ["p0007"]


def test_clients_that_share_a_partition_are_told_together() -> None:
    members = {
        "a": Member(1, positions={"p": 90}, places=Places().after(moved(9, 40))),
        "b": Member(1, positions={"p": 95}, places=Places().after(moved(9, 30))),
    }
    assert with_places(replace(DRIFTED, clients=("a", "b")), members).positions == {"p": (30, 95)}


def test_a_partition_without_records_since_is_not_told() -> None:
    quiet = Member(1, positions={"p": 50}, places=Places().after(moved(3, 40)))
    assert with_places(replace(DRIFTED, clients=("c0",)), {"c0": quiet}).positions == {}
