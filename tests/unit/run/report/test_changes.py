from collections.abc import Callable
from typing import Any

import pytest

from streamfl.run.evaluation.changes import Change, Moved
from streamfl.run.evaluation.result import DatedLocalDrift, DatedRestart, Result
from streamfl.run.report.changes import sentence
from streamfl.run.report.story import story

Build = Callable[..., Result]
Restart = Callable[..., DatedRestart]
HEIGHT = Moved(feature="height", before=2740.0, since=3011.4, deviations=1.2)
SLOPE = Moved(feature="slope", before=14.0, since=-9.5, deviations=-0.7)


@pytest.fixture
def local() -> DatedLocalDrift:
    return DatedLocalDrift(
        round=65,
        epoch=1,
        clients=("c3",),
        labels=("0",),
        since=64,
        state="latched",
        statistic=23.4,
        threshold=9.21,
    )


@pytest.mark.parametrize(
    ("changed", "known", "said"),
    [
        (
            {},
            {},
            " have been predicted worse, for certain at clients c3, c7, perhaps at others (found in round 9).",
        ),
        (
            {"labels": ("7",), "clients": ("c3",)},
            {},
            "of label 7 have been predicted worse, for certain at client c3, perhaps at others (f",
        ),
        (
            {"labels": (), "clients": ()},
            {},
            "Since round 8, records have been predicted worse over all clients together (found in round 9).",
        ),
        ({"clients": ()}, {"clients": 1}, "predicted worse (found in round 9)."),
        ({}, {"clients": 2}, "predicted worse at all 2 clients (found"),
        ({}, {"clients": 3}, "predicted worse, for certain at clients c3, c7, perhaps at others (found"),
        ({"since_time": "2026-03-09T08:00:00Z"}, {}, "Since round 8 (2026-03-09T08:00:00Z), records"),
        ({"time": "2026-03-09T09:20:00Z"}, {}, "c7, perhaps at others (found in round 9, 2026-03-09T09:20:00Z)."),
        ({}, {"moved": (HEIGHT, SLOPE)}, "; on average, height rose from 2740 to 3011, slope fell from 14 to -9.5."),
        ({}, {"moved": ()}, "; no feature moved, so the labels have probably changed their meaning."),
        ({"labels": ()}, {"moved": ()}, "; no feature moved, so what the features mean has probably changed."),
        (
            {"clients": (), "clients_better": (19, 20)},
            {},
            "over all clients together, and the new model is already better at 19 of the 20 (found in round 9).",
        ),
        (
            {"renamed": {"a": "b", "b": "c", "c": "a"}},
            {"moved": ()},
            "meaning: label a used to be b, label b used to be c, label c used to be a.",
        ),
        ({"clients": (), "clients_better": (0, 20)}, {}, "predicted worse over all clients together (found in"),
        (
            {"renamed": {"0": "1", "1": "0"}},
            {},
            "(found in round 9); the labels were probably exchanged: 0 with 1.",
        ),
        (
            {"renamed": {"0": "1", "1": "0"}},
            {"moved": ()},
            "; no feature moved, so the labels were probably exchanged: 0 with 1.",
        ),
        ({"clients": tuple("abcdefg")}, {}, "at clients a, b, c, d, e and 2 more, perhaps at others (found"),
        (
            {"cause": "new-label"},
            {},
            "Since round 8, there have been labels not seen before: 0, 1 (found in round 9).",
        ),
        (
            {"cause": "new-label", "labels": ("7",)},
            {"moved": (HEIGHT,)},
            "Since round 8, there has been a label not seen before: 7 (found in round 9).",
        ),
    ],
)
def test_a_restart_in_one_sentence(restart: Restart, changed: Any, known: Any, said: str) -> None:
    text = sentence(restart(9, 2, **changed), **known)
    assert said in text
    assert text.count(". ") == 0
    assert text.endswith(".")


def test_a_local_drift_in_one_sentence(local: DatedLocalDrift) -> None:
    assert sentence(local, clients=1, moved=(HEIGHT,)) == (
        "Since round 64, records of label 0 have been predicted worse, but only at client c3 (found in round 65); "
        "on average, height rose from 2740 to 3011."
    )


def test_the_story_begins_with_the_sentences_of_the_changes(made_up: Build, local: DatedLocalDrift) -> None:
    known = (
        Change(kind="restart", round=65, since=64, sentence="What restarted."),
        Change(kind="local drift", round=65, since=64, sentence="What drifted alone."),
    )
    both = made_up(at=[65], local_drifts=(local,), changes=known)
    assert [each.text for each in story(both, [])][:3] == [
        "Drifts found in 103 rounds: 1 at all clients (round 65), 1 at some clients (c3, since round 64).",
        "What restarted. Epoch 2 began with an untrained model (scratch).",
        "What drifted alone.",
    ]
    alone = [each.text for each in story(made_up(local_drifts=(local,), changes=known), [])]
    assert alone[:2] == [
        "Drifts found in 103 rounds: 1 at some clients (c3, since round 64).",
        "What drifted alone.",
    ]


def test_drifts_are_told_in_order_of_time(made_up: Build, local: DatedLocalDrift) -> None:
    earlier = local.model_copy(update={"round": 30, "since": 29, "clients": ("c7",)})
    told = [each.text for each in story(made_up(at=[20, 65], local_drifts=(earlier, local)), [])]
    assert told[0] == (
        "Drifts found in 103 rounds: 2 at all clients (rounds 20, 65), 2 at some clients (c7, since round 29; "
        "c3, since round 64)."
    )
    assert [text.partition("found in round ")[2][:2] for text in told[1:5]] == ["20", "30", "65", "65"]


def test_a_drift_that_is_found_at_some_clients_after_others_is_one(made_up: Build, local: DatedLocalDrift) -> None:
    later = local.model_copy(update={"round": 67, "clients": ("c5",), "drift": 65})
    told = story(made_up(local_drifts=(local.model_copy(update={"drift": 65}), later)), [])[0].text
    assert told == "Drifts found in 103 rounds: 1 at some clients (c3, c5, since round 64)."


def test_a_restart_that_an_operator_asked_for_is_no_drift(made_up: Build) -> None:
    (restart,) = made_up(at=[65]).restarts
    ordered = made_up(restarts=(restart.model_copy(update={"cause": "operator"}),))
    assert story(ordered, [])[0].text == "No drift was found in 103 rounds."


def test_the_later_states_of_a_local_drift_are_no_changes(made_up: Build, local: DatedLocalDrift) -> None:
    states = tuple(local.model_copy(update={"state": state}) for state in ("branched", "merged"))
    told = [each.text for each in story(made_up(local_drifts=states), [])]
    assert told[0] == "No drift was found in 103 rounds."
    assert not any("predicted worse" in text for text in told)
