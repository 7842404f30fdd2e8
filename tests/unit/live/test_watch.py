"""What a person sees of a federation while it runs."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from streamfl.errors import PeerError
from streamfl.live.operator.watch import Paces, as_json, heard, lines, patient, reader, watch
from streamfl.protocol.messages import (
    Accepted,
    Ended,
    Joined,
    Left,
    LocalDrift,
    MemberChanged,
    Refusal,
    Restarted,
    RoundClosed,
    RoundOpened,
    Served,
    Slot,
)
from streamfl.runtime.clock import ManualClock
from streamfl.runtime.ports import LoggedMessage


def closed(t=7, records=600, **more):
    fields = {
        "entry": t,
        "round": t,
        "epoch": 2,
        "block": 1,
        "accepted": tuple(Accepted(client=f"c{i}", attempt="1", spans=(), records=50, rejected=0) for i in range(12)),
        "records": records,
        "trained": records,
        "rejected": 0,
        "losses": {"m": 0.41239, "other": 0.1},
        "serves": "m",
        "readings": {},
        "served": Served(records=600, correct=450, no_change=228.0),
        "model": "",
        "registry": 1,
    }
    return RoundClosed(**(fields | more))


RESTARTED = Restarted(round=31, epoch=3, cause="glr", statistic=113.84, threshold=11.7, chosen="scratch", since=30)
OPENED = RoundOpened(
    entry=8,
    round=8,
    epoch=2,
    block=1,
    registry=1,
    slots=(Slot(name="m", version=8, eta=1.0),),
    serves="m",
    known_labels=2,
)


def line(message):
    """Return the lines of a message as one text, and their style."""
    texts, style = lines(message)
    return "\n".join(texts), style


def seen(messages, **more):
    """Return the lines that are printed."""
    printed = io.StringIO()
    watch(messages, Console(file=printed, width=40), **more)
    return printed.getvalue().splitlines()


class Log:
    """A log of entries, each taken a minute after the one before."""

    def __init__(self, *entries):
        self.entries = entries

    def read(self):
        times = range(1_700_000_000_000, 2**63, 60_000)
        return [LoggedMessage(one, time) for one, time in zip(self.entries, times, strict=False)]


def test_a_round_says_how_many_records_are_learnt_a_second():
    paces, log = Paces(), Log(closed(1), closed(2), closed(3, records=60))
    read = [message for _, message in zip(range(3), heard(log.read, paces), strict=False)]
    assert read == list(log.entries)
    assert paces.by_client == {f"c{i}": pytest.approx(100 / 120, rel=1e-5) for i in range(12)}
    assert seen(heard(log.read, Paces()), rounds=1)[0].endswith("600 records of 12 clients")  # nothing is known yet
    paces = Paces()
    assert seen(heard(log.read, paces), rounds=3, paces=paces)[-1].endswith("12 clients  10.0 a second")
    paces = Paces()
    told = [*as_json(heard(log.read, paces), 2, paces)]
    assert json.loads(told[0])["records_per_second"] == {}
    assert json.loads(told[1])["records_per_second"]["c3"] == pytest.approx(50 / 60, rel=1e-5)


class TestLine:
    def test_the_line_of_a_round_says_how_it_went(self):
        text, style = line(closed())
        assert text == ("round    7  epoch 2  loss 0.412  accuracy 0.750  NoChange 0.380  600 records of 12 clients")
        assert style == ""

    def test_the_line_of_a_round_says_which_records_did_not_count_if_any(self):
        text, _ = line(closed(rejected=3, refused=1))
        assert text.endswith("600 records of 12 clients  3 rejected  1 refused")
        assert "rejected" not in line(closed())[0]

    def test_one_record_of_one_client_is_in_the_singular(self):
        one = closed(records=1)
        assert line(replace(one, accepted=one.accepted[:1]))[0].endswith("1 record of 1 client")

    def test_an_entry_that_lies_ends_nothing(self):
        text, _ = line(closed(losses={}, served=Served(records=1, correct=10**400)))
        assert text == "round    7  epoch 2  loss nan  600 records of 12 clients"

    def test_the_line_of_a_round_of_targets_has_the_error(self):
        text, _ = line(closed(served=Served(records=10, absolute_error=12.5, no_change=31.0)))
        assert "  error 1.25  NoChange 3.1  " in text

    def test_the_line_of_a_round_in_which_nothing_was_served_has_no_accuracy(self):
        assert line(closed(served=Served()))[0] == "round    7  epoch 2  loss 0.412  600 records of 12 clients"

    @pytest.mark.parametrize(
        ("message", "text"),
        [
            (
                RESTARTED,
                "round 31  drift since round 30: glr drift score 114 (alarm at 11.7); epoch 3 begins with "
                "an untrained model (scratch)\n"
                "Since round 30, records have been predicted worse over all clients together (found in round 31).",
            ),
            (
                replace(RESTARTED, online_models_begin_again=True),
                "round 31  drift since round 30: glr drift score 114 (alarm at 11.7); epoch 3 begins with "
                "an untrained model (scratch); online models begin again\n"
                "Since round 30, records have been predicted worse over all clients together (found in round 31).",
            ),
            (
                LocalDrift(
                    round=9,
                    epoch=1,
                    clients=("c3", "c7"),
                    labels=(),
                    since=8,
                    state="latched",
                    statistic=11.0,
                    threshold=9.2,
                ),
                "round 9  local drift, latched: c3, c7 drifted alone since round 8: drift score 11.0 (alarm at "
                "9.2)\nSince round 8, records have been predicted worse, but only at clients c3, c7 (found in round "
                "9).",
            ),
            (
                replace(
                    RESTARTED, positions={"a/0": (1234, 1300)}, times=(1_700_000_000_000, 1_700_000_060_000), drift=7
                ),
                "round 31  2023-11-14T22:14:20Z  drift since round 30 (2023-11-14T22:13:20Z; a/0 from 1,234), the "
                "same drift as in round 7: glr drift score 114 (alarm at 11.7); epoch 3 begins with an untrained "
                "model (scratch)\n"
                "Since round 30 (2023-11-14T22:13:20Z), records have been predicted worse over all clients together "
                "(found in round 31, 2023-11-14T22:14:20Z).",
            ),
            (
                LocalDrift(
                    round=31,
                    epoch=3,
                    clients=("c3",),
                    since=8,
                    state="corrected",
                    statistic=11.0,
                    threshold=9.2,
                    drift=9,
                ),
                "round 31  not a local drift: c3 did not drift alone; other clients have the same drift, "
                "first reported in round 9",
            ),
            (Joined(client="c1", nonce="7f", incarnation=1, entry=3, positions={}, read=12345), None),
            (Left(client="c1", nonce="1"), "c1 left"),
            (OPENED, ""),
            (closed(records=0), ""),
        ],
    )
    def test_every_other_announcement_has_its_line(self, message, text):
        assert line(message)[0] == (
            "c1 joined; the ledger already has 12,345 of its records" if text is None else text
        )

    def test_the_line_of_a_restart_stands_out(self):
        assert line(RESTARTED)[1] != line(closed())[1]


class TestWatch:
    def test_watch_prints_one_line_per_announcement_however_narrow_the_terminal(self):
        printed = seen([OPENED, closed(1), Left(client="[c]", nonce="1"), closed(2, records=0), RESTARTED])
        assert [text[:8] for text in printed] == ["round   ", "[c] left", "round 31", "Since ro"]

    def test_watch_ends_after_the_given_number_of_rounds_with_records(self):
        endless = iter([closed(1), closed(2, records=0), RESTARTED, closed(2), closed(3)])
        assert len(seen(endless, rounds=2)) == 4  # the restart and its sentence
        assert next(endless).round == 3

    def test_watch_continues_as_long_as_rounds_close(self):
        assert len(seen([closed(t) for t in range(1, 40)])) == 39


def test_watch_waits_for_a_federation_and_says_why_once():
    answers = [PeerError("no answer"), PeerError("no topic f.control"), PeerError("no topic f.control"), "reader"]
    printed, slept = io.StringIO(), []

    def opened():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert reader(opened, Console(file=printed, width=40), slept.append) == "reader"
    assert printed.getvalue().splitlines() == ["waiting: no answer", "waiting: no topic f.control"]
    assert len(slept) == 3


def test_watch_goes_on_after_a_stop_of_the_brokers_and_says_once_that_it_waits():
    answers = [[1], PeerError("no answer"), PeerError("no answer"), [], [2], PeerError("no answer"), [3]]
    printed, slept = io.StringIO(), []

    def read():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    waits = patient(read, Console(file=printed, width=40), slept.append)
    assert [list(waits()) for _ in range(4)] == [[1], [], [2], [3]]
    assert (printed.getvalue().splitlines(), len(slept)) == (["waiting: no answer"] * 2, 3)


class TestSilence:
    """`None` stands for ten seconds in which nothing comes."""

    @staticmethod
    def printed(*messages, **more):
        clock = ManualClock()

        def slowly():
            for message in messages:
                clock.time += 10.0 * (message is None)
                yield message

        return seen(slowly(), now=clock.now, **more)

    def test_watch_says_after_half_a_minute_that_no_round_is_open(self):
        (text,) = self.printed(*[None] * 4)
        assert text.startswith("for 30 s: no round is open; the coordinator waits for clients to join")

    def test_watch_reports_silence_after_half_a_minute_and_then_half_as_often_each_time(self):
        found = [text[:10] for text in self.printed(*[None] * 24, opened=OPENED)]
        assert found == ["for 30 s: ", "for 60 s: ", "for 120 s:", "for 240 s:"]

    def test_watch_says_nothing_of_the_federation_for_the_time_in_which_the_log_did_not_answer(self):
        clock = ManualClock()

        def interrupted():
            for seconds in (10.0, 100.0, 10.0, 10.0, 10.0):
                clock.time += seconds
                yield None

        (text,) = seen(interrupted(), now=clock.now, opened=OPENED)
        assert text.startswith("for 30 s: round 8 is open")

    def test_watch_names_the_open_round_and_who_may_be_late(self):
        (text,) = self.printed(OPENED, *[None] * 3)
        assert text == (
            "for 30 s: round 8 is open; the coordinator, if it is running, waits for updates of clients, which its "
            "log names"
        )

    def test_watch_waits_for_no_update_before_clients_close_the_round(self):
        timed = replace(OPENED, closes=60.0)
        assert self.printed(timed, *[None] * 8) == []
        (text,) = self.printed(timed, *[None] * 9)
        assert text.startswith("for 90 s: round 8 is open; the coordinator")

    def test_watch_says_that_an_operator_holds_the_round(self):
        hold, close_if_ready = (
            MemberChanged(entry=8, number=n, client="", action=action, by="op")
            for n, action in enumerate(("hold", "resume"))
        )
        (_, text) = self.printed(hold, *[None] * 3, opened=OPENED)
        assert text == "for 30 s: round 8 is open, but an operator has paused learning; `streamfl resume` continues"
        (*_, text) = self.printed(hold, close_if_ready, *[None] * 3, opened=OPENED)
        assert text.startswith("for 30 s: round 8 is open; the coordinator")

    def test_watch_says_that_records_do_not_come(self):
        without = [closed(8, records=0), None, closed(8, records=0), None, None]
        (text,) = self.printed(*without, opened=OPENED)
        assert text == "for 30 s: round 8 is open, and was opened again 2 times: no update had any record"
        (text,) = self.printed(*without[:2], closed(8), *[None] * 3, opened=OPENED)[1:]
        assert "again" not in text

    def test_a_round_that_was_opened_again_once_is_in_the_singular(self):
        (text,) = self.printed(closed(8, records=0), None, None, None, opened=OPENED)
        assert text == "for 30 s: round 8 is open, and was opened again 1 time: no update had any record"

    def test_a_client_that_moves_to_another_host_has_joined_once_until_it_leaves(self):
        first = Joined(client="c1", nonce="7f", incarnation=1, entry=3, positions={}, read=0)
        moved = replace(first, nonce="80", incarnation=2, read=9)
        assert self.printed(first, first, moved, Left(client="c1", nonce="80"), moved, moved) == [
            "c1 joined; the ledger already has 0 of its records",
            "c1 left",
            "c1 joined; the ledger already has 9 of its records",
        ]
        assert len(list(as_json([first, first, moved]))) == 1

    def test_a_client_that_was_evicted_has_joined_when_it_comes_back(self):
        first = Joined(client="c1", nonce="7f", incarnation=1, entry=3, positions={}, read=0)
        out = Refusal(client="c1", incarnation=1, entry=9, reason="evicted", evicted=True)
        assert [text[:9] for text in self.printed(first, replace(out, evicted=False), first, out, first)] == [
            "c1 joined",
            "c1 refuse",
            "c1 evicte",
            "c1 joined",
        ]

    def test_a_line_restarts_the_time_of_silence_and_the_end_ends_it(self):
        assert len(self.printed(None, None, closed(8), None, None, closed(9), opened=OPENED)) == 2
        found = [text[:9] for text in self.printed(*[None] * 9, closed(8), *[None] * 5, opened=OPENED)]
        assert found == ["for 30 s:", "for 60 s:", "round    ", "for 30 s:"]
        assert self.printed(Ended(entry=9), *[None] * 100) == ["the federation has ended"]


def test_a_refusal_is_one_line_with_its_reason():
    refused = Refusal(client="c3", incarnation=1, entry=7, reason="a loss of\nNaN")
    assert line(refused) == ("c3 refused for entry 7: a loss of NaN", "yellow")
    out = Refusal(client="c3", incarnation=1, entry=9, reason="evicted, refused for 3 entries", evicted=True)
    assert line(out) == ("c3 evicted, refused for 3 entries", "bold red")


def test_programs_read_a_round_and_a_drift_with_the_fields_of_a_result() -> None:
    restart = Restarted(round=9, epoch=2, cause="excess", statistic=12.0, threshold=9.2, chosen="scratch", since=8)
    unmeasured = closed(t=8, served=Served(), losses={})
    told = [json.loads(line) for line in as_json([closed(), None, unmeasured, restart], rounds=3)]
    assert [one["type"] for one in told] == ["round-closed", "round-closed", "restarted"]
    assert (told[0]["round"], told[0]["records"], told[0]["loss"]) == (7, 600, 0.41239)
    assert told[1]["loss"] is None
    assert (told[2]["since"], told[2]["chosen"], told[2]["cause"]) == (8, "scratch", "excess")
    assert all(one["text"].isprintable() for one in told)
    forged = replace(restart, statistic=float("inf"), scores={"\x1b[2J": float("nan")})
    assert json.loads(next(as_json([forged])))["statistic"] is None


def test_programs_read_no_more_rounds_than_asked_for() -> None:
    assert len(list(as_json([closed(t=t) for t in range(1, 9)], rounds=2))) == 2
