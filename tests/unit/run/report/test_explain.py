"""What `explain` says of a run and of a round, by hand."""

import pytest

from streamfl.errors import UsageError
from streamfl.run.evaluation.changes import Change
from streamfl.run.evaluation.result import DatedLocalDrift, DatedRestart, read_result
from streamfl.run.report.explain import explained
from streamfl.run.summary import RoundLine

RESTART = DatedRestart(
    round=6, epoch=2, cause="excess", statistic=12.5, threshold=9.21, chosen="scratch", since=5, clients=(), labels=()
)
CHANGE = Change(kind="restart", round=6, since=5, sentence="Since round 5, all is different (found in round 6).")


def rounds(*accuracies: float) -> tuple[RoundLine, ...]:
    return tuple(
        RoundLine(round=t, epoch=1 + (t > 6), block=1, records=100 * t, loss=0.5, accuracy=a, no_change=0.25)
        for t, a in enumerate(accuracies, 1)
    )


@pytest.fixture
def run(made_up):
    lines = rounds(0.5, 0.75, 0.75, 0.75, 0.25, 0.25, 0.5, 0.75)
    return made_up(rounds=8, restarts=(RESTART,), local_drifts=(), changes=(CHANGE,), per_round=lines)


def test_explain_says_what_was_found_in_a_round_with_a_restart(run):
    # (100 * .5 + 900 * .75 + 500 * .25) / 1500 = 850 / 1500 in the five rounds before it
    assert explained(run, 6) == [
        "Round 6 of 8, epoch 1, 600 records: accuracy 0.250 (NoChange 0.250); "
        "in the 5 rounds before it accuracy 0.567 (NoChange 0.250).",
        "Since round 5, all is different (found in round 6).",
        "The drift score (detector excess) was 12.5; it raises an alarm above 9.2. "
        "Epoch 2 began with the model that predicted best: an untrained model (scratch).",
    ]


def test_explain_says_that_online_models_began_again(made_up):
    restart = RESTART.model_copy(update={"online_models_begin_again": True})
    found = made_up(rounds=8, restarts=(restart,), local_drifts=(), changes=(CHANGE,), per_round=rounds(*[0.5] * 8))
    assert explained(found, 6)[3:] == [
        "Online models began again, because untrained ones predicted this round better at most clients."
    ]


def test_explain_says_that_a_change_was_there_before_the_round_that_found_it(run):
    assert explained(run, 5)[1:] == [
        "This round belongs to a drift that was found only in round 6: Since round 5, all is different (found in "
        "round 6)."
    ]


def test_explain_says_that_a_round_before_or_after_a_change_found_none(run):
    first = "Round 1 of 8, epoch 1, 100 records: accuracy 0.500 (NoChange 0.250)."
    assert explained(run, 1) == [first, "No drift was found in this round."]
    assert explained(run, 8)[1:] == [
        "No drift was found in this round.",
        "The last drift before it was found in round 6: Since round 5, all is different (found in round 6).",
    ]


def test_explain_names_the_clients_of_a_local_drift(made_up):
    drift = DatedLocalDrift(
        round=4, epoch=1, state="latched", clients=("c1", "c2"), since=3, statistic=9.0, threshold=5.0, labels=()
    )
    told = explained(made_up(rounds=8, restarts=(), local_drifts=(drift,), changes=(), per_round=()), 4)
    assert told == [
        "Round 4 of 8. To see how good it was, write the file with --per-round.",
        "Clients c1, c2 drifted alone (latched).",
    ]


def test_every_candidate_is_told_with_its_score_the_best_first(made_up):
    restart = RESTART.model_copy(update={"scores": {"incumbent": 0.75, "scratch": 0.25, "recall-1": 0.5}})
    told = explained(made_up(rounds=8, restarts=(restart,), local_drifts=(), changes=(CHANGE,), per_round=()), 6)
    assert told[-1] == (
        "Mean loss of each candidate on the records of this round: scratch 0.250, recall-1 0.500, incumbent 0.750."
    )


def test_explain_says_that_an_operator_asked_for_a_restart(made_up):
    changed = {"cause": "operator", "chosen": "scratch", "scores": {"incumbent": 0.25, "scratch": 0.5}}
    restart = RESTART.model_copy(update=changed)
    told = explained(made_up(rounds=8, restarts=(restart,), local_drifts=(), changes=(CHANGE,), per_round=()), 6)
    assert told[-2:] == [
        "An operator asked for a new epoch. Epoch 2 began with the model that the operator asked for: an untrained "
        "model (scratch).",
        "Mean loss of each candidate on the records of this round: incumbent 0.250, scratch 0.500.",
    ]


def test_explain_lists_what_each_candidate_for_a_branch_gained_the_best_first(made_up):
    drift = DatedLocalDrift(
        round=6, epoch=1, state="branched", clients=("c1",), since=3, statistic=9.0, threshold=5.0,
        chosen="shadow", gains={"incumbent": -0.125, "shadow": 0.25},
    )  # fmt: skip
    told = explained(made_up(rounds=8, restarts=(), local_drifts=(drift,), changes=(), per_round=()), 6)
    assert told[-1] == (
        "By how much each candidate's loss was lower than that of the model of all clients: shadow 0.250, incumbent "
        "-0.125."
    )


def test_explain_gives_the_mean_absolute_error_of_targets(made_up):
    lines = tuple(RoundLine(round=t, epoch=1, block=1, records=2, loss=0.5, mae=t, no_change=4.0) for t in (1, 2))
    told = explained(made_up(rounds=2, restarts=(), local_drifts=(), changes=(), per_round=lines), 2)
    assert told[0].endswith(
        "mean absolute error 2 (NoChange 4); in the 1 round before it mean absolute error 1 (NoChange 4)."
    )


@pytest.mark.parametrize("t", [0, 9, -1])
def test_explain_refuses_a_round_that_does_not_exist(run, t):
    with pytest.raises(ValueError, match=f"the run has no round {t}; name a round from 1 to 8"):
        explained(run, t)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"rounds": "x"}', b"[" * 100_000])
def test_explain_refuses_a_file_that_is_no_result_in_one_line(content, tmp_path):
    (tmp_path / "f.json").write_bytes(content)
    with pytest.raises(UsageError, match="is not a result of replay or demo") as refused:
        read_result(tmp_path / "f.json")
    assert len(str(refused.value).splitlines()) == 1
    with pytest.raises(UsageError, match="No such file"):
        read_result(tmp_path / "none")
