from collections.abc import Callable

import pytest

from streamfl.run.evaluation.result import DatedLocalDrift, DatedNotice, DatedRestart, Figures, Result
from streamfl.run.report.story import Delay, delays, story, unanswered

Build = Callable[..., Result]


def test_a_restart_answers_the_nearest_drift_before_it() -> None:
    assert delays([31, 34, 70], [31, 65]) == [Delay(0, 31), Delay(3, 31), Delay(5, 65)]


def test_a_second_restart_long_after_an_answered_drift_answers_none() -> None:
    assert delays([32, 36, 37], [31]) == [Delay(1, 31), Delay(5, 31), None]


def test_a_restart_before_any_drift_answers_none() -> None:
    assert delays([10], [31]) == [None]
    assert delays([10], []) == [None]


def test_a_drift_met_by_no_restart_is_named() -> None:
    assert unanswered([32], [31, 65]) == [65]
    assert unanswered([], [31, 65]) == [31, 65]


def test_many_restarts_are_told_in_few_sentences(made_up: Build) -> None:
    told = [sentence.text for sentence in story(made_up(at=list(range(10, 100, 5))), [])]
    assert (
        told[0]
        == "Drifts found in 103 rounds: 18 at all clients (rounds 10, 15, 20, 25, 30, 35, 40, 45 and 10 more)."
    )
    assert sum(text.startswith("Since round ") for text in told) == 6
    assert "There were 12 more; the cards of drifts show all." in told


def test_a_shift_of_the_mix_of_labels_is_no_drift(made_up: Build) -> None:
    notice = DatedNotice(
        round=31, epoch=1, cause="class-mix", statistic=14.0, threshold=12.5, since=30, labels=("0", "3")
    )
    told = [sentence.text for sentence in story(made_up(notices=(notice,)), [])]
    assert (
        "The mix of classes changed (found in round 31). This is not concept drift, so there was no restart." in told
    )


def test_the_story_marks_sentences_that_need_a_look(made_up: Build) -> None:
    warned = [s.text for s in story(made_up(), [50, 200]) if s.warns]
    assert warned == [
        "No restart followed the drift imposed at round 50 before the next drift or the end.",
        "The run ended before the drift planned for round 200.",
        "2 bad records were rejected.",
    ]


def test_labels_that_are_chosen_for_another_aim_are_not_called_worse_than_a_baseline(made_up: Build) -> None:
    poor = Figures(prequential=0.3, round_start=0.3, post_update=0.3, no_change=0.4)
    told = [s for s in story(made_up(accuracy=poor, objective="cost"), []) if "accuracy 0.300" in s.text]
    assert [s.warns for s in told] == [False] and "baseline" not in told[0].text
    assert told[0].text.endswith(" Its labels were chosen for cost, not for accuracy.")


def test_labels_that_come_late_are_told_as_such(made_up: Build) -> None:
    late = made_up(label_delay=10, unanswered=120, waiting=0, expired=3)
    told = [sentence.text for sentence in story(late, [])]
    assert (
        "Tested on its prediction for each record, whose label came 10 records later, the model had accuracy 0.702; "
        "repeating the last label known at the client would have had 0.381."
    ) in told
    assert "120 records were answered before there was any model, and count as wrong." in told
    assert "3 records were given up: no label came in time." in told


def test_without_late_labels_nothing_is_told_of_them(made_up: Build) -> None:
    told = " ".join(sentence.text for sentence in story(made_up(), []))
    assert "Tested on each record before learning it" in told
    assert not any(word in told for word in ("answered", "written off", "later"))


def test_the_story_says_what_was_done_and_which_model_to_take(
    made_up: Build, restart: Callable[..., DatedRestart]
) -> None:
    alone = {"epoch": 1, "clients": ("c9",), "since": 50, "statistic": 11.0, "threshold": 9.2}
    drifts = [DatedLocalDrift(round=at, state=state, **alone) for at, state in ((52, "latched"), (60, "branched"))]
    result = made_up(
        restarts=(restart(32, 2),), local_drifts=tuple(drifts), serving={"whitened-0.1": 0.51, "fern-8-0.3": 0.49}
    )
    told = [sentence.text for sentence in story(result, [])]
    assert told[1].endswith(". Epoch 2 began with an untrained model (scratch).")
    assert told[2].endswith(". In round 60 it got a model of its own.")
    models = "The predictions came from linear model 51%, fast trees 49%."
    assert models in told


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            0.70,
            "The model to take is the file of --model-out: on the last rounds the model file has accuracy 0.700;",
        ),
        (0.60, "Take the file of --model-out with care: on the last rounds the model file has accuracy 0.600;"),
    ],
)
def test_the_model_to_take_is_named_with_a_warning_if_it_is_much_worse(
    made_up: Build, file: float, said: str
) -> None:
    good = Figures(
        prequential=0.7, round_start=0.7, post_update=0.7, no_change=0.4, model_file=file, last_rounds=0.71
    )
    (told,) = [one for one in story(made_up(accuracy=good), []) if "--model-out" in one.text]
    assert f"{said} the clients themselves had 0.710" in told.text
    assert told.warns == (file < 0.69)
