"""Laws of the excess test, and simulations of what must and must not alarm."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamfl.arrays import FloatArray
from streamfl.learning.drift.detectors.excess import Excess
from streamfl.learning.drift.evidence import ClientEvidence, RoundEvidence
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.messages import LabelSums
from streamfl.sampling import generator

LABELS = ("a", "b", "c")
HELD = 20  # of a client and label, at most


def summed(scores: FloatArray, y: FloatArray) -> tuple[LabelSums, ...]:
    parts = [(name, scores[y == j]) for j, name in enumerate(LABELS)]
    return tuple(
        LabelSums(label=name, count=len(x), loss=float(x.sum()), square=float((x**2).sum()))
        for name, x in parts
        if len(x)
    )


class World:
    """Clients whose scores, given client and label, are beta distributed around means of their own."""

    def __init__(self, seed: int, clients: int = 4, records: int = 60) -> None:
        self.rng = generator(seed, "excess")
        self.means = np.clip(self.rng.normal([0.1, 0.4, 0.7], 0.05, (clients, 3)), 0.02, 0.9)
        self.records = records
        self.held: list[tuple[FloatArray, FloatArray]] = [(np.zeros(0), np.zeros(0))] * clients
        self.detector = Excess()

    def play(self, t: int, mix: FloatArray, rise: float = 0.0) -> Alarm | None:
        """Play a round of the given class mix: new records are compared with the first ones that were held out."""
        parts: dict[str, ClientEvidence] = {}
        for i, means in enumerate(self.means):
            y = self.rng.choice(3, self.records, p=mix)
            mean = np.minimum(0.98, means[y] + rise)
            scores = self.rng.beta(4.0 * mean, 4.0 * (1.0 - mean))
            old, old_y = self.held[i]
            parts[f"c{i}"] = ClientEvidence(self.records, {}, summed(scores, y), summed(old, old_y))
            self.held[i] = self._with(old, old_y, scores[::10], y[::10])
        return self.detector.update(RoundEvidence(t, self.records * len(parts), {}, clients=parts), {})

    @staticmethod
    def _with(old: FloatArray, old_y: FloatArray, x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        scores, labels = np.append(old, x), np.append(old_y, y)
        rows = np.sort(np.concatenate([np.flatnonzero(labels == j)[:HELD] for j in range(3)]))
        return scores[rows], labels[rows]


EVEN = np.array([0.5, 0.4, 0.1])


@pytest.mark.parametrize("seed", range(40))
def test_new_and_old_scores_of_one_kind_give_no_alarm(seed: int) -> None:
    world = World(seed)
    assert [world.play(t, EVEN) for t in range(1, 201)] == [None] * 200


@pytest.mark.parametrize("seed", range(5))
def test_a_shift_of_the_class_mix_is_no_rise(seed: int) -> None:
    # From labels that are mostly easy to labels that are mostly hard: the mean score rises from 0.2 to 0.6.
    world = World(seed)
    for t in range(1, 301):
        part = min(1.0, max(0.0, (t - 50) / 100))
        mix = (1.0 - part) * np.array([0.8, 0.15, 0.05]) + part * np.array([0.05, 0.15, 0.8])
        assert world.play(t, mix) is None


@pytest.mark.parametrize("seed", range(20))
def test_a_rise_of_a_fifth_is_found_in_the_first_or_second_round(seed: int) -> None:
    world = World(seed, clients=20)
    assert [world.play(t, EVEN) for t in range(1, 31)] == [None] * 30
    first = world.play(31, EVEN, rise=0.2)
    alarm = first or world.play(32, EVEN, rise=0.2)
    assert alarm is not None
    assert not alarm.local


COUNTS = st.integers(0, 40)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, ClientEvidence]:
    """Return a round of up to five clients: sums of scores in [0, 1], held-out ones included."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    parts: dict[str, ClientEvidence] = {}
    for i in range(draw(st.integers(2, 5))):
        n, h = draw(COUNTS), draw(COUNTS)
        rise = draw(st.sampled_from([1.0, 0.3]))
        new = summed(rng.random(n) ** rise, rng.integers(0, 3, n))
        parts[f"c{i}"] = ClientEvidence(n, {}, new, summed(rng.random(h), rng.integers(0, 3, h)))
    return parts


def played(rounds: list[dict[str, ClientEvidence]]) -> tuple[Excess, list[Alarm | None]]:
    detector = Excess(run_length=20.0)
    detector.reset(filled=True)
    return detector, [detector.update(RoundEvidence(t, 100, {}, clients=p), {}) for t, p in enumerate(rounds, 1)]


def found(alarm: Alarm | None) -> object:
    return alarm and (alarm.cause, alarm.clients, alarm.labels, alarm.local)


def assert_close(one: Mapping[str, list[float]], other: Mapping[str, list[float]]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert one[name] == pytest.approx(other[name], rel=1e-6, abs=1e-6)


@given(rounds=st.lists(tables(), min_size=1, max_size=4), seed=st.integers(0, 100))
def test_the_order_of_clients_does_not_matter(rounds: list[dict[str, ClientEvidence]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    mixed = [dict(rng.permutation(np.array(list(p.items()), dtype=object))) for p in rounds]
    one, alarms = played(rounds)
    other, others = played(mixed)
    assert_close(one.logs, other.logs)
    assert one.few.statistic() == pytest.approx(other.few.statistic(), rel=1e-6, abs=1e-6)
    assert [found(a) for a in alarms] == [found(a) for a in others]


def moved(sums: tuple[LabelSums, ...], by: Mapping[str, float]) -> tuple[LabelSums, ...]:
    """Return the sums of the same scores, each moved by a number that depends on the label."""
    return tuple(
        LabelSums(
            label=x.label,
            count=x.count,
            loss=x.loss + x.count * by[x.label],
            square=x.square + 2.0 * by[x.label] * x.loss + x.count * by[x.label] ** 2,
        )
        for x in sums
    )


@given(rounds=st.lists(tables(), min_size=1, max_size=4), by=st.tuples(*[st.floats(-0.5, 0.5)] * 3))
def test_how_hard_a_label_is_does_not_matter(
    rounds: list[dict[str, ClientEvidence]], by: tuple[float, float, float]
) -> None:
    move = dict(zip(LABELS, by, strict=True))
    harder = [
        {c: ClientEvidence(p.records, {}, moved(p.new, move), moved(p.old, move)) for c, p in parts.items()}
        for parts in rounds
    ]
    one, other = played(rounds)[0], played(harder)[0]
    assert_close(one.logs, other.logs)
    assert one.few.statistic() == pytest.approx(other.few.statistic(), rel=1e-6, abs=1e-6)
