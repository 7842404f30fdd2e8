"""The conformal test: its numbers by hand, whom and what an alarm names, who comes and goes, and new labels."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from streamfl.arrays import FloatArray
from streamfl.learning.drift.detectors.class_mix import MOST_LABELS
from streamfl.learning.drift.detectors.conformal import BAG, SHORTEST, TILTS, Conformal, Evidence, Levels
from streamfl.learning.drift.evidence import ClientEvidence, RoundEvidence
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.messages import LabelSums
from streamfl.sampling import generator

CLIENTS = tuple(f"c{i}" for i in range(10))


def part(**means: float) -> ClientEvidence:
    """Return a client's part: of each label 20 records of a mean score."""
    new = tuple(
        LabelSums(label=x, count=20, loss=20.0 * mean, square=20.0 * (mean**2 + 0.01)) for x, mean in means.items()
    )
    return ClientEvidence(20 * len(new), {}, new)


def observed(t: int, parts: Mapping[str, ClientEvidence], known: tuple[str, ...] = ()) -> RoundEvidence:
    return RoundEvidence(t, sum(p.records for p in parts.values()), {}, known_labels=known, clients=parts)


class Play:
    """Ten clients with the labels a and b, whose scores vary a little."""

    def __init__(self) -> None:
        self.random, self.detector, self.t = generator(3, "conformal"), Conformal(), 0

    def round(self, risen: Mapping[str, float] = {}, labels: str = "ab", absent: Sequence[str] = ()) -> Alarm | None:
        """Play a round in which the scores of some labels are higher at some clients."""
        self.t += 1
        noise = {client: self.random.normal(0.0, 0.02, 2) for client in CLIENTS}
        parts = {
            client: part(
                **{x: 0.3 + noise[client][j] + risen.get(client, 0.0) * (x in labels) for j, x in enumerate("ab")}
            )
            for client in CLIENTS
            if client not in absent
        }
        return self.detector.update(observed(self.t, parts), {})

    def quiet(self, rounds: int = 20) -> None:
        """Play rounds in which nothing changes."""
        assert [self.round() for _ in range(rounds)] == [None] * rounds

    def until_alarm(self, risen: Mapping[str, float], labels: str = "ab") -> Alarm:
        """Play rounds until there is an alarm."""
        return next(alarm for _ in range(8) if (alarm := self.round(risen, labels)) is not None)


EVERYBODY = dict.fromkeys(CLIENTS, 0.3)


def bag_of(scores: Sequence[Sequence[float]]) -> FloatArray:
    """Return the bag of a lone client with one label and these scores in each round."""
    rounds = [[len(x), sum(x), sum(score**2 for score in x)] for x in scores]
    return np.array(rounds, np.float64).T[:, :, None, None]


def test_a_bag_by_hand() -> None:
    # A lone client has one record a round, with a score of 0 seven times and of 1 at last: Bennett's bound is then
    # the mean over the bag itself. Before a drift of one round there are seven, of two six, of four four; of eight
    # there are too few.
    low, high, tilts = -1.0 / 8.0, 7.0 / 8.0, TILTS.ravel()
    mean = (7.0 * np.exp(tilts * low) + np.exp(tilts * high)) / 8.0
    of_start = [np.exp(tilts * (high + (a - 1) * low)) / mean**a for a in (1, 2, 4)]
    # Over all and by label alike; over a few with p = 1 and a tenth.
    means = [(2.0 * e.mean() + (e.mean() + 0.9 + 0.1 * e.mean()) / 2.0) / 3.0 for e in (*of_start, np.ones(1))]
    found = Evidence.of(bag_of([[0.0]] * 7 + [[1.0]]))
    assert found.statistic() == pytest.approx(math.log(np.mean(means)))
    assert found.start() == 1
    assert np.exp(found.logs[0].ravel()) == pytest.approx(of_start[0])
    assert found.above[:3].ravel() == pytest.approx([7 / 8, 6 / 8, 4 / 8])
    assert found.variance[:3].ravel() == pytest.approx([a * (8 - a) / 8 * 7 / 64 for a in (1, 2, 4)])


def test_with_fewer_old_records_than_new_ones_the_old_ones_are_drawn() -> None:
    # Two old records of 0 and six new ones of 1, then the reverse: the same draw of two from the bag.
    few_old = Evidence.of(bag_of([[0.0], [], [0.0], [1.0] * 6])).logs[0]
    few_new = Evidence.of(bag_of([[0.0] * 3, [0.0], [0.0] * 2, [1.0] * 2])).logs[0]
    assert few_old.ravel() == pytest.approx(few_new.ravel())


def test_a_fall_of_scores_is_a_rise_of_what_they_lack_to_1() -> None:
    random = generator(6, "conformal")
    counts = random.integers(0, 9, (12, 5, 2)).astype(np.float64)
    means = random.uniform(0.1, 0.9, counts.shape)
    sums, squares = counts * means, counts * (means**2 + 0.01)
    lack = np.stack([counts, counts - sums, counts - 2.0 * sums + squares])
    fall, rise = Evidence.of(np.stack([counts, sums, squares])), Evidence.of(lack)
    assert fall.falls == pytest.approx(rise.logs.sum(axis=3))


def test_scores_that_follow_labels_alone_are_no_evidence_whatever_the_mix() -> None:
    counts = np.full((8, 1, 2), 2.0)
    counts[:, 0, 0] = [1, 3, 1, 3, 1, 3, 1, 3]
    scores = np.array([0.9, 0.1])
    found = Evidence.of(np.stack([counts, counts * scores, counts * scores**2]))
    assert found.above.ravel() == pytest.approx(np.zeros(8), abs=1e-12)
    assert found.statistic() <= 0.0


def test_copies_are_evidence_of_one_record() -> None:
    # Ten copies of each record make sums vary ten times as much; the design effect takes most of it back.
    random = generator(2, "conformal")
    scores = random.uniform(0.0, 1.0, (20, 10, 1))
    once, often = (Evidence.of(np.stack([k * np.ones_like(scores), k * scores, k * scores**2])) for k in (1.0, 10.0))
    assert once.factors[0] == pytest.approx(1.0, abs=0.2)
    assert 8.0 < often.factors[0] < 11.0
    assert often.levels()[0] == pytest.approx(once.levels()[0], rel=0.2)


def test_copies_at_one_client_divide_its_own_evidence_most() -> None:
    random = generator(4, "conformal")
    scores, n = random.uniform(0.0, 1.0, (30, 10, 1)), np.where(np.arange(10) == 3, 10.0, 1.0)[:, None]
    own = Evidence.of(np.stack([n * np.ones_like(scores), n * scores, n * scores**2])).own[0]
    assert own[3] > 5.0
    assert (np.delete(own, 3) < 3.0).all()


def test_one_client_s_wild_rounds_hardly_divide_the_evidence_of_the_others() -> None:
    random = generator(5, "conformal")
    scores = random.normal(0.5, 0.02, (40, 10, 1))
    scores[:, 0, 0] = np.arange(40) % 2  # a liar: all of its records score 0, then 1
    bag = np.stack([20.0 * np.ones_like(scores), 20.0 * scores, 20.0 * (scores**2 + 0.01)])
    bag[2, :, 0] = 20.0 * scores[:, 0]
    assert Evidence.of(bag).factors.max() < 4.0
    assert np.abs(Evidence.of(bag).levels()).max() < 3.0


def test_common_shocks_divide_what_is_above_0() -> None:
    bag = bag_of([[0.1, 0.3]] * 8 + [[0.9, 0.9]])
    plain, damped = Evidence.of(bag), Evidence.of(bag, (1.0, 3.0, 2.0, 1.0))
    assert damped.factors / plain.factors == pytest.approx([1.0, 3.0, 3.0, 3.0])  # longer windows vary no less
    assert 0.0 < damped.statistic() < plain.statistic()


def test_an_alarm_at_all_clients_comes_at_once_and_names_label_and_round() -> None:
    play = Play()
    play.quiet()
    alarm = play.round(EVERYBODY, labels="b")
    assert alarm is not None
    assert (alarm.cause, alarm.since, alarm.labels, alarm.local) == ("conformal", 21, ("b",), False)
    assert alarm.statistic >= alarm.threshold == pytest.approx(math.log(2e4))
    assert play.detector.reading is not None
    assert play.detector.reading.statistic == alarm.statistic
    assert not play.detector.rest_is_quiet(observed(play.t, {}), {}, ("c1", "c2"), 5.0)


def test_a_drift_is_dated_to_its_first_round_also_if_it_is_found_later() -> None:
    play = Play()
    play.quiet()
    alarm = play.until_alarm(dict.fromkeys(CLIENTS, 0.012))
    assert play.t > 21
    assert 20 <= alarm.since <= 22


def test_clients_that_drift_alone_are_named_with_their_labels() -> None:
    play = Play()
    play.quiet(45)
    alarm = play.until_alarm({"c1": 0.3, "c4": 0.3}, labels="a")
    assert (alarm.clients, alarm.labels, alarm.local, alarm.since) == (("c1", "c4"), ("a",), True, 46)
    assert play.detector.surely_drifted(["c1", "c2"]) == ("c1",)
    assert play.detector.rest_is_quiet(observed(play.t, {}), {}, alarm.clients, 3.0)


def test_an_alarm_names_whom_the_evidence_names_that_raised_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the alarm's own round made sums vary so much that nobody would be named any more.
    play = Play()
    play.quiet(45)
    monkeypatch.setattr(Levels, "take", lambda ratio, _: setattr(ratio, "total", 1e9))
    alarm = play.round({"c1": 0.3, "c4": 0.3}, labels="a")
    assert alarm is not None
    assert play.detector.surely_drifted(CLIENTS) == ()
    assert alarm.clients == ("c1", "c4")


def test_clients_that_are_as_they_were_before_they_drifted_are_found_at_once() -> None:
    play, two = Play(), {"c1": 0.3, "c4": 0.3}
    play.quiet(45)
    play.until_alarm(two)
    play.detector.forget(two)
    assert [play.round(two) for _ in range(8)] == [None] * 8
    assert not play.detector.are_as_before(two)
    assert play.round() is None
    assert play.detector.are_as_before(two)
    assert not play.detector.are_as_before(["c2", "c3"])
    assert not play.detector.are_as_before(["elsewhere"])


def test_a_forgotten_client_begins_a_new_bag_and_the_others_keep_theirs() -> None:
    play, two = Play(), {"c1": 0.3, "c4": 0.3}
    play.quiet(45)
    play.until_alarm(two)
    play.detector.forget(two)
    assert play.detector.clients == tuple(c for c in CLIENTS if c not in two)
    assert [play.round(two) for _ in range(20)] == [None] * 20  # their level is what it is now
    assert play.round(EVERYBODY) is not None


def test_a_late_client_and_one_that_comes_back_are_no_evidence_by_themselves() -> None:
    play = Play()
    assert not any(play.round(absent=["c0", "c1"]) for _ in range(15))
    assert not any(play.round(absent=["c1"]) for _ in range(15))
    assert not any(play.round() for _ in range(15))


def test_it_is_silent_for_three_rounds_after_a_reset() -> None:
    play = Play()
    play.quiet()
    play.detector.reset()
    assert [play.round(EVERYBODY if i == 2 else {}) for i in range(3)] == [None] * 3
    assert play.detector.reading is None
    play.round()
    assert play.detector.reading is not None


def test_with_ten_clients_a_drift_five_rounds_after_a_reset_is_found_at_once() -> None:
    play = Play()
    play.quiet(5)
    alarm = play.round(EVERYBODY)
    assert alarm is not None
    assert alarm.since == 6


def test_a_label_that_is_new_to_the_epoch_is_an_alarm_and_a_known_one_is_not() -> None:
    def played(known: tuple[str, ...], clients: int) -> Alarm | None:
        detector = Conformal()
        for t in range(1, 4):
            assert detector.update(observed(t, {c: part(a=0.3) for c in CLIENTS}, known), {}) is None
        parts = {c: part(a=0.3, n=1.0) if i < clients else part(a=0.3) for i, c in enumerate(CLIENTS)}
        return detector.update(observed(4, parts, known), {})

    assert played(("a", "n"), 10) is None
    alarm = played(("a",), 10)
    assert alarm is not None
    assert (alarm.cause, alarm.labels, alarm.since) == ("new-label", ("n",), 4)
    assert played(("a",), 2) is None  # too few clients have it


def test_the_bag_is_bounded_in_rounds_and_labels_and_whoever_left_leaves_it() -> None:
    detector = Conformal()
    for t in range(1, BAG + 10):
        names = CLIENTS[1:3] if t > 8 else CLIENTS[:3]
        parts = {c: part(**{f"l{t % 60:03}": 0.2, f"m{t}": 0.2, f"n{t}": 0.2, f"o{t}": 0.3}) for c in names}
        detector.update(observed(t, parts), {})
    assert detector.bag.shape[:3] == (3, BAG, 2)
    assert len(detector.labels) <= MOST_LABELS
    assert detector.clients == CLIENTS[1:3]


def test_with_many_clients_and_labels_the_bag_is_shorter() -> None:
    def rounds(clients: int) -> int:
        detector = Conformal()
        for t in range(1, 15):
            parts = {f"c{i:03}": part(**{f"l{j}": 0.2 for j in range(10)}) for i in range(clients)}
            detector.update(observed(t, parts), {})
        return detector.bag.shape[1]

    assert [rounds(20), rounds(150), rounds(200)] == [14, 13, SHORTEST]


def test_the_order_of_clients_does_not_matter() -> None:
    def statistic(order: int) -> FloatArray:
        detector, random = Conformal(), generator(5, "conformal")
        for t in range(1, 12):
            scores = {c: random.uniform(0.2, 0.4, 2) for c in CLIENTS}
            parts = {c: part(a=scores[c][0], b=scores[c][1]) for c in CLIENTS[::order]}
            detector.update(observed(t, parts), {})
        assert detector.reading is not None
        return np.array([detector.reading.statistic])

    assert statistic(1).tolist() == statistic(-1).tolist()
