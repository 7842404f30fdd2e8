"""What of a federation is worth a message to a person."""

from dataclasses import replace

import pytest

from streamfl.live.alerts.rules import LISTED, AlertRules
from streamfl.protocol.messages import (
    Accepted,
    Ended,
    FeatureMoved,
    FeatureStuck,
    InputsMoved,
    InputsStuck,
    Joined,
    Left,
    LocalDrift,
    MemberChanged,
    Noticed,
    Refusal,
    Restarted,
    RoundClosed,
    RoundOpened,
    Served,
)

NOON = 1.7e9  # 2023-11-14T22:13:20Z


def accepted(client, records=50, rejected=0):
    return Accepted(client=client, attempt="1", spans=(), records=records, rejected=rejected)


def closed(t, *updates):
    records = sum(update.records for update in updates)
    return RoundClosed(
        entry=t,
        round=t,
        epoch=1,
        block=1,
        accepted=updates,
        records=records,
        trained=records,
        rejected=0,
        losses={},
        serves="m",
        readings={},
        served=Served(),
        model="",
        registry=1,
    )


def begun(stalled_after=60.0, silent_after=3, **more):
    rules = AlertRules("forest", stalled_after, silent_after, **more)
    rules.begin(now=0.0)
    return rules


def told(rules, *messages, now=0.0):
    return [alert for message in messages for alert in rules.hear(message, now, NOON)]


def summary(alerts):
    return [(alert.kind, alert.is_over, alert.clients) for alert in alerts]


def test_a_restart_is_told_with_its_labels_clients_and_rounds() -> None:
    restart = Restarted(
        round=32,
        epoch=2,
        cause="excess",
        statistic=113.8,
        threshold=9.21,
        chosen="scratch",
        since=31,
        clients=("c0", "c1"),
        labels=("1", "2"),
    )
    (alert,) = told(begun(), restart)
    assert alert.plain == {
        "federation": "forest",
        "kind": "drift",
        "text": alert.text,
        "time": "2023-11-14T22:13:20Z",
        "is_over": False,
        "round": 32,
        "since": 31,
        "clients": ("c0", "c1"),
        "labels": ("1", "2"),
    }
    assert "records of labels 1, 2 have been predicted worse" in alert.text


@pytest.mark.parametrize(("state", "is_over"), [("latched", False), ("branched", False), ("returned", True)])
def test_a_local_drift_is_over_when_its_clients_learn_with_all_again(state: str, is_over: bool) -> None:
    drift = LocalDrift(round=9, epoch=1, clients=("c3",), since=8, state=state, statistic=23.4, threshold=9.2)
    assert summary(told(begun(), drift)) == [("local-drift", is_over, ("c3",))]


def test_a_stalled_federation_is_told_once_and_told_again_when_it_goes_on() -> None:
    rules = begun(stalled_after=60.0)
    assert rules.idle(59.0, NOON) == []
    assert summary(rules.idle(60.0, NOON)) == [("stalled", False, ())]
    assert rules.idle(600.0, NOON) == []
    assert told(rules, closed(1), now=610.0) == []  # an entry without records has learnt nothing
    (over,) = told(rules, closed(1, accepted("a")), now=620.0)
    assert (over.kind, over.is_over, over.text) == ("stalled", True, "records are learnt again, after 620 s")
    assert told(rules, closed(2, accepted("a")), now=630.0) == []
    assert rules.idle(689.0, NOON) == []
    assert len(rules.idle(690.0, NOON)) == 1


def test_that_most_clients_come_too_late_is_told_once_and_told_again_when_they_do_not() -> None:
    rules = begun(silent_after=99)
    late = [replace(closed(t, accepted("a")), refused=9, late=9 if t < 6 else 0) for t in range(1, 12)]
    alerts = told(rules, *late)
    assert [(one.kind, one.round, one.is_over) for one in alerts] == [("late", 3, False), ("late", 8, True)]
    assert alerts[0].text.startswith(
        "in 3 of the last 3 rounds more updates came too late than in time; raise `[rounds] deadline`"
    )


HELD = MemberChanged(action="hold", client="", number=1, by="", entry=4)


@pytest.mark.parametrize("message", [Ended(entry=4), HELD])
def test_what_stands_still_by_intention_is_not_stalled(message: object) -> None:
    rules = begun(stalled_after=60.0)
    told(rules, message)
    assert rules.idle(1000.0, NOON) == []


def test_a_federation_that_goes_on_after_its_end_may_be_stalled() -> None:
    rules = begun(stalled_after=60.0)
    told(rules, Ended(entry=4))
    opened = RoundOpened(entry=4, round=4, epoch=1, block=1, registry=1, slots=(), serves="m", known_labels=0)
    told(rules, opened)
    assert summary(rules.idle(1000.0, NOON)) == [("stalled", False, ())]


def test_without_a_limit_nothing_is_stalled() -> None:
    assert begun(stalled_after=None).idle(1e9, NOON) == []


def test_a_log_that_does_not_answer_for_a_minute_is_told_once_however_long_rounds_take() -> None:
    rules = begun(stalled_after=None)
    assert rules.idle(50.0, NOON) == rules.idle(70.0, NOON, "no answer") == rules.idle(109.0, NOON, "no answer") == []
    (alert,) = rules.idle(110.0, NOON, "no answer")
    assert (alert.kind, alert.text) == ("stalled", "the log has not answered for 60 s: no answer")
    assert rules.idle(500.0, NOON, "no answer") == []


def test_a_client_is_silent_after_so_many_rounds_of_others_and_told_once() -> None:
    rules = begun(silent_after=3)
    both, one = (accepted("a"), accepted("b")), (accepted("a"),)
    assert told(rules, closed(1, *both), closed(2, *one), closed(3, *one)) == []
    (gone,) = told(rules, closed(4, *one))
    assert (gone.text, gone.clients, gone.round) == ("b sent no record for 3 rounds", ("b",), 4)
    assert told(rules, closed(5, *one)) == []
    assert summary(told(rules, closed(6, *both))) == [("silent", True, ("b",))]
    assert told(rules, closed(7, *both)) == []


def test_an_entry_without_records_silences_nobody() -> None:
    rules = begun(silent_after=1)
    assert told(rules, closed(1, accepted("a")), closed(1), closed(1)) == []


def test_bad_records_are_signs_of_life_and_empty_updates_are_none() -> None:
    rules = begun(silent_after=1)
    told(rules, closed(1, accepted("a"), accepted("b"), accepted("c")))
    alerts = told(rules, closed(2, accepted("a"), accepted("b", 0, rejected=7), accepted("c", 0)))
    assert summary(alerts) == [("silent", False, ("c",))]


@pytest.mark.parametrize(
    "goes", [Left(client="b", nonce="7f"), Refusal(client="b", incarnation=1, entry=2, reason="x", evicted=True)]
)
def test_a_client_that_has_gone_is_not_silent(goes: object) -> None:
    rules = begun(silent_after=1)
    told(rules, closed(1, accepted("a"), accepted("b")), goes)
    assert told(rules, closed(2, accepted("a")), closed(3, accepted("a"))) == []


def test_a_client_that_joined_and_never_sends_is_silent() -> None:
    rules = begun(silent_after=2)
    joined = Joined(client="b", incarnation=1, nonce="7f", question=1, read=0, positions={}, entry=0)
    told(rules, joined, closed(1, accepted("a")))
    assert summary(told(rules, closed(2, accepted("a")))) == [("silent", False, ("b",))]


def test_what_was_silent_before_the_beginning_is_told_with_the_next_round() -> None:
    rules = AlertRules("forest", 60.0, 2)
    told(rules, closed(1, accepted("a"), accepted("b")), *(closed(t, accepted("a")) for t in range(2, 9)))
    rules.begin(now=500.0)
    assert rules.idle(559.0, NOON) == []
    assert summary(told(rules, closed(9, accepted("a")))) == [("silent", False, ("b",))]


def test_only_so_many_clients_are_watched() -> None:
    rules = begun(silent_after=1, most_clients=1)
    told(rules, closed(1, accepted("a"), accepted("b")))
    assert summary(told(rules, closed(2, accepted("c")))) == [("silent", False, ("a",))]


def test_an_alert_names_a_bounded_number_of_clients_and_nothing_that_controls_a_screen() -> None:
    rules = begun(silent_after=1)
    told(rules, closed(1, accepted("a"), *(accepted(f"b{n:03}\x1b[2J") for n in range(50))))
    (alert,) = told(rules, closed(2, accepted("a")))
    assert len(alert.clients) == LISTED
    assert alert.text.isprintable()
    assert all(name.isprintable() for name in alert.clients)
    refusal = Refusal(client="b", incarnation=1, entry=2, reason="a\nb", evicted=True)
    assert told(rules, refusal)[0].text == r"b was evicted: a\nb"


def test_other_changes_are_told_as_what_they_are() -> None:
    notice = Noticed(round=7, epoch=1, cause="class-mix", since=6, statistic=30.0, threshold=20.0, labels=("0",))
    refused = Refusal(client="b", incarnation=1, entry=2, reason="x")
    assert [alert.kind for alert in told(begun(), notice, Ended(entry=3), refused)] == ["notice", "ended"]


def test_a_sensor_that_stands_still_is_told_in_one_sentence() -> None:
    stuck = (FeatureStuck("spindle temperature", "m3", 61.2), FeatureStuck("flow", "m3", 14.0))
    message = InputsStuck(round=9, epoch=1, since=6, statistic=30.0, threshold=15.0, stuck=stuck, clients=("m3",))
    (alert,) = told(begun(), message)
    assert (alert.kind, alert.clients, alert.features) == ("inputs-stuck", ("m3",), ("spindle temperature", "flow"))
    assert alert.text == (
        "Since round 6, spindle temperature has repeated 61.2 at client m3, and flow 14 at client m3 (found in round "
        "9); their sensors may be stuck."
    )


def test_a_sensor_that_moved_is_told_in_one_sentence() -> None:
    heat = FeatureMoved("spindle temperature", 60.0, 46.0, ("m3",), 1)
    moved = InputsMoved(round=7, epoch=1, since=6, statistic=30.0, threshold=9.2, moved=(heat,), clients=("m3",),
                        times=(1_700_000_000_000, 1_700_000_060_000))  # fmt: skip
    (alert,) = told(begun(), moved)
    assert (alert.kind, alert.round, alert.since, alert.clients) == ("inputs-moved", 7, 6, ("m3",))
    assert alert.plain["features"] == ("spindle temperature",)
    assert alert.text == (
        "Since round 6 (2023-11-14T22:13:20Z), spindle temperature reads 14 lower (46 instead of 60) at least at "
        "client m3 (found in round 7, 2023-11-14T22:14:20Z)."
    )
    (alert,) = told(begun(), replace(moved, clients=(), moved=(heat, replace(heat, clients=(), of_clients=0))))
    assert alert.clients == ("m3",)  # where one of two features moved at all clients
