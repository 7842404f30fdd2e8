"""What a broken or hostile client can send, and what a federation must survive."""

from dataclasses import replace

import numpy as np
import pytest
from unit.machines.script import (
    SLOT,
    answer,
    batch,
    begun,
    broadcast,
    client,
    closed,
    coordinator,
    feed,
    first_update,
    join,
    refusals,
    sent,
    uncounted,
)

from streamfl.errors import PeerError
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.protocol.events import SourceEnded
from streamfl.protocol.messages import (
    HeldRecord,
    Joined,
    LabelSums,
    Leave,
    RoundClosed,
    SampledRound,
    Score,
    Scores,
    Served,
    Slot,
    SlotLosses,
)
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import Span
from streamfl.protocol.registry import TargetUnit
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings
from streamfl.wire import messages
from streamfl_benchmarks.liars.fields import altered

RUNGS = ["step 16", "step 4", "step 1", "step 4 with momentum", "shadow"]
SCORED = [*RUNGS, *(f"{name}-average" for name in RUNGS[:-1])]


def M(count=1.0, mean=0.0, m2=1.0):
    return Moments(("x",), np.atleast_1d(count), np.atleast_1d(mean), np.atleast_1d(m2))


def held(**more):
    """A record that c1 may hold out in round 1, except for what is wrong with it."""
    return HeldRecord(**({"round": 1, "ordinal": 2, "partition": "c1", "position": 2} | more))


def sums(label="a", count=4, loss=1.0, square=0.5):
    return LabelSums(label=label, count=count, loss=loss, square=square)


BAD = {
    "norm NaN": {"squared_norm": float("nan")},
    "norm negative": {"squared_norm": -1e9},
    "norm too large to be added": {"squared_norm": 1.7e308, "second_moments": np.diag([1.7e308, 4.0])},
    "largest NaN": {"largest_norm": float("nan")},
    "largest beyond all squares": {"largest_norm": 1e300},
    "errors infinite": {"served": Served(records=4, absolute_error=np.inf)},
    "errors minus infinite": {"served": Served(records=4, absolute_error=-np.inf)},
    "errors where there are labels": {"served": Served(records=4, absolute_error=1.0)},
    "more answers than records": {"served": Served(records=5)},
    "more right ones than answers": {"served": Served(records=3, correct=4)},
    "more right ones and empty ones than answers": {"served": Served(records=3, correct=2, unanswered=2)},
    "fewer empty ones than none": {"served": Served(records=3, unanswered=-1)},
    "fewer right ones than none": {"served": Served(records=3, correct=-1)},
    "a NoChange that is right more often than asked": {"served": Served(records=3, no_change=4.0)},
    "shares NaN": {"served": Served(records=3, shares={"rounds": np.nan})},
    "shares of a model that does not exist": {"served": Served(records=3, shares={"mine": 1.0})},
    "a history without rounds": {
        "losses": {n: SlotLosses(loss=1.0, square=1.0, proper=1.0, history_share=1e308) for n in SCORED}
    },
    "records of a history without rounds": {
        "losses": {n: SlotLosses(loss=1.0, square=1.0, proper=1.0, history_records=10**400) for n in SCORED}
    },
    "another round": {"round": 2},
    "positions before the first": {"spans": (Span("c1", -4, 0),)},
    "positions that no log has": {"spans": (Span("c1", 0, 2**63),)},
    "a partition with a name too long": {"spans": (Span("c1" * 200, 0, 4),)},
    "a partition twice": {"spans": (Span("c1", 0, 4), Span("c1", 0, 4))},
    "far too many partitions": {"spans": tuple(Span(f"p{i}", 0, 4) for i in range(1001))},
    "a sample that was not asked for": {
        "sample": SampledRound(round=1, share=0.0, positions={"c1": (0,)}, ordinals=(0,))
    },
    "moments of more than its records": {"moments": M(count=5.0)},
    "moments of a mean beyond all squares": {"moments": M(mean=1e200)},
    "moments of a spread beyond its values": {"moments": M(m2=1e250)},
    "moments of two features, where one is registered": {"moments": Moments((), np.ones(2), np.zeros(2), np.ones(2))},
    "moments of a feature that is unknown": {"moments": Moments(("y",), np.ones(1), np.zeros(1), np.ones(1))},
    "a target beyond all targets": {"target": TargetUnit(1e31, 1.0)},
    "a unit by which nothing can be divided": {"target": TargetUnit(0.0, 1e-320)},
    "sums by label of more records than there are": {"new": (sums(count=3), sums("b", count=3))},
    "more records than positions": {"records": 10**9, "trained": 10**9},
    "records without positions": {"spans": ()},
    "a known label as new": {"new_labels": ("a",), "differences": {n: np.ones((2, 3)) for n in RUNGS}},
    "a new label twice": {"new_labels": ("z", "z"), "differences": {n: np.ones((2, 4)) for n in RUNGS}},
    "a known feature as new": {"new_features": ("x",)},
    "a score below 0": {"losses": {n: SlotLosses(loss=-1e9, square=0.0, proper=0.0) for n in SCORED}},
    "a mean score above 1": {"losses": {n: SlotLosses(loss=1e9, square=0.0, proper=0.0) for n in SCORED}},
    "a mean proper score above 1": {"losses": {n: SlotLosses(loss=1.0, square=1.0, proper=1e9) for n in SCORED}},
    "a proper score below 0": {"losses": {n: SlotLosses(loss=1.0, square=1.0, proper=-1e9) for n in SCORED}},
    "trained, but no difference": {"differences": {}},
    "a difference of a model that is only scored": {"differences": {n: np.ones((2, 2)) for n in SCORED}},
    "moments of more records than have come": {"arrived": M(count=1001.0)},
    "moments of what has come, NaN": {"arrived": M(mean=np.nan)},
    "moments of what has come, of another shape": {"arrived": M(count=[1.0, 1.0])},
    "moments of what has come, of a feature that is unknown": {
        "arrived": Moments(("y",), np.ones(1), np.zeros(1), np.ones(1))
    },
    "moments of what has come, of an unknown feature, and no others": {
        "moments": None,
        "arrived": Moments(("y",), np.ones(1), np.zeros(1), np.ones(1)),
    },
    "moments NaN": {"moments": M(mean=np.nan)},
    "moments of other shapes": {"moments": M(count=[1.0, 1.0])},
    "moments of negative count": {"moments": M(count=-4.0)},
    "no second moments": {"second_moments": None},
    "second moments NaN": {"second_moments": np.array([[4.0, np.nan], [np.nan, 4.0]])},
    "second moments infinite": {"second_moments": np.diag([np.inf, 4.0])},
    "second moments of another shape": {"second_moments": 4.0 * np.eye(3)},
    "second moments that are no matrix": {"second_moments": np.ones(2)},
    "second moments negative": {"second_moments": np.diag([-1.0, 4.0])},
    "second moments of other norms than sent": {"second_moments": np.diag([1e308, 1e308])},
    "second moments of smaller norms than sent": {"second_moments": np.diag([1.0, 4.0])},
    "second moments beyond Cauchy and Schwarz": {"second_moments": np.array([[4.0, 1e6], [1e6, 4.0]])},
    "second moments that are not symmetric": {"second_moments": np.array([[4.0, 2.0], [-2.0, 4.0]])},
    "second moments of no constant": {"second_moments": np.zeros((2, 2))},
    "second moments of fewer constants than records": {"second_moments": np.diag([5.0, 3.0])},
    "more bad records than can be counted": {"rejected": 2**53, "spans": (Span("c1", 0, 2**60),)},
    "held out and trained on": {"held": (held(),)},
    "held out before the positions": {"held": (held(position=-1),), "trained": 3},
    "held out behind the positions": {"held": (held(position=4),), "trained": 3},
    "held out of another partition": {"held": (held(partition="c0"),), "trained": 3},
    "held out of a round before": {"held": (held(round=0),), "trained": 3},
    "held out of a round to come": {"held": (held(round=2),), "trained": 3},
    "held out twice": {"held": (held(), held()), "trained": 2},
    "held out out of order": {"held": (held(ordinal=1, position=1), held(ordinal=0, position=0)), "trained": 2},
    "held out under another's number": {"held": (held(ordinal=2**70),), "trained": 3},
    "held out under a negative number": {"held": (held(ordinal=-1),), "trained": 3},
    "old losses NaN": {"old": (sums(loss=np.nan),)},
    "old squares infinite": {"old": (sums(square=np.inf),)},
    "old losses of more than one a record": {"old": (sums(loss=4.1),)},
    "old losses of fewer than no records": {"old": (sums(count=-1),)},
    "old losses of more than may be held out": {"old": (sums(count=10**6),)},
    "old losses of a label twice": {"old": (sums(), sums())},
    "new losses NaN": {"new": (sums(loss=np.nan),)},
    "new squares infinite": {"new": (sums(square=np.inf),)},
    "new losses of more than one a record": {"new": (sums(loss=4.1),)},
    "new losses of fewer than no records": {"new": (sums(count=-1),)},
    "new losses of more records than there are": {"new": (sums(count=5),)},
    "new losses beyond all numbers": {"new": (sums(count=10**400),)},
    "new losses of a label twice": {"new": (sums(count=2, square=0.4), sums(count=2, square=0.4))},
    "new losses of a label that is unknown": {"new": (sums("zzz"),)},
}


@pytest.mark.parametrize("spoilt", BAD.values(), ids=BAD)
def test_a_spoilt_update_is_refused_and_changes_nothing(spoilt):
    machine = coordinator(2, scaling=True, profile=Promotion())
    opened = begun(machine, "c0", "c1")
    assert [slot.name for slot in opened.slots if slot.trained] == RUNGS
    before = uncounted(machine)
    good = {n: altered(answer(opened, n), moments=M()) for n in ("c0", "c1")}
    (refused,) = feed(machine, altered(good["c1"], **spoilt))
    assert (refused.client, refused.is_fault, machine.state.refused) == ("c1", True, 1)
    assert uncounted(machine) == before
    (closed,) = broadcast(feed(machine, good["c0"]), RoundClosed)
    assert [accepted.client for accepted in closed.accepted] == ["c0"]


TOLD = {
    "losses": {"step 16": SlotLosses(loss=0.0, square=0.0, proper=0.0)},
    "differences": {"step 16": np.zeros((2, 2))},
    "new": (sums(count=0, loss=0.0, square=0.0),),
    "old": (sums(),),
    "new_labels": ("z",),
    "new_features": ("y",),
    "held": (held(),),
    "let_go": (2,),
    "sample": SampledRound(round=1, share=0.0, positions={}, ordinals=()),
    "moments": M(count=0.0, m2=0.0),
    "arrived": M(count=0.0, m2=0.0),
    "second_moments": np.zeros((2, 2)),
    "squared_norm": 1.0,
    "largest_norm": 1.0,
    "target": TargetUnit(5.0, 1.0),
    "served": Served(records=0, no_change=1.0),
    "learnt": "whatever was learnt",
}


@pytest.mark.parametrize("what", TOLD)
def test_an_update_without_records_that_describes_some_is_refused(what):
    machine = coordinator(2, scaling=True, profile=Promotion())
    opened = begun(machine, "c0", "c1")
    empty = answer(opened, "c1", records=0, rejected=2, spans=(Span("c1", 0, 2),))
    (refused,) = feed(machine, altered(empty, **{what: TOLD[what]}))
    assert refused.is_fault
    assert refused.reason == "the update has data about records, but no records"
    assert refusals(feed(machine, empty)) == []


HONEST = {
    "records held out": {"held": (held(ordinal=0, position=0), held()), "trained": 2},
    "nothing trained on": {
        "held": tuple(held(ordinal=i, position=i) for i in range(4)),
        "trained": 0,
        "differences": {},
    },
    "records let go that were let go before": {"let_go": (7, 8)},
    "sums by label": {"new": (sums(count=3), sums("b", count=1, loss=1.0)), "old": (sums(count=100),)},
    "a new label": {
        "new_labels": ("z",),
        "new": (sums(count=3), sums("z", count=1, loss=1.0, square=1.0)),
        "differences": {n: np.ones((2, 3)) for n in RUNGS},
    },
}


@pytest.mark.parametrize("told_", HONEST.values(), ids=HONEST)
def test_an_honest_update_with_extreme_numbers_is_admitted(told_):
    machine = coordinator(2, scaling=True, profile=Promotion())
    opened = begun(machine, "c0", "c1")
    good = {n: altered(answer(opened, n), moments=M()) for n in ("c0", "c1")}
    assert refusals(feed(machine, altered(good["c1"], **told_), good["c0"])) == []
    assert all(np.isfinite(model.W).all() for model in machine.state.profile.main.live(1.0))


@pytest.mark.parametrize(("n", "refused"), [(2000, 0), (2001, 1)])
def test_with_two_labels_at_most_two_thousand_records_are_held_out(n, refused):
    machine = coordinator(2, scaling=True, profile=Promotion())
    opened = begun(machine, "c0", "c1")
    kept = tuple(held(ordinal=i, position=i) for i in range(n))
    update = answer(opened, "c1", records=n, trained=0, held=kept, differences={}, moments=M())
    assert refusals(feed(machine, update)) == [("c1", "more records are held out than were asked for")] * refused


def test_held_out_records_and_second_moments_must_be_asked_for():
    for spoilt in ({"held": (held(),), "trained": 3}, {"let_go": (2,)}, {"second_moments": 4.0 * np.eye(2)}):
        machine = coordinator(2)
        opened = begun(machine, "c0", "c1")
        assert (opened.earlier.held, opened.asks.second_moments) == (None, False)
        assert len(refusals(feed(machine, altered(answer(opened, "c1"), **spoilt)))) == 1


def test_all_models_together_answer_no_more_than_the_records():
    machine = coordinator(2)
    opened = begun(machine, "c0", "c1")
    served = Served(records=4, shares={"rounds": 2.0, "linear": 2.1})
    (refused,) = feed(machine, answer(opened, "c1", served=served))
    assert (refused.is_fault, refused.reason) == (
        True,
        "counts of predictions are out of range for this number of records",
    )


@pytest.mark.parametrize("moments", [M(mean=np.nan), M(count=[1.0, 1.0])], ids=["NaN", "shapes"])
def test_a_join_with_impossible_moments_is_refused(moments):
    assert len(refusals(feed(coordinator(1, scaling=True), join("c0", moments=moments)))) == 1


def test_a_client_whose_stream_has_ended_leaves_at_once():
    machine = client()
    update = first_update(machine, batch("abab"))
    feed(machine, SourceEnded())
    assert sent(feed(machine, closed(1, update)), Leave)


def test_a_client_trains_no_model_that_names_other_clients():
    assert first_update(client(), batch("abab"), slots=(replace(SLOT, clients=("c9",)),)).trained == 0


def test_a_client_scores_no_candidate_that_names_other_clients():
    machine = client()
    first_update(machine, batch("abab"))
    other = Slot(name="s", version=1, eta=1.0, clients=("c9",))
    answered = feed(machine, Score(entry=1, round=1, epoch=1, registry=1, slots=(other,)))
    (scores,) = sent(answered, Scores)
    assert (scores.losses, scores.differences) == ({}, {})


def test_a_client_serves_nothing_if_the_incumbent_names_other_clients():
    update = first_update(client(), batch("abab"), slots=(replace(SLOT, clients=("c9",)), replace(SLOT, name="n")))
    assert (list(update.numbers.losses), list(update.numbers.differences)) == (["n"], ["n"])
    assert update.numbers.served.records == 0


def test_a_name_that_looks_like_a_reference_survives_encoding():
    message = Joined(client="c", nonce="7f", incarnation=1, entry=1, positions={"$array": 5}, read=0)
    assert messages.decode(messages.encode(message)) == message


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"joined","client":"c","nonce":"7f","incarnation":1,"entry":1,"positions":{"$array":{}},"read":0}',
        b'{"a":' * 100_000,
    ],
    ids=["unhashable", "deep"],
)
def test_a_message_that_cannot_be_decoded_raises_a_peer_error(data):
    with pytest.raises(PeerError):
        messages.decode(data)


def test_a_lone_surrogate_never_reaches_the_coordinator():
    data = messages.encode(join("c0", labels=("a", "\ud800")))
    with pytest.raises(PeerError, match="surrogates not allowed"):
        messages.decode(data)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_a_late_feature_is_scaled(scale):
    rng = np.random.default_rng(0)
    n = 4000
    y = rng.integers(0, 2, n)
    X = np.column_stack([rng.normal(size=n) + 3 * y, scale * (rng.normal(size=n) + 10)])
    X[:1200, 1] = np.nan
    table = Table("t", ("a", "late"), X, y.astype(float), ("0", "1"), np.arange(n))
    run = Replay(
        table,
        deal(table, 4, "round-robin", 0),
        ReplaySettings(round_size=20, learning=LearningSettings(features="rounds")),
    ).run()
    assert np.mean([line.accuracy for line in run.rounds[-10:]]) > 0.9


@pytest.mark.parametrize(
    "wrong",
    [
        {"client": "x" * 300},
        {"client": "\ud800"},
        {"nonce": ""},
        {"nonce": "é" * 129},
        {"after": -1},
        {"after": 10**400},
        {"records": -1},
        {"records": 10**400},
        {"question": -1},
        {"question": 10**400},
        {"moments": M(count=5.0)},
        {"moments": M(mean=1e101)},
        {"target": TargetUnit(np.inf, 1.0)},
    ],
    ids=str,
)
def test_an_introduction_that_no_honest_client_sends_is_refused(wrong):
    machine = coordinator(1)
    (refused,) = feed(machine, replace(join("c0"), **wrong))
    assert refused.is_fault
    assert begun(machine, "c0").round == 1


def test_errors_without_predictions_are_refused():
    machine = coordinator(1, task="regression")
    opened = begun(machine, "c0")
    decisions = feed(machine, altered(answer(opened, "c0"), served=Served(absolute_error=1.0)))
    assert refusals(decisions) == [("c0", "there are more predictions than records")]


def test_two_clients_with_infinite_errors_do_not_stop_the_round():
    """Their sum cannot be computed: `math.fsum` raises."""
    machine = coordinator(3, task="regression")
    opened = begun(machine, "c0", "c1", "c2")
    for name, error in (("c1", np.inf), ("c2", -np.inf)):
        (refused,) = feed(machine, altered(answer(opened, name), served=Served(records=4, absolute_error=error)))
        assert refused.is_fault
    (closed,) = broadcast(feed(machine, answer(opened, "c0")), RoundClosed)
    assert (closed.records, closed.served) == (4, Served())
