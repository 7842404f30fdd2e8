"""Scripts for the client machine: candidates after an alarm, and the history sample."""

from dataclasses import replace

import numpy as np
import pytest
from unit.machines.script import (
    SLOT,
    as_bytes,
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

from streamfl.learning.pooling.noise import Noise
from streamfl.machines.client.machine import Client
from streamfl.protocol.decisions import Fetch, Seek
from streamfl.protocol.events import RecordsFetched, RecordsRead, Tick
from streamfl.protocol.messages import ModelPublished, SampledRound, Score, Scores, Slot, Update
from streamfl.protocol.registry import Registry
from streamfl.run.settings import LearningSettings
from streamfl.wire.masking import MaskKeys

SCRATCH = Slot(name="scratch", version=1, eta=1.0)
HISTORY = Slot(name="m", version=1, eta=1.0, history=(1,))
SECOND = Score(entry=1, round=1, epoch=1, registry=1, slots=(replace(SCRATCH, name="relabelled"),), stage=2)
GOOD = np.array([[5.0, -5.0], [0.0, 0.0]])


def asked(entry: int = 1, **more: object) -> Score:
    return Score(**({"entry": entry, "round": 1, "epoch": 1, "registry": 1, "slots": (SCRATCH,)} | more))


def model(weights: np.ndarray = GOOD, version: int = 1) -> ModelPublished:
    return ModelPublished(slot="scratch", version=version, registry=1, weights=weights)


# --- Score -----------------------------------------------------------------------------------------------------


def test_candidates_are_scored_on_the_records_of_the_update():
    machine = client()
    update = first_update(machine, batch("abab" + "bbbb"))
    (scores,) = sent(feed(machine, model(), asked()), Scores)
    assert (scores.client, scores.attempt, scores.entry, scores.epoch) == ("c0", update.attempt, 1, 1)
    assert set(scores.losses) == {"scratch"}
    assert scores.losses["scratch"].loss < 0.01
    assert scores.differences["scratch"].shape == (2, 2)


def test_candidates_are_scored_once_their_models_are_here():
    machine = client()
    first_update(machine, batch("abab"))
    assert feed(machine, asked()) == []
    assert len(sent(feed(machine, model()), Scores)) == 1


def test_after_silence_the_answer_has_the_same_scores_sent_again():
    machine = client()
    first_update(machine, batch("abab"))
    scores = sent(feed(machine, model(), asked()), Scores)
    assert sent(feed(machine, joined("c1"), *opening(), asked()), Scores) == []  # another client was told
    feed(machine, Tick(), now=machine.wakes_at)
    answered = feed(machine, joined(question=2), *opening(), asked(), now=9.0)
    assert as_bytes(sent(answered, Scores)) == as_bytes(scores)


def test_a_later_stage_is_answered_too_and_sent_again_unchanged():
    machine = client()
    first_update(machine, batch("abab"))
    feed(machine, model(), asked(relabel=("scratch",)))
    bad = replace(model(-GOOD), slot="relabelled")
    (scores,) = sent(feed(machine, bad, SECOND), Scores)
    assert (scores.stage, set(scores.losses), dict(scores.relabelling)) == (2, {"relabelled"}, {})
    assert scores.losses["relabelled"].loss > 3.9
    feed(machine, Tick(), now=machine.wakes_at)
    assert as_bytes(sent(feed(machine, joined(question=2), SECOND, now=9.0), Scores)) == as_bytes([scores])


def test_a_coordinator_that_begins_the_round_again_may_ask_for_the_first_stage_again():
    machine = client()
    first_update(machine, batch("abab"))
    (first,) = sent(feed(machine, model(), asked()), Scores)
    feed(machine, replace(model(), slot="relabelled"), SECOND)
    *_, opened = opening(resumed=1)
    assert sent(feed(machine, opened), Scores) == []
    (again,) = sent(feed(machine, asked(resumed=1)), Scores)
    assert as_bytes([again]) == as_bytes([replace(first, resumed=1)])


def answered_twice() -> tuple[Client, Update, Scores]:
    """Return a client that has answered two stages, its update, and its answer to the first stage."""
    machine = client()
    update = first_update(machine, batch("abab"))
    (first,) = sent(feed(machine, model(), asked()), Scores)
    assert len(sent(feed(machine, replace(model(), slot="relabelled"), SECOND), Scores)) == 1
    return machine, update, first


def test_a_client_that_missed_a_start_of_the_coordinator_follows_what_that_start_asks():
    machine, update, first = answered_twice()
    feed(machine, Tick(), now=machine.wakes_at)
    answers = feed(machine, joined(question=2, resumed=1), now=9.0)
    assert as_bytes(sent(answers, Update)) == as_bytes([update])
    assert sent(answers, Scores) == []  # the start that asked for them is gone
    (again,) = sent(feed(machine, asked(resumed=1)), Scores)
    assert as_bytes([again]) == as_bytes([replace(first, resumed=1)])
    assert feed(machine, asked(), SECOND, *opening(), *opening(resumed=1)) == []  # delayed, and for other clients


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_question_of_a_later_start_is_newer_than_any_of_an_earlier_one(stage):
    machine, *_ = answered_twice()
    (scores,) = sent(feed(machine, asked(resumed=1, stage=stage)), Scores)
    assert (scores.resumed, scores.stage) == (1, stage)
    assert feed(machine, *opening(resumed=1), replace(SECOND, stage=9)) == []


def test_an_answer_corrects_a_start_that_was_forged():
    machine, update, first = answered_twice()
    feed(machine, *opening(resumed=10**9))
    assert feed(machine, asked()) == []
    feed(machine, Tick(), now=machine.wakes_at)
    assert as_bytes(sent(feed(machine, joined(question=2), now=9.0), Update)) == as_bytes([update])
    assert as_bytes(sent(feed(machine, asked()), Scores)) == as_bytes([first])


def test_each_start_of_the_coordinator_is_answered_with_other_noise():
    # It may ask about other candidates. With the same noise, the two answers would show their difference without any.
    noise = Noise(1.0, radius=1.5)
    machine = client(secrets=MaskKeys(bytes(64)), secure_aggregation="pooled", noise=noise)
    first_update(machine, batch("abab"), slots=(replace(SLOT, whitened=True),), pooled=True)
    question = asked(slots=(replace(SCRATCH, whitened=True),))
    (first,) = sent(feed(machine, model(), question), Scores)
    (again,) = sent(feed(machine, replace(question, resumed=1)), Scores)
    assert first.sums and again.sums != first.sums


def test_relabelling_sums_are_sent_for_the_named_slots():
    machine = client()
    first_update(machine, batch("abzaba", values=[1, -1, 0, 1, -1, 1]), slots=(SLOT,))
    slots = (SCRATCH, replace(SCRATCH, name="former", trained=False))
    (scores,) = sent(
        feed(machine, model(), replace(model(), slot="former"), asked(slots=slots, relabel=("former",))), Scores
    )
    assert set(scores.differences) == {"scratch"}
    assert set(scores.relabelling) == {"former"}
    # The first four records: two of a with log-odds 10 for it, one of b with 10 against a, and a label that no
    # column stands for. What is likely is never counted below -2 ln 2.
    sure, most = -np.log1p(np.exp(-10.0)), -2.0 * np.log(2.0)
    assert scores.relabelling["former"] == pytest.approx(np.array([[2 * sure, 2 * most], [most, sure]]))


def test_a_client_sends_no_relabelling_sums_of_targets():
    records = replace(batch("abab"), y=np.array([-2.0, -1.0, 1.0, 2.0]), labels=())
    registry = Registry(1, ("x",), (), np.zeros(1), np.ones(1))
    machine = client(learner=LearningSettings(features="rounds").learner("regression", 0))
    first_update(machine, records, registry=registry, weights={"m": np.zeros((2, 1))})
    (scores,) = sent(feed(machine, model(np.zeros((2, 1))), asked(relabel=("scratch",))), Scores)
    assert scores.relabelling["scratch"].shape == (0, 0)


def test_a_score_for_another_entry_is_discarded():
    machine = client()
    update = first_update(machine, batch("abab" + "abab"))
    assert feed(machine, model(), asked(7), asked(0)) == []
    feed(machine, closed(1, update), *opening(2))
    assert feed(machine, asked(1)) == []


def test_a_client_without_an_update_has_nothing_to_score():
    machine = client()
    feed(machine, joined())
    assert feed(machine, *opening(), model(), asked()) == []


def test_candidates_for_other_clients_are_not_scored():
    machine = client()
    first_update(machine, batch("abab"))
    other = replace(SCRATCH, name="branch", clients=("c9",))
    (scores,) = sent(feed(machine, model(), asked(slots=(SCRATCH, other))), Scores)
    assert set(scores.losses) == {"scratch"}


# --- the history sample ----------------------------------------------------------------------------------------


def test_what_is_kept_of_a_round_is_named_and_scored_in_later_ones():
    machine = client()
    update = first_update(machine, batch("abab" + "aaaa"), keep=3)
    assert update.kept.sample is not None
    assert update.kept.sample.round == 1
    assert len(update.kept.sample.positions["c0"]) == 3
    feed(machine, closed(1, update, records=10))
    (following,) = sent(feed(machine, *opening(2, slots=(HISTORY,), sampled=(1,))), Update)
    measured = following.numbers.losses["m"]
    # An untrained model scores 0.5, weighed with the client's share of round 1: 4 of 10 records.
    assert measured.history == pytest.approx(0.4 * 0.5)
    assert (measured.history_share, measured.history_records) == (pytest.approx(0.4), 3)


def test_a_round_that_leaves_the_sample_is_forgotten():
    machine = client()
    update = first_update(machine, batch("abab" + "aaaa"), keep=3)
    feed(machine, closed(1, update))
    (following,) = sent(feed(machine, *opening(2, slots=(HISTORY,), sampled=())), Update)
    assert (following.numbers.losses["m"].history_share, following.numbers.losses["m"].history_records) == (0.0, 0)


def test_records_that_were_not_accepted_do_not_enter_the_history_sample():
    machine = client()
    first_update(machine, batch("abab"), keep=3)
    feed(machine, closed(1, records=10))
    (following,) = sent(feed(machine, *opening(2, slots=(HISTORY,), sampled=(1,))), Update)
    assert following.numbers.losses["m"].history_records == 0


def test_after_a_restart_the_sample_is_read_again_and_scores_as_before():
    weights = {"m": np.array([[0.3, -0.2], [0.1, 0.0]])}
    source = batch("ab!bab" + "abbb")
    before = client(round_size=5)
    update = first_update(before, source, keep=3)
    feed(before, closed(1, update, records=20))
    second = opening(2, slots=(HISTORY,), sampled=(1,), weights=weights)
    (undisturbed,) = sent(feed(before, *second, RecordsRead((batch("a", start=10),))), Update)

    after = client(round_size=5, start=2)
    assert update.kept.sample is not None
    sample = SampledRound(
        round=1, share=0.25, positions=update.kept.sample.positions, ordinals=update.kept.sample.ordinals
    )
    feed(after, RecordsRead((batch("ab!bab" + "abb"),)))
    answer = joined(start=2, entry=2, positions={"c0": 6}, read=6, sample=(sample,))
    decisions = feed(after, answer, *second)
    assert decisions == [Seek({"c0": 6}), Fetch({"c0": update.kept.sample.positions["c0"]})]
    assert feed(after, RecordsRead((batch("abbba", start=6),))) == []
    old = fetched(source, update.kept.sample.positions["c0"])
    (restored,) = sent(feed(after, RecordsFetched((old,))), Update)
    assert restored.numbers.losses["m"] == undisturbed.numbers.losses["m"]
    assert restored.numbers.losses["m"].history_records == 3


def test_records_that_are_read_again_together_go_to_their_own_rounds():
    machine = client(start=2)
    source = batch("aabb" + "bbaa")
    sample = (
        SampledRound(round=1, share=0.5, positions={"c0": (0, 1)}),
        SampledRound(round=2, share=0.25, positions={"c0": (4, 5)}),
    )
    feed(machine, RecordsRead((batch("abab"),)))
    decisions = feed(machine, joined(start=2, entry=3, positions={"c0": 8}, read=8, sample=sample))
    assert Fetch({"c0": (0, 1, 4, 5)}) in decisions
    # A model that always says a: right on all of round 1's sample, wrong on all of round 2's.
    always_a = {"m": np.array([[0.0, 0.0], [50.0, -50.0]])}
    history = replace(SLOT, history=(1, 2))
    feed(
        machine, *opening(3, slots=(history, replace(SLOT, name="n", history=(2,))), sampled=(1, 2), weights=always_a)
    )
    feed(machine, RecordsFetched((fetched(source, (0, 1, 4, 5)),)))
    (update,) = sent(feed(machine, RecordsRead((batch("abab", start=8),))), Update)
    assert update.numbers.losses["m"].history == pytest.approx(0.5 * 0.0 + 0.25 * 1.0)
    assert (update.numbers.losses["m"].history_share, update.numbers.losses["m"].history_records) == (0.75, 4)
    assert update.numbers.losses["n"].history == pytest.approx(0.25 * 0.5)
    assert (update.numbers.losses["n"].history_share, update.numbers.losses["n"].history_records) == (0.25, 2)


def test_old_records_that_are_gone_are_left_out():
    machine = client(start=2)
    sample = SampledRound(round=1, share=0.25, positions={"c0": (0, 1)})
    feed(machine, RecordsRead((batch("abab"),)))
    decisions = feed(machine, joined(start=2, entry=2, positions={"c0": 4}, read=4, sample=(sample,)))
    assert Fetch({"c0": (0, 1)}) in decisions
    feed(machine, *opening(2, slots=(HISTORY,), sampled=(1,)), RecordsFetched(()))
    (update,) = sent(feed(machine, RecordsRead((batch("abab", start=4),))), Update)
    assert (update.numbers.losses["m"].history, update.numbers.losses["m"].history_share) == (0.0, 0.0)


def test_a_client_does_not_fetch_a_history_sample_again_that_it_still_has():
    machine = client()
    update = first_update(machine, batch("abab"), keep=2)
    feed(machine, closed(1, update))
    sample = SampledRound(round=1, share=1.0, positions={"c0": (0, 1)})
    decisions = feed(machine, joined(entry=3, positions={"c0": 4}, read=4, sample=(sample,)))
    assert [d for d in decisions if isinstance(d, Fetch)] == []


def test_models_of_older_versions_are_not_mistaken_for_the_named_ones():
    machine = client()
    first_update(machine, batch("abab"), slots=(SLOT,))
    assert feed(machine, model(version=0), asked()) == []
    assert len(sent(feed(machine, model(version=1)), Scores)) == 1
