"""The phases of a client, by hand: a whole life in order, recovery, and that a wrong transition is noticed."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from unit.machines.script import (
    REGISTRY,
    SLOT,
    batch,
    client,
    closed,
    feed,
    fetched,
    first_update,
    joined,
    opening,
    sent,
)
from worlds import phases
from worlds.phases import TRANSITIONS, may_follow

from streamfl.machines.client.machine import Client
from streamfl.machines.client.phase import Phase
from streamfl.protocol.events import BufferDue, RecordsFetched, RecordsRead, SourceEnded, Stopped, Tick
from streamfl.protocol.messages import (
    Left,
    ModelPublished,
    Refusal,
    RegistryPublished,
    SampledRound,
    Score,
    Update,
)
from streamfl.protocol.records import Span
from streamfl.protocol.registry import Registry

SCRATCH = replace(SLOT, name="scratch")
LEFT = Left(client="c0", nonce="i1")


def led(machine: Client, *events: Any, now: float = 0.0) -> list[str]:
    """Return the phase after each event."""
    found = []
    for event in events:
        feed(machine, event, now=now)
        found.append(machine.phase.name)
    return found


def model(name: str = "scratch", *, version: int = 1) -> ModelPublished:
    return ModelPublished(slot=name, version=version, registry=1, weights=np.zeros((2, 2)))


def score() -> Score:
    return Score(entry=1, round=1, epoch=1, registry=1, slots=(SCRATCH,))


def refusal(**more: Any) -> Refusal:
    return Refusal(**({"client": "c0", "incarnation": 1, "entry": 1, "reason": "no"} | more))


# --- in order --------------------------------------------------------------------------------------------------


def test_a_client_passes_through_its_phases_in_order_from_the_first_record_to_the_end():
    machine = client()
    assert machine.phase is Phase.FILLING
    assert led(machine, RecordsRead((batch("ab"),)), RecordsRead((batch("aba", start=2),))) == ["FILLING", "JOINING"]
    registry, weights, opened = opening()
    assert led(machine, joined(), opened, registry) == ["WAITING"] * 3
    (update,) = sent(feed(machine, weights), Update)
    assert machine.phase is Phase.SENT
    assert led(machine, score(), model(), closed(1, update)) == ["SCORING", "SENT", "WAITING"]
    assert led(machine, *opening(2), RecordsRead((batch("b", start=5),))) == [
        "WAITING",
        "WAITING",
        "GATHERING",
        "GATHERING",
    ]
    (update,) = sent(feed(machine, SourceEnded()), Update)
    assert led(machine, closed(2, update), LEFT, Tick()) == ["LEAVING", "LEFT", "LEFT"]


def test_with_all_at_hand_one_event_leads_through_several_phases():
    machine = client()
    assert led(machine, *opening(), RecordsRead((batch("abab"),)), joined()) == ["FILLING"] * 3 + ["JOINING", "SENT"]


def test_old_records_are_read_again_before_the_next_round_is_worked_on():
    machine, sample = client(start=2), SampledRound(round=1, share=0.5, positions={"c0": (0, 3)})
    answer = joined(start=2, entry=2, positions={"c0": 4}, read=4, sample=(sample,))
    feed(machine, RecordsRead((batch("abab"),)))
    assert led(machine, answer, *opening(2)) == ["RESTORING"] * 4
    assert led(machine, RecordsFetched((fetched(batch("abab"), (0, 3)),))) == ["GATHERING"]


@pytest.mark.parametrize(
    ("begun", "event", "after"),
    [
        ([], SourceEnded(), "JOINING"),
        ([], BufferDue(), "JOINING"),
        ([], Stopped(), "LEAVING"),
        ([RecordsRead((batch("abab"),))], Stopped(), "LEAVING"),
        ([SourceEnded(), joined()], RecordsRead((batch("ab"),)), "WAITING"),
        ([SourceEnded()], joined(), "LEAVING"),
        ([SourceEnded(), joined()], closed(2), "JOINING"),
        ([RecordsRead((batch("abab"),)), joined(), *opening()], Stopped(), "SENT"),
    ],
)
def test_a_client_whose_stream_or_process_ends_early_joins_or_leaves(begun, event, after):
    machine = client()
    feed(machine, *begun)
    assert led(machine, event) == [after]


# --- ways back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begun", "event", "after"),
    [
        ("", opening(4)[-1], "FILLING"),
        ("", closed(2), "FILLING"),
        ("ab", closed(2), "FILLING"),
        ("abab", closed(2), "JOINING"),
        ("abab", opening(4)[-1], "JOINING"),
        ("abab", refusal(), "JOINING"),
        ("abab", refusal(evicted=True), "LEFT"),
        ("abab", closed(1), "WAITING"),
    ],
)
def test_a_client_that_has_lost_its_place_joins_again_once_it_has_records(begun, event, after):
    machine = client()
    feed(machine, RecordsRead((batch("abab"),)), joined(), *opening()[:2])
    if begun != "abab":
        machine = client()
        feed(machine, SourceEnded(), replace(joined(), positions={"c0": 0}), RecordsRead((batch(begun),)))
    feed(machine, *opening())
    assert led(machine, event) == [after]


def test_a_client_sends_a_refused_update_again_when_its_patience_ends():
    machine = client()
    first_update(machine, batch("abab"))
    assert led(machine, refusal(), joined(question=2)) == ["JOINING", "SENT"]
    assert led(machine, replace(opening()[-1], known_labels=0)) == ["WAITING"]
    assert led(machine, Tick(), now=9.9) == ["WAITING"]
    assert led(machine, Tick(), now=10.0) == ["SENT"]


def test_an_answer_with_other_positions_takes_back_what_was_sent():
    machine = client()
    first_update(machine, batch("abab"))
    feed(machine, Tick(), now=5.0)
    assert sent(feed(machine, joined(question=2, positions={"c0": 1}, read=1)), Update) == []
    assert machine.phase is Phase.GATHERING
    (update,) = sent(feed(machine, RecordsRead((batch("babb", start=1),))), Update)
    assert update.spans == (Span("c0", 1, 5),)


def test_an_opening_that_overtakes_the_entry_before_it_is_kept():
    machine = client()
    update = first_update(machine, batch("abab"))
    assert led(machine, *opening(2), closed(1, update)) == ["SENT", "SENT", "SENT", "GATHERING"]


def test_a_later_stage_whose_models_are_here_is_answered_though_the_first_ones_are_not():
    machine = client()
    first_update(machine, batch("abab"))
    second = replace(score(), stage=2, slots=(replace(SLOT, name="other"),))
    assert led(machine, model("other"), score(), second) == ["SENT", "SCORING", "SENT"]


def test_other_models_under_the_same_version_send_a_client_back_to_waiting():
    machine = client()
    wider = Registry(1, ("x", "y"), ("a", "b"), np.zeros(2), np.ones(2))
    assert led(machine, RecordsRead((batch("abab"),)), Tick()) == ["JOINING", "JOINING"]
    feed(machine, joined(positions={"c0": 1}))
    assert led(machine, *opening(), RegistryPublished(registry=wider), RegistryPublished(registry=REGISTRY)) == [
        "WAITING",
        "WAITING",
        "GATHERING",
        "WAITING",
        "GATHERING",
    ]


def test_a_round_of_another_size_may_need_more_records_to_join_with():
    machine = client(round_size=(2, 4))
    assert led(machine, RecordsRead((batch("ab"),)), opening(2)[-1], opening(1)[-1]) == [
        "JOINING",
        "FILLING",
        "FILLING",
    ]


def test_a_client_joins_again_after_a_message_that_it_cannot_use(monkeypatch):
    machine = client()
    feed(machine, RecordsRead((batch("ab"),)), SourceEnded(), joined(), *opening()[:2])

    def broken(*_: Any) -> Any:
        raise IndexError("of a model that was forged")

    monkeypatch.setattr(type(machine.settings.learner.model), "score_all", broken)
    assert led(machine, opening()[-1]) == ["JOINING"]
    assert machine.dropped == 1


# --- the table -------------------------------------------------------------------------------------------------


def test_the_transitions_in_the_docstring_of_phase_are_allowed_by_the_table():
    lines = re.findall(r"^    ([A-Z]+)  .*  ([A-Z ]+|ever)$", Phase.__doc__ or "", re.MULTILINE)
    ordinary = {Phase[name]: [Phase[after] for after in then.split()] for name, then in lines if then != "ever"}
    assert {*ordinary, Phase.LEFT} == set(Phase)
    for before, ends in ordinary.items():
        for after in ends:
            assert any(before in row.before and after in row.after for row in TRANSITIONS), (before, after)


def test_nothing_leads_back_from_the_end_and_only_an_update_in_flight_is_scored():
    assert not [row for row in TRANSITIONS if Phase.LEFT in row.before]
    assert {before for row in TRANSITIONS if Phase.SCORING in row.after for before in row.before} == {Phase.SENT}


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (Phase.JOINING, opening()[-1], Phase.WAITING),
        (Phase.FILLING, RecordsRead(()), Phase.GATHERING),
        (Phase.WAITING, RecordsRead(()), Phase.SENT),
        (Phase.RESTORING, opening()[-1], Phase.GATHERING),
        (Phase.WAITING, score(), Phase.SCORING),
        (Phase.SENT, Tick(), Phase.WAITING),
        (Phase.LEAVING, Tick(), Phase.LEFT),
        (Phase.LEFT, joined(), Phase.WAITING),
    ],
)
def test_the_table_of_client_phases_refuses_impossible_transitions(before, event, after):
    assert not may_follow(before, event, [], after)


def test_a_phase_that_may_not_follow_is_noticed(monkeypatch):
    rows = tuple(row for row in TRANSITIONS if not (Phase.SENT in row.before and Phase.SCORING in row.after))
    monkeypatch.setattr(phases, "TRANSITIONS", rows)
    machine = client()
    first_update(machine, batch("abab"))
    with pytest.raises(AssertionError, match="SCORING"):
        feed(machine, score())
