"""The page as a fold over what the coordinator tells: numbers by hand, and writers that lie."""

import itertools
import json
import math
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from patched_page import patched
from unit.live.page.told import (
    IMAGE,
    accepted,
    closed,
    drifted,
    heard,
    joined,
    left,
    opened,
    refused,
    restarted,
)

from streamfl.bounds import Limits
from streamfl.protocol.alarm import Reading
from streamfl.protocol.messages import (
    Ended,
    FeatureMoved,
    FeatureStuck,
    InputsMoved,
    InputsStuck,
    MemberChanged,
    Noticed,
    Score,
    Served,
    Watermark,
)
from streamfl.protocol.records import Span
from streamfl.run.page import view as bounds
from streamfl.run.page.events import LARGEST
from streamfl.run.page.sections import changed, sections
from streamfl.run.page.view import View
from streamfl.runtime.ports import PartitionReach


def shown(*messages):
    """The sections after some messages."""
    return sections(heard(*messages).now)


def client(found, name):
    keys = ("state", "learnt", "missed", "records", "rejected", "refused", "reason", "refused_in", "value", "naive")
    keys = (*keys, "rejected_labels", "pace", "unread", "unlearnt")
    (row,) = [dict(zip(keys, row[1:], strict=True)) for row in found["clients"] if row[0] == name]
    return row


class TestHeadline:
    def test_the_headline_says_that_it_waits_before_any_round(self):
        head = shown(joined("c0"), joined("c1"))["headline"]
        assert (head["phase"], head["clients"], head["round"]) == ("waiting for the first round", 2, 0)
        assert (head["value"], head["naive"], head["lately"]) == (None, None, None)

    def test_the_headline_has_the_counts_and_means_computed_by_hand(self):
        first = closed(1, [("c0", 30), ("c1", 10)], correct=30, no_change=16.0)
        second = closed(2, [("c0", 40), accepted("c1", 20, rejected=4)], correct=30, no_change=30.0)
        head = shown(opened(1), first, opened(2), second, opened(3))["headline"]
        assert (head["value"], head["naive"]) == (0.5, 0.5)  # 30 of 60, 30 of 60
        assert (head["lately"], head["naive_lately"], head["lately_rounds"]) == (0.6, 0.46, 2)  # 60 and 46 of 100
        assert (head["records"], head["rejected"], head["rounds"]) == (100, 4, 2)
        assert (head["round"], head["entry"], head["epoch"], head["phase"]) == (
            3,
            2,
            1,
            "waiting for updates of clients",
        )
        assert head["readings"] == [{"detector": "excess", "statistic": 3.5, "threshold": 9.25}]
        assert head["shares"] == "fast trees 50%"
        assert head["time"] == "2023-11-14T22:16:20Z"  # three minutes after the first message

    def test_the_records_that_were_learnt_a_second_lately_are_told_where_the_log_has_times(self):
        messages = [closed(i, [("c0", 30)]) for i in (1, 2, 3)]  # a minute each
        (note,) = [card["note"] for card in shown(*messages)["cards"] if card["title"] == "Records"]
        assert note == "0 rejected; 0.5 a second lately"

    def test_each_client_has_the_records_that_it_learnt_a_second_in_its_last_rounds(self):
        first = [closed(i, [("c0", 600), ("c1", 60)]) for i in range(1, 7)]  # a minute each
        found = shown(joined("c0"), *first, *(closed(i, [("c0", 30)]) for i in range(7, 27)))
        # Of c0 the last twenty rounds, of c1 the five after its first, over 25 minutes.
        assert client(found, "c0")["pace"] == pytest.approx(30 / 60)
        assert client(found, "c1")["pace"] == pytest.approx(5 * 60 / (25 * 60))
        assert client(shown(joined("c0"), closed(1, [("c0", 9)])), "c0")["pace"] is None
        assert client(shown(*first, left("c1")), "c1")["pace"] is None

    def test_records_that_wait_are_told_of_each_client_and_in_a_card(self):
        """c0 has learnt up to 100, 90 good records and 10 bad ones; half of what is at c1's positions is others'."""
        half = replace(accepted("c1", 50), spans=(Span("r.c1/0", 0, 100),))
        view = heard(closed(1, [accepted("c0", 90, rejected=10), half])).now
        reaches = {"r.c0/0": PartitionReach(160, 120), "r.c1/0": PartitionReach(1100, 100)}
        found = sections(view, reaches=reaches)
        assert (client(found, "c0")["unread"], client(found, "c0")["unlearnt"]) == (40, 20)
        assert (client(found, "c1")["unread"], client(found, "c1")["unlearnt"]) == (500, 0)
        (card,) = [one for one in found["cards"] if one["title"] == "Waiting records"]
        assert (card["text"], card["value"]) == ("560", 560)
        assert card["note"] == "540 not read yet, 20 read and not learnt yet; most at c1: 500"
        assert not [one for one in sections(view)["cards"] if one["title"] == "Waiting records"]

    def test_without_knowing_what_hosts_have_read_the_card_says_so(self):
        view = heard(closed(1, [accepted("c0", 100), accepted("c1", 100)])).now
        found = sections(view, reaches={"r.c0/0": PartitionReach(5100), "r.c1/0": PartitionReach(110, 105)})
        assert (client(found, "c0")["unread"], client(found, "c0")["unlearnt"]) == (None, 5000)
        (card,) = [one for one in found["cards"] if one["title"] == "Waiting records"]
        assert card["value"] == 5010
        assert card["note"] == "how many of them hosts have read is not known; most at c0: 5,000"

    def test_messages_that_only_came_too_late_are_not_said_to_be_refused(self):
        def note(*messages):
            return next(card["note"] for card in shown(*messages)["cards"] if card["name"] == "clients")

        late = [joined("c0"), opened(1), closed(1, [("c0", 9)], refused=3)]
        assert note(*late) == "taking part"
        assert note(*late, refused("c0", "wrong"), refused("nobody", "wrong")) == "2 messages refused"

    def test_how_often_an_entry_comes_is_told_while_rounds_are_open_and_times_are_known(self):
        def note(*messages):
            return next(card["note"] for card in shown(*messages)["cards"] if card["name"] == "round")

        three = [opened(1), *(closed(i, [("c0", 30)]) for i in (1, 2, 3))]  # a minute each
        assert note(*three) == "epoch 1, entry 3; an entry every 60 seconds lately"
        assert note(*three[:3]) == "epoch 1, entry 2"
        assert note(*three, Ended(entry=4)) == "epoch 1, entry 3"

    def test_an_error_is_told_beside_the_error_of_no_change(self):
        served = Served(records=10, absolute_error=25.0, no_change=40.0)
        found = shown(opened(1), closed(1, [("c0", 10)], served=served))
        assert (found["headline"]["measure"], found["headline"]["value"], found["headline"]["naive"]) == (
            "error",
            2.5,
            4.0,
        )
        assert found["rounds"] == [[1, 1, 1, 1, 10, 2.5, 4.0, 1_700_000_060_000]]

    @pytest.mark.parametrize(("error", "naive"), [(3e12 * 20_000, 9e12 * 20_000), (1e280, 1e290)])
    def test_errors_of_large_targets_are_not_cut(self, error, naive):
        served = Served(records=20_000, absolute_error=error, no_change=naive)
        head = shown(closed(1, [("c0", 20_000)], served=served))["headline"]
        assert (head["value"], head["naive"]) == (pytest.approx(error / 20_000), pytest.approx(naive / 20_000))

    @pytest.mark.parametrize("wrong", [math.inf, math.nan])
    def test_an_entry_with_an_impossible_sum_counts_as_no_measurement(self, wrong):
        first = closed(1, [("c0", 10)], correct=7, no_change=4.0)
        for served in (Served(records=10, absolute_error=wrong), Served(records=10, correct=9, no_change=wrong)):
            found = shown(first, closed(2, [("c0", 10)], served=served))
            assert (found["headline"]["measure"], found["headline"]["value"]) == ("accuracy", None)
            assert found["rounds"][1][5:7] == [None, None]

    def test_one_entry_that_lies_does_not_turn_labels_into_targets(self):
        lie = closed(2, [("c0", 10)], served=Served(records=10, absolute_error=1e-9))
        told = [closed(1, [("c0", 10)], correct=7), lie, closed(3, [("c0", 10)], correct=6)]
        assert [shown(*told[:n])["headline"]["measure"] for n in (1, 2, 3)] == ["accuracy", "error", "accuracy"]

    def test_targets_without_any_error_are_targets(self):
        error = closed(1, [("c0", 10)], served=Served(records=10, absolute_error=2.0, no_change=4.0))
        exact = closed(2, [("c0", 10)], served=Served(records=10, absolute_error=0.0, no_change=4.0))
        head = shown(error, exact)["headline"]
        assert (head["measure"], head["value"], head["naive"]) == ("error", 0.0, 0.4)

    def test_an_entry_without_records_says_which_round_was_measured_last(self):
        head = shown(closed(1, [("c0", 10)], correct=7), closed(2, []))["headline"]
        assert (head["entry"], head["records_of_entry"], head["measured_in"]) == (2, 0, 1)

    def test_the_headline_names_the_serving_model_and_since_when_it_serves(self):
        found = heard(closed(1, [("c0", 9)]), closed(2, [("c0", 9)]), closed(3, [("c0", 9)], promotions=1))
        assert (found.now.serves, found.now.serves_since) == ("rung-1", 3)
        found = heard(closed(4, [("c0", 9)], promotions=1), history=found)
        assert found.now.serves_since == 3

    def test_an_entry_without_records_moves_positions_and_is_no_round(self):
        empty = closed(2, [accepted("c0", 0, rejected=5)], round=2)
        found = shown(closed(1, [("c0", 9)], correct=9), empty)
        assert (found["headline"]["rounds"], found["headline"]["value"], found["headline"]["rejected"]) == (1, 1.0, 5)
        assert len(found["rounds"]) == 1
        assert [line[0] for line in found["ledger"]] == [2, 1]

    def test_the_ledger_remarks_on_counts_that_have_no_column(self):
        marked = replace(accepted("c0", 9, rejected=4), watermark=Watermark("f", 9, expired=2, repeated=1))
        found = shown(closed(1, [("c0", 9)], refused=3), closed(2, [marked]))
        assert [line[10] for line in found["ledger"]] == ["2 expired, 1 repeated", ""]

    @pytest.mark.parametrize(
        ("message", "phase"),
        [
            (Score(entry=1, round=1, epoch=1, registry=1, slots=()), "comparing candidate models after an alarm"),
            (Ended(entry=1), "the federation has ended"),
        ],
    )
    def test_the_headline_names_the_phase_of_the_federation(self, message, phase):
        assert shown(opened(1), message)["headline"]["phase"] == phase


class TestClients:
    def test_rounds_missed_count_from_the_last_learnt_or_the_joining(self):
        found = shown(
            joined("a"),
            joined("b"),
            closed(1, [("a", 5)]),
            closed(2, [("a", 5), ("b", 6)]),
            joined("late"),
            closed(3, [("a", 5)]),
        )
        assert (client(found, "a")["learnt"], client(found, "a")["missed"], client(found, "a")["records"]) == (
            3,
            0,
            15,
        )
        assert (client(found, "b")["learnt"], client(found, "b")["missed"]) == (2, 1)
        assert (client(found, "late")["learnt"], client(found, "late")["missed"]) == (0, 1)

    def test_an_update_without_records_is_a_round_missed(self):
        found = shown(closed(1, [("a", 5), ("b", 5)]), closed(2, [("a", 5), accepted("b", 0, rejected=3)]))
        assert client(found, "b") | {"learnt": 1, "missed": 1, "records": 5, "rejected": 3} == client(found, "b")

    def test_a_refusal_is_told_with_the_round_that_was_open(self):
        found = shown(joined("a"), opened(7), refused("a"), closed(7, [("a", 5)]), opened(8))
        assert (client(found, "a")["refused_in"], client(found, "a")["learnt"]) == (7, 7)

    def test_a_client_is_shown_as_left_evicted_or_admitted(self):
        told = [joined("a"), joined("b"), left("a"), refused("b", "a loss of\nNaN", evicted=True)]
        found = shown(*told)
        assert (client(found, "a")["state"], client(found, "a")["missed"]) == ("left", None)
        assert client(found, "b") == {
            "state": "evicted",
            "learnt": 0,
            "missed": None,
            "records": 0,
            "rejected": 0,
            "refused": 1,
            "reason": "a loss of NaN",
            "refused_in": 0,
            "value": None,
            "naive": None,
            "rejected_labels": "",
            "pace": None,
            "unread": None,
            "unlearnt": None,
        }
        admit = MemberChanged(action="admit", client="b", number=1, by="", entry=2)
        assert client(shown(*told, admit), "b")["state"] == "admitted"
        new = shown(joined("a"), closed(1, [("a", 5)]), replace(admit, client="new"))
        assert (client(new, "new")["state"], client(new, "new")["missed"]) == ("admitted", None)
        assert new["headline"]["clients"] == 1, "who was admitted and has not joined takes no part"
        back = shown(*told, admit, joined("b"))
        assert (client(back, "b")["state"], back["headline"]["clients"]) == ("present", 1)
        out = MemberChanged(action="evict", client="b", number=2, by="", entry=2)
        assert client(shown(*told, admit, joined("b"), out), "b")["state"] == "evicted"

    def test_the_accuracy_of_a_client_is_the_one_computed_by_hand(self):
        told = [
            closed(1, [accepted("a", 30, measured=(24.0, 9.0)), accepted("b", 10, measured=(1.0, 10.0))], 25, 19.0)
        ]
        told += [closed(2, [accepted("a", 10, measured=(8.0, 1.0))], 8, 1.0), closed(3, [("a", 10)])]
        found = shown(*told)
        assert (client(found, "a")["value"], client(found, "a")["naive"]) == (0.8, 0.25)  # 32 and 10 of 40
        assert (client(found, "b")["value"], client(found, "b")["naive"]) == (0.1, 1.0)

    def test_errors_of_targets_are_told_in_their_unit(self):
        served = Served(records=20, absolute_error=50.0, no_change=80.0)
        found = shown(closed(1, [accepted("a", 20, measured=(50.0, 80.0))], served=served))
        assert (client(found, "a")["value"], client(found, "a")["naive"]) == (2.5, 4.0)

    @pytest.mark.parametrize("measured", [(1e20, 0.0), (5.0, 1e20), (math.nan, 0.0), (0.0, math.inf)])
    def test_more_right_predictions_than_records_are_none(self, measured):
        found = shown(closed(1, [accepted("a", 10, measured=measured)], correct=5, no_change=5.0))
        assert (client(found, "a")["value"], client(found, "a")["naive"]) == (None, None)

    def test_the_accuracy_of_a_client_covers_its_last_rounds_only(self):
        # 10 rounds without a right prediction, then 20 in which all are right: the first 10 are forgotten.
        told = [closed(n, [accepted("a", 10, measured=(10.0 * (n > 10), 5.0))]) for n in range(1, 31)]
        assert [client(shown(*told[:n]), "a")["value"] for n in (10, 15, 20, 21, 30)] == [
            0.0,
            0.333333,
            0.5,
            1.0,
            1.0,
        ]

    def test_a_client_says_which_of_its_labels_found_no_record_and_why(self):
        taken = [replace(accepted("a", 9), watermark=Watermark("f", 9, 0, expired=1, unusable=n)) for n in (2, 1)]
        found = shown(closed(1, [taken[0], ("b", 9)]), closed(2, taken[1:]))
        told = "3 labels whose record was rejected, 2 records whose label did not come in time"
        assert [client(found, name)["rejected_labels"] for name in "ab"] == [told, ""]

    def test_refusals_under_unknown_names_make_no_clients(self):
        found = shown(joined("a"), *(refused(f"x{i}", f"reason {i}") for i in range(5)))
        assert [row[0] for row in found["clients"]] == ["a"]
        assert (found["headline"]["strangers"], found["headline"]["strangers_reason"]) == (5, "reason 4")


class TestDrifts:
    def test_a_restart_is_told_as_the_report_tells_it(self):
        restart = restarted(
            2,
            2,
            clients=("c0", "c1"),
            labels=("1", "2"),
            times=(1_700_000_000_000, 1_700_000_060_000),
            positions={"r.c0/0": (10, 40)},
            known_since=1,
        )
        found = shown(joined("c0"), joined("c1"), closed(2, [("c0", 9)]), restart, opened(3, epoch=2))
        (card,) = found["drifts"]
        assert card["sentence"] == (
            "Since round 1 (2023-11-14T22:13:20Z), records of labels 1, 2 have been predicted worse at all 2 clients "
            "(found in round 2, 2023-11-14T22:14:20Z)."
        )
        assert (card["entry"], card["since"], card["began"]) == (2, 1, "2023-11-14T22:13:20Z")
        assert (card["evidence"], card["chosen"]) == ("drift score 114 (alarm at 9.2)", "scratch")
        assert card["places"] == [["r.c0/0", 10, 40]]
        assert [(one["epoch"], one["first"], one["chosen"]) for one in found["epochs"]] == [
            (1, 2, ""),
            (2, 3, "scratch"),
        ]
        assert found["headline"]["restarts"] == 1

    def test_a_local_drift_is_one_card_with_what_became_of_it(self):
        found = shown(
            drifted(5, "latched", ("c1", "c2")),
            drifted(6, "latched", ("c3",)),
            drifted(7, "branched", ("c2", "c1")),
            drifted(9, "returned", ("c1",)),
            drifted(12, "latched", ("c1",)),
        )
        told = [(one["round"], [(s["state"], s["round"]) for s in one["states"]]) for one in found["drifts"]]
        assert told == [
            (12, [("latched", 12)]),
            (6, [("latched", 6)]),
            (5, [("latched", 5), ("branched", 7), ("returned", 9)]),
        ]
        assert found["headline"]["local_drifts"] == 3
        assert [(one["first"], one["last"]) for one in found["branches"]] == [(5, 9), (6, None), (12, None)]

    def test_every_candidate_is_told_with_its_score_the_best_first(self):
        scores = {"incumbent": 0.75, "scratch": 0.5, "relabelled": 0.125}
        (card,) = shown(restarted(5, 2, chosen="relabelled", scores=scores))["drifts"]
        assert card["candidates"] == [
            ["relabelled", 0.125, "the same model with its labels renamed"],
            ["scratch", 0.5, "an untrained model"],
            ["incumbent", 0.75, "the same model as before"],
        ]

    @pytest.mark.parametrize("again", [True, False])
    def test_a_restart_says_whether_online_models_begin_again(self, again):
        (card,) = shown(restarted(5, 2, online_models_begin_again=again))["drifts"]
        assert card["online_models_begin_again"] is again

    def test_candidates_of_a_local_drift_are_told_by_what_they_gained_once_that_is_known(self):
        first = drifted(5, "latched", ("c1",))
        assert shown(first)["drifts"][0]["candidates"] == []
        gains = {"incumbent": -0.25, "shadow": 0.375}
        branched = drifted(7, "branched", ("c1",), chosen="shadow", gains=gains)
        (card,) = shown(first, branched, drifted(30, "merged", ("c1",)))["drifts"]
        assert card["candidates"] == [
            ["shadow", 0.375, "a model trained in parallel"],
            ["incumbent", -0.25, "the model of all clients, then trained only by these"],
        ]
        assert (card["chosen"], card["chosen_words"]) == ("shadow", "a model trained in parallel")

    def test_a_branch_that_began_with_the_model_of_all_is_no_model_that_went_on(self):
        gains = {"incumbent": 0.25, "join-branch-7": 0.125}
        for chosen, words in [
            ("incumbent", "then trained only by these"),
            ("join-branch-7", "drifted in the same way before"),
        ]:
            (card,) = shown(drifted(5, "latched"), drifted(7, "branched", chosen=chosen, gains=gains))["drifts"]
            assert words in card["chosen_words"]

    def test_of_very_many_candidates_the_best_are_told_and_how_many_there_are(self):
        scores = {f"n{i}": 1.0 - i / 1000 for i in range(500)} | {"nan": math.nan}
        (card,) = shown(restarted(5, 2, scores=scores))["drifts"]
        assert (len(card["candidates"]), card["of_candidates"]) == (30, 500)
        assert card["candidates"][0][:2] == ["n499", 0.501]

    def test_a_restart_ends_branches(self):
        found = shown(drifted(5, "latched", ("c1",)), drifted(6, "branched", ("c1",)), restarted(9, 2))
        assert [state["state"] for state in found["drifts"][1]["states"]] == ["latched", "branched", "restarted"]
        assert [(one["first"], one["last"]) for one in found["branches"]] == [(5, 9)]

    def test_a_notice_is_a_card_and_no_restart(self):
        notice = Noticed(
            round=70, epoch=1, cause="class-mix", since=66, statistic=30.0, threshold=20.0, labels=("0",)
        )
        found = shown(notice)
        assert found["drifts"][0]["sentence"] == (
            "round 70  the mix of classes has changed since round 66, labels 0 (class-mix): no drift, so no restart"
        )
        assert found["headline"]["restarts"] == 0

    def test_moved_inputs_are_a_card_and_no_restart(self):
        moved = (FeatureMoved("heat\n", 60.0, 46.0), FeatureMoved("load", 1.0, 3.0, ("c1",), 1))
        found = shown(InputsMoved(round=70, epoch=1, since=66, statistic=30.0, threshold=9.2, moved=moved))
        (card,) = found["drifts"]
        assert (card["title"], card["kind"], card["of_clients"]) == ("Inputs moved", "inputs moved", 0)
        assert "heat\\n reads 14 lower (46 instead of 60) at all" in card["sentence"]
        assert (found["headline"]["restarts"], found["headline"]["local_drifts"]) == (0, 0)

    def test_a_sensor_that_stands_still_is_a_card_and_a_row(self):
        stuck = (FeatureStuck("heat\n", "c1", 61.2), FeatureStuck("load", "c0", math.inf))
        finding = {"round": 70, "epoch": 1, "since": 66, "statistic": 30.0, "threshold": 15.0}
        found = shown(InputsStuck(**finding, clients=("c0", "c1"), stuck=stuck))
        (card,) = found["drifts"]
        assert (card["title"], card["clients"]) == ("Stuck sensors", ["c0", "c1"])
        assert "heat\\n has repeated 61.2 at client c1, and load" in card["sentence"]
        (table,) = found["tables"]
        assert (table["title"], table["rows"]) == (
            "Stuck sensors",
            [["load", "c0", "–", "round 66", "1"], ["heat\\n", "c1", "61.2", "round 66", "1"]],
        )

    def test_each_feature_and_label_has_a_row_with_its_newest_change_and_how_often_there_was_one(self):
        first = InputsMoved(
            round=70, epoch=1, since=66, statistic=30.0, threshold=9.2, moved=(FeatureMoved("heat", 60.0, 46.0),)
        )
        moved = (FeatureMoved("load", 1.0, math.nan, ("c1", "c2"), 2), FeatureMoved("heat", 46.0, 61.5, ("c1",), 1))
        second = replace(first, round=90, since=89, moved=moved, clients=("c1", "c2"))
        mix = Noticed(round=95, epoch=1, cause="class-mix", since=92, statistic=30.0, threshold=20.0, labels=("a",))
        features, labels = shown(first, second, replace(restarted(40, 2), labels=("a", "b")), mix)["tables"]
        assert features["rows"] == [
            ["heat", "46", "61.5", "1 client", "round 89", "2"],
            ["load", "1", "–", "2 clients", "round 89", "1"],
        ]
        since = restarted(40, 2).since
        assert labels["rows"] == [
            ["a", "Mix of classes", "round 92", "2"],
            ["b", "Restart", f"round {since}", "1"],
        ]

    def test_a_page_without_announcements_has_no_tables_of_names(self):
        assert shown(joined("c0"), closed(1, [("c0", 10)]))["tables"] == []


class TestBounds:
    def test_old_rounds_are_merged_and_lose_no_record(self, monkeypatch):
        monkeypatch.setattr(bounds, "POINTS", 16)
        monkeypatch.setattr(bounds, "RECENT", 8)
        found = sections(heard(*(closed(n, [("c0", 10)], correct=n % 10) for n in range(1, 101))).now)
        points = found["rounds"]
        assert len(points) <= 16
        assert [point[:2] for point in points[-8:]] == [[n, n] for n in range(93, 101)]
        assert sum(point[4] for point in points) == 1000
        assert points[0][0] == 1
        assert all(one[1] + 1 == other[0] for one, other in itertools.pairwise(points))
        correct = sum(point[4] * point[5] for point in points)
        assert correct == pytest.approx(sum(n % 10 for n in range(1, 101)), rel=1e-4)

    def test_rounds_of_two_epochs_are_not_merged(self, monkeypatch):
        monkeypatch.setattr(bounds, "POINTS", 16)
        monkeypatch.setattr(bounds, "RECENT", 8)
        points = heard(*(closed(n, [("c0", 10)], epoch=1 + n // 7) for n in range(1, 60))).now.points
        assert any(point.last > point.first for point in points)
        assert all(point.epoch == 1 + point.first // 7 == 1 + point.last // 7 for point in points)

    def test_rounds_whose_epochs_never_agree_are_bounded_too(self, monkeypatch):
        monkeypatch.setattr(bounds, "POINTS", 16)
        monkeypatch.setattr(bounds, "RECENT", 8)
        found = heard(*(closed(n, [("c0", 10)], epoch=n) for n in range(1, 101)))
        assert len(found.now.points) <= 16

    def test_cards_epochs_lines_and_states_are_bounded(self):
        told = [closed(1000, [("c0", 1)])]
        told += [drifted(n, "latched", (f"c{n}",)) for n in range(1000)]
        told += [drifted(n, "branched", ("c999",)) for n in range(1000)]
        told += [restarted(n, n) for n in range(1000)]
        told += [closed(n, [("c0", 1)]) for n in range(1001, 1200)]
        now = heard(*told).now
        assert len(now.cards) == bounds.CHANGES
        assert len(now.epochs) <= bounds.EPOCHS
        assert len(now.lines) == bounds.ENTRIES
        assert max(len(card.states) for card in now.cards) <= bounds.STATES
        card = next(one for one in heard(*told[:2001]).now.cards if one.change.clients == ("c999",))
        assert card.states[0] == ("latched", 999)
        assert card.states[-1] == ("branched", 999)

    def test_a_change_is_small_whatever_it_names(self):
        long = "\u202e" * 5000
        names = tuple(f"{long}{i}" for i in range(500))
        places = {f"{long}{i}": (0, 10) for i in range(500)}
        found = shown(
            *(joined(name) for name in names[:3]),
            closed(1, [("c0", 1)]),
            *(
                restarted(1, 2, clients=names, labels=names, positions=places, scores=dict.fromkeys(names, 0.5))
                for _ in range(bounds.CHANGES)
            ),
        )
        assert len(msgspec.json.encode(found["drifts"])) < bounds.CHANGES * 16_000
        assert (found["drifts"][0]["of_clients"], found["drifts"][0]["of_labels"]) == (500, 500)

    def test_the_clients_on_the_page_are_bounded(self, monkeypatch):
        monkeypatch.setattr(bounds, "NAMED", Limits(clients=3))
        found = shown(*(joined(f"c{i}") for i in range(5)), closed(1, [(f"c{i}", 10) for i in range(5)]))
        assert [row[0] for row in found["clients"]] == ["c0", "c1", "c2"]
        assert (found["headline"]["others"], found["headline"]["records"]) == (2, 50)


HUGE = st.sampled_from([1, -1]).map(lambda sign: sign * 10**400)
LONG = st.integers(4000, 5000).map(lambda n: "x" * n)
NAMES = st.one_of(st.text(max_size=20), st.sampled_from([IMAGE, "\ud800", "\u202e"]), LONG)
NUMBERS = st.one_of(st.integers(-5, 5), st.sampled_from([2**70, -(2**70)]), HUGE)
FLOATS = st.one_of(st.floats(), st.sampled_from([math.inf, -math.inf, math.nan, 1e308]))
PAIRS = st.one_of(st.none(), st.tuples(FLOATS, FLOATS))
TIMES = st.one_of(st.none(), st.tuples(NUMBERS, NUMBERS))


def lies():
    entries = st.builds(
        closed,
        NUMBERS,
        st.lists(st.builds(accepted, NAMES, NUMBERS, NUMBERS, NUMBERS, PAIRS), max_size=3),
        round=NUMBERS,
        epoch=NUMBERS,
        records=NUMBERS,
        rejected=NUMBERS,
        refused=NUMBERS,
        promotions=NUMBERS,
        serves=NAMES,
        model=NAMES,
        losses=st.dictionaries(NAMES, FLOATS, max_size=3),
        readings=st.dictionaries(NAMES, st.builds(Reading, FLOATS, FLOATS), max_size=6),
        served=st.builds(
            Served,
            records=NUMBERS,
            correct=NUMBERS,
            absolute_error=FLOATS,
            no_change=FLOATS,
            shares=st.dictionaries(NAMES, FLOATS, max_size=3),
        ),
    )
    found = {
        "epoch": NUMBERS,
        "statistic": FLOATS,
        "threshold": FLOATS,
        "since": NUMBERS,
        "labels": st.lists(NAMES, max_size=3).map(tuple),
        "times": TIMES,
        "known_since": NUMBERS,
        "drift": NUMBERS,
        "positions": st.dictionaries(NAMES, st.tuples(NUMBERS, NUMBERS), max_size=3),
        "moved": st.lists(
            st.builds(FeatureMoved, NAMES, FLOATS, FLOATS, st.lists(NAMES, max_size=2).map(tuple), NUMBERS, NUMBERS),
            max_size=2,
        ).map(tuple),
    }
    clients, scores = st.lists(NAMES, max_size=3).map(tuple), st.dictionaries(NAMES, FLOATS, max_size=3)
    return st.one_of(
        entries,
        st.builds(joined, NAMES),
        st.builds(left, NAMES),
        st.builds(refused, NAMES, NAMES, evicted=st.booleans()),
        st.builds(opened, NUMBERS, NUMBERS, round=NUMBERS),
        st.builds(restarted, NUMBERS, cause=NAMES, chosen=NAMES, clients=clients, scores=scores, **found),
        st.builds(drifted, NUMBERS, state=NAMES, chosen=NAMES, clients=clients, gains=scores, **found),
        st.builds(InputsMoved, round=NUMBERS, clients=clients, **found),
        st.builds(
            InputsStuck,
            round=NUMBERS,
            clients=clients,
            stuck=st.lists(st.builds(FeatureStuck, NAMES, NAMES, FLOATS, NUMBERS), max_size=3).map(tuple),
            **found,
        ),
        st.builds(Noticed, round=NUMBERS, cause=NAMES, **found),
    )


@given(st.lists(lies(), max_size=12), NUMBERS)
def test_the_page_is_json_that_a_browser_reads_whatever_the_coordinator_sends(told, time):
    history = heard()
    for message in told:
        history.hear(message, time)
    found = sections(history.now)
    text = msgspec.json.encode(found)
    assert json.loads(text, parse_constant=pytest.fail) == json.loads(text)
    assert len(text) < 50_000
    assert "\u202e" not in text.decode()
    for number in _numbers(found):
        assert -LARGEST <= number <= LARGEST or math.isfinite(number)
    kept = msgspec.msgpack.encode(history.now)
    assert msgspec.msgpack.encode(msgspec.msgpack.decode(kept, type=View)) == kept


def _numbers(found):
    match found:
        case dict():
            for one in found.values():
                yield from _numbers(one)
        case list() | tuple():
            for one in found:
                yield from _numbers(one)
        case int() | float():
            yield found


@given(st.lists(lies(), max_size=8), st.integers(0, 8))
def test_the_changes_between_two_pages_make_one_of_the_other(told, at):
    before, after = (json.loads(msgspec.json.encode(shown(*part))) for part in (told[:at], told))
    assert patched(before, changed(before, after)) == after
    assert changed(after, after) == {}
