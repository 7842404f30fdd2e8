"""What tells whether online models should begin again, and what then happens at the coordinator and at clients."""

import math
from dataclasses import replace

import numpy as np
import pytest
from native_streams import LABELS, agreed, drawn, learnt, state

from streamfl.bounds import NAMED
from streamfl.learning.online_models import Renewal
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.learner import NativeLearner
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.protocol.messages import OnlinePublished
from streamfl.protocol.native.learnt import round_loss
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.settings import NativeSettings
from streamfl.wire import messages

pytestmark = pytest.mark.compiles

AUTO = NativeSettings("auto")
AGREED = agreed(AUTO, learnt(AUTO, drawn(30)), labels=LABELS)


def after(settings: NativeSettings, begin: NativeState, records: int = 40) -> tuple[NativeLearner, np.ndarray]:
    """Return a learner that has learnt some records from an agreed state, and its prediction of each."""
    learner = NativeLearner(settings)
    learner.begin(begin)
    return learner, learner.learn(*drawn(records, seed=3).part(0, records))


def lost(P: np.ndarray, records: int = 40) -> float:
    """Return the sum of the log-loss of predictions."""
    codes = drawn(records, seed=3).y.astype(int)
    return -sum(math.log(p) for p in P[np.arange(records), codes])


def begin(learner: NativeLearner, state: NativeState) -> None:
    """Let a client begin a round with a state that was published whole."""
    client = NativeAtClient(learner.settings)
    client.learner = learner
    client.take(OnlinePublished(version=9, agreed=state))
    client.begin(9, epoch=2)


def test_the_loss_is_the_sum_of_what_the_agreed_mixture_lost_on_each_record() -> None:
    shared = AUTO.agreed_only
    learner, P = after(shared, AGREED)  # what it serves is the agreed mixture alone
    assert learner.learnt().loss == round_loss(lost(P))


def test_the_first_record_after_known_labels_loses_the_logarithm_of_their_number() -> None:
    learner = NativeLearner(AUTO.agreed_only)
    learner.begin(NativeState.none(learner.settings).grown((), LABELS))
    learner.learn(*drawn(1).part(0, 1))
    assert learner.learnt().loss == round_loss(math.log(3.0))


def test_nothing_that_a_client_alone_knows_changes_the_loss() -> None:
    shared, _ = after(AUTO.agreed_only, AGREED)
    own, P = after(AUTO, AGREED)
    assert own.learnt().loss == shared.learnt().loss != round_loss(lost(P))


def test_the_loss_is_of_the_records_since_the_round_began() -> None:
    learner, _ = after(AUTO, AGREED)
    learner.restore()
    assert learner.learnt().loss == 0.0
    learner.learn(*drawn(40, seed=3).part(0, 40))
    assert learner.learnt().loss == after(AUTO, AGREED)[0].learnt().loss


def test_targets_have_no_loss() -> None:
    targets = NativeSettings("linear", targets=True)
    learner = NativeLearner(targets)
    learner.learn(*drawn(30, targets=True).part(0, 30))
    assert learner.learnt().loss is None


def test_an_untrained_learner_loses_what_one_without_any_past_loses() -> None:
    learner, _ = after(AUTO, AGREED)
    untrained = NativeLearner(AUTO.agreed_only)
    untrained.begin(NativeState.none(untrained.settings).grown((), LABELS))
    P = untrained.learn(*drawn(40, seed=3).part(0, 40))
    stream, before = drawn(40, seed=3), learner.predicted(("x", "y"), np.ones((1, 2)))
    # In two batches, and learnt as one.
    assert learner.untrained_loss([stream.batch(0, 25), stream.batch(25, 40)]) == round_loss(lost(P) / 40)
    assert learner.records == 40  # it has not moved
    assert np.array_equal(learner.predicted(("x", "y"), np.ones((1, 2))), before)


def test_the_agreed_state_begins_again_and_is_published_whole() -> None:
    native = NativeOnlineModels(AUTO)
    parts = {"c0": learnt(AUTO, drawn(20), 0, 20)}
    again, change = native.after(AGREED, parts, LABELS, renewal=Renewal(False, (1, 0, 2), True), limits=NAMED)
    assert (again.seen, change) == (0, None)
    assert state(again) == state(replace(native.initial(LABELS).grown((), LABELS), times_begun_again=1))
    published = native.published(again, 7)
    assert published.is_whole
    assert messages.size(published) < 2000
    client = NativeAtClient(AUTO)
    client.take(published)
    client.begin(7, epoch=2)
    assert client.labels == LABELS  # it answers the first record: by the model of rounds
    assert native.after(again, parts, LABELS, limits=NAMED)[0].times_begun_again == 1  # and so it stays


def test_a_client_begins_its_own_parts_again_with_the_agreed_state() -> None:
    learner, _ = after(AUTO, AGREED)
    begin(learner, replace(NativeState.none(AUTO), times_begun_again=1))
    new = NativeLearner(AUTO)
    assert learner.learn(*drawn(30).part(0, 30)).tolist() == new.learn(*drawn(30).part(0, 30)).tolist()
    # One that has missed that round begins again, too, however many records the others have learnt since.
    behind, _ = after(AUTO, AGREED)
    later = replace(AGREED, seen=2 * AGREED.seen, times_begun_again=1)
    begin(behind, later)
    again = NativeLearner(AUTO)
    begin(again, later)
    assert behind.learn(*drawn(30).part(0, 30)).tolist() == again.learn(*drawn(30).part(0, 30)).tolist()


def test_what_a_client_held_for_pending_records_does_not_come_back() -> None:
    client = NativeAtClient(AUTO)
    client.take(OnlinePublished(version=1, agreed=AGREED))
    client.begin(1, epoch=1)
    client.learner.learn(*drawn(40).part(0, 40))
    client.hold()
    for version, seen in ((2, 0), (3, 100)):
        client.take(OnlinePublished(version=version, agreed=replace(AGREED, seen=seen, times_begun_again=1)))
        client.begin(version, epoch=2)
        assert client.learner.near is not None
        assert client.learner.near.seen == 0
        assert client.learner.own is not None
        assert client.learner.own.records == 0


def test_a_client_keeps_its_own_parts_while_the_agreed_state_goes_on() -> None:
    learner, _ = after(AUTO, AGREED)
    begin(learner, replace(AGREED, seen=AGREED.seen + 1))
    assert learner.near is not None
    assert learner.near.seen == 40
