"""`replay --answers`: the answers of a live federation are scored, whatever the delay of the replay."""

import json
from dataclasses import replace

import numpy as np
import pytest

from streamfl.errors import UsageError
from streamfl.protocol.records import Rejection
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log, deal
from streamfl.run.predictions.answers_file import AnswersFile
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.runtime.log.predictions import answers_of


def table(*, targets):
    rng = np.random.default_rng(5)
    y = rng.integers(0, 2, 300).astype(np.float64)
    X = np.outer(y, [2.0, 30.0]) + rng.normal(size=(300, 2)) * [1.0, 20.0]
    return Table("late", ("a", "b"), X, 5.0 + y if targets else y, () if targets else ("no", "yes"), np.arange(300))


def replayed(of, delay, answers=None):
    """Return a run, and its answers as a log has them."""
    lines = []
    settings = ReplaySettings(round_size=20, label_delay=delay, learning=LearningSettings(features="auto"))
    replay = Replay(of, deal(of, 3, "round-robin", 0), settings, answers=answers or {})
    usual = replay._observe_client

    def observe(event):
        if hasattr(event, "batch"):
            span = replace(event.batch.span, partition=f"{event.client}/0")  # as a log names partitions
            logged = replace(event, batch=replace(event.batch, span=span))
            told = answers_of(logged, [None] * len(event.batch), targets=not of.labels, probabilities=True)
            lines.extend(answer.value for answer in told)
        usual(event)

    replay._observe_client = observe
    return replay.run(), lines


@pytest.fixture(scope="module", params=[False, True], ids=["labels", "targets"])
def live(request):
    of = table(targets=request.param)
    run, lines = replayed(of, 7)
    assert len(lines) == 300
    return of, run, lines


def written(path, lines):
    path.write_bytes(b"\n".join(lines))
    return path


def places(lines):
    """Return answers with the topics and offsets that a log has, with gaps, out of order, some of them twice."""
    told = []
    for line in lines:
        one = json.loads(line)
        told.append(json.dumps(one | {"offset": 3 * one["offset"] + 100}).encode())
    second = json.dumps(json.loads(told[-1]) | {"prediction": None}).encode()
    return [*told[150:], b"", *told[:150], second]


def test_the_answers_of_another_run_are_scored(live, tmp_path):
    of, run, lines = live
    answers = AnswersFile.load(written(tmp_path / "f", places(lines)), targets=not of.labels)
    again, anew = replayed(of, 40, answers.recorded(deal(of, 3, "round-robin", 0)))
    without, _ = replayed(of, 40)
    assert anew == []
    measure = "mae" if not of.labels else "accuracy"
    # What a client alone knows follows from what it answered when, which the file does not tell.
    figures = [getattr(one.result, measure).model_copy(update={"own_file": None}) for one in (run, again, without)]
    assert figures[0] == figures[1] != figures[2]
    assert run.result.unanswered == again.result.unanswered > 0
    assert run.result.unanswered != without.result.unanswered
    assert [one.result.model_sha256 for one in (again, without)] == [run.result.model_sha256] * 2


def test_answers_of_scorers_do_not_count(live, tmp_path):
    of, _, lines = live
    scorers = []
    for line in lines:
        one = json.loads(line)
        del one["client"], one["known"]
        scorers.append(json.dumps(one | {"prediction": 9.0 if not of.labels else "yes"}).encode())
    both = AnswersFile.load(written(tmp_path / "f", [*scorers, *lines]), targets=not of.labels)
    alone = AnswersFile.load(written(tmp_path / "g", lines), targets=not of.labels)
    logs = deal(of, 3, "round-robin", 0)
    assert both.recorded(logs) == alone.recorded(logs)


def test_bad_records_have_no_answers(tmp_path):
    told = [
        {"key": None, "prediction": p, "round": 1, "epoch": 1, "entry": 0, "topic": "t", "partition": 0, "offset": at}
        for at, p in ((0, "no"), (2, "yes"))
    ]
    lines = [json.dumps(one | {"client": "c", "known": None}).encode() for one in told]
    log = Log(np.array([0, 1]), np.zeros(2), (Rejection(1, "no number"),))
    recorded = AnswersFile.load(written(tmp_path / "f", lines), targets=False).recorded({"c": log})["c"]
    assert recorded._by_position == {0: ("no", None), 2: ("yes", None)}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lines: [*lines, b"{"], "line 301 is not an answer"),
        (lambda lines: [*lines, b"x" * 2_000_000], "line 301 is not an answer"),
        (
            lambda lines: [*lines, lines[0].replace(b'"prediction":null', b'"prediction":[]')],
            "line 301 is not an answer",
        ),
        (lambda lines: lines[:-1], "99 answers of c2, which has 100 valid records"),
        (lambda lines: [*lines, lines[-1].replace(b'"c2"', b'"x9"')], "clients that are not in the replay: x9"),
        (
            lambda lines: [*lines[:-1], lines[-1].replace(b'"partition":0', b'"partition":1')],
            "the records of c2 were in several partitions",
        ),
    ],
    ids=["no JSON", "a long line", "no label", "too few", "a stranger", "two partitions"],
)
def test_other_files_are_refused(live, tmp_path, change, reason):
    of, _, lines = live
    with pytest.raises(UsageError, match=reason):
        AnswersFile.load(written(tmp_path / "f", change(lines)), targets=not of.labels).recorded(
            deal(of, 3, "round-robin", 0)
        )
