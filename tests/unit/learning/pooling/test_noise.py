"""Noise hides a record: no record moves the sums farther than noise reckons with."""

import math
from contextlib import nullcontext
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.machines.script import LEARNER, answer

from streamfl.errors import PeerError, UsageError
from streamfl.learning.history import History
from streamfl.learning.pooling.layout import Layout, SummedArray
from streamfl.learning.pooling.noise import Noise, normals_of
from streamfl.learning.pooling.sums import sums_of
from streamfl.machines.client.ledger.evaluated import served_counts
from streamfl.machines.client.work.comparison import Comparison
from streamfl.machines.client.work.round import ClientRound
from streamfl.machines.coordinator.round_kinds.summed import SummedRounds, with_noise
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.messages import MomentsAsked, RoundOpened, Score, Slot, SlotLosses, TotalsAsked, Update
from streamfl.protocol.records import Batch, Span
from streamfl.protocol.registry import Registry
from streamfl.run.evaluation.epsilon import epsilon
from streamfl.run.settings import LearningSettings, PrivacySettings, ProfileSettings
from streamfl.wire.masking import expand
from streamfl_benchmarks.liars.fields import altered

RADIUS = 1.5
LABELS = ("a", "b", "c")
REGISTRY = Registry(1, ("x", "y"), LABELS, np.zeros(2), np.ones(2))
SLOTS = tuple(Slot(name=f"step {i}", version=1, eta=0.1, whitened=True) for i in range(3))
OPENED = RoundOpened(
    entry=1,
    round=1,
    epoch=1,
    block=1,
    registry=1,
    slots=SLOTS,
    serves="step 0",
    known_labels=3,
    asks=MomentsAsked(second_moments=True),
    totals=TotalsAsked(pooled=True),
)
LAYOUT = Layout.of_round(OPENED, REGISTRY, LEARNER.model.columns, by_label=False)
NOISE = Noise(1.0, RADIUS)

WILD = st.floats(-1e6, 1e6, allow_nan=False)
RECORD = st.tuples(WILD, WILD, st.integers(0, 2))
WEIGHTS = st.lists(st.floats(-30.0, 30.0), min_size=27, max_size=27)


def sums(records: list[tuple[float, float, int]], weights: list[float]) -> dict[str, np.ndarray]:
    """Return what a client with these records adds up."""
    X, y = np.array([record[:2] for record in records]), np.array([float(record[2]) for record in records])
    batch = Batch(Span("p", 0, len(y)), np.arange(len(y)), ("x", "y"), X, y, LABELS)
    part = ClientRound("c0", LEARNER, OPENED, REGISTRY, (batch,), 0, Comparison(), radius=RADIUS)
    W = dict(zip([slot.name for slot in SLOTS], np.array(weights).reshape(3, 3, 3), strict=True))
    result = part.work(W, History())
    repeated = np.concatenate([[0.0], y[:-1]])
    served = served_counts(part.records, result.served, repeated, {})
    update = part.update(result, attempt="1-1", served=served, tried=(), learnt=None, sample=None)
    return LAYOUT.unpacked(sums_of(update, OPENED, LAYOUT, REGISTRY))


@given(st.lists(RECORD, min_size=3, max_size=8), RECORD, WEIGHTS, st.data())
def test_no_record_in_place_of_another_moves_a_block_farther_than_noise_reckons_with(records, other, weights, data):
    at = data.draw(st.integers(0, len(records) - 1))
    changed = [*records[:at], other, *records[at + 1 :]]
    before, after = sums(records, weights), sums(changed, weights)
    lengths = {
        name: deviation / math.sqrt(len(LAYOUT.blocks)) for name, deviation in NOISE.deviations(LAYOUT).items()
    }
    for name, length in lengths.items():
        moved = float(np.linalg.norm(after[name] - before[name]))
        # Sums of scores are floats of 32 bits.
        assert moved <= length * (1.0 + 1e-5), name
    scaled = [np.linalg.norm(after[name] - before[name]) / d for name, d in NOISE.deviations(LAYOUT).items()]
    assert np.linalg.norm(scaled) <= 1.0 + 1e-5


def test_one_record_can_move_steps_nearly_as_far_as_the_noise_assumes():
    weights = [0.0] * 27
    weights[6] = weights[15] = weights[24] = 60.0  # all are sure of the first label, by the constant 1
    far, near = sums([(0.0, 3.0, 1)], weights), sums([(0.0, -3.0, 1)], weights)
    length = NOISE.deviations(LAYOUT)["step step 0"] / math.sqrt(len(LAYOUT.blocks))
    assert np.linalg.norm(far["step step 0"] - near["step step 0"]) > 0.9 * length


def test_noise_for_sums_without_a_bound_is_refused():
    for name in ("means", "squares", "values", "by_label"):
        with pytest.raises(PeerError, match="without bound"):
            NOISE.deviations(Layout((SummedArray(name, (2, 2)),)))


def test_noise_is_shared_by_the_clients_of_a_total_and_has_the_deviation_that_it_says():
    layout = Layout((SummedArray("norm", (20_000,)),))
    alone, shared = Noise(2.0, RADIUS), Noise(2.0, RADIUS, clients=4)
    assert shared.deviations(layout)["norm"] == alone.deviations(layout)["norm"] / 2.0
    normals = normals_of(expand(bytes(32), 40_000))
    added = layout.unpacked(alone.added(np.zeros(20_000, np.int64), layout, normals))["norm"]
    assert abs(added.std() / alone.deviations(layout)["norm"] - 1.0) < 0.02
    assert abs(added.mean()) < 0.05 * added.std()


def test_numbers_from_a_key_stream_are_normal():
    made = np.sort(normals_of(expand(b"k" * 32, 100_000)))
    wanted = np.array([NormalDist().cdf(x) for x in made[::50]])
    assert np.abs(wanted - np.arange(0, 50_000, 50) / 50_000).max() < 0.01  # Kolmogorov and Smirnov


def test_epsilon_is_that_of_the_gaussian_mechanism():
    cdf = NormalDist().cdf
    for multiplier, messages in ((0.7, 1), (2.0, 1), (2.0, 3), (8.0, 4)):
        e, s = epsilon(multiplier, messages, 1e-6), multiplier / math.sqrt(messages)
        delta = cdf(0.5 / s - e * s) - math.exp(e) * cdf(-0.5 / s - e * s)  # Balle and Wang 2018, theorem 8
        assert delta == pytest.approx(1e-6, rel=0.05)


def test_the_coordinator_reckons_with_noise():
    settings = CoordinatorSettings(LEARNER, min_clients=1, secure_aggregation="pooled", noise=NOISE)
    deviations = NOISE.deviations(SummedRounds(settings).layout(OPENED, REGISTRY))
    made = with_noise(_update_with(np.diag([-50.0, 3.0, 9000.0])), deviations, clients=4)
    least = 2.0 * math.sqrt(12.0) * deviations["second"]
    assert np.linalg.eigvalsh(made.numbers.second_moments) == pytest.approx([least, least, 9000.0])
    assert made.numbers.losses["step 0"].square == pytest.approx(1.0 + 4.0 * deviations["losses"] ** 2)


def _update_with(C: np.ndarray) -> Update:
    losses = {"step 0": SlotLosses(loss=1.0, square=1.0, proper=1.0)}
    return altered(answer(OPENED, "c0"), losses=losses, second_moments=C)


@pytest.mark.parametrize(
    ("privacy", "learning", "profile", "scaling", "reason"),
    [
        ({"secure_aggregation": "off"}, {}, {"detector": "glr"}, False, "set secure_aggregation to masked"),
        ({}, {}, {"detector": "glr"}, True, "moments of features without limit"),
        ({}, {}, {"detector": "excess"}, False, "held-out records"),
        ({}, {}, {"detector": "conformal"}, False, "needs scores by label, which noise leaves out"),
        ({}, {}, {"profile": "paper"}, False, "use adaptive"),
        ({}, {"l2": 0.1}, {"detector": "glr"}, False, "such a step without limit"),
        ({}, {"local_batch": 4}, {"detector": "glr"}, False, "such a step without limit"),
    ],
)
def test_noise_that_would_hide_nothing_is_refused(privacy, learning, profile, scaling, reason):
    chosen = PrivacySettings.model_validate({"secure_aggregation": "masked", "noise": 1.0} | privacy)
    with pytest.raises(UsageError, match=reason):
        chosen.check_noise(
            LearningSettings.model_validate({"features": "rounds"} | learning),
            ProfileSettings.model_validate(profile),
            scaling=scaling,
        )


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        ({"detector": "excess"}, "one client, because the detector excess uses held-out records again; use glr"),
        (
            {"profile": "paper"},
            "one client, because the profile paper uses old records again; set optimistic to regret",
        ),
        ({"profile": "paper", "optimistic": "regret"}, None),
        ({"profile": "experts"}, None),
        ({"detector": "e-detector"}, None),
        ({"detector": "conformal"}, None),
        ({}, None),
    ],
)
def test_under_masks_no_record_of_an_earlier_round_is_scored_again(profile, reason):
    privacy = PrivacySettings(secure_aggregation="masked")
    beside = ProfileSettings.model_validate(profile).resolved_with(privacy)
    with nullcontext() if reason is None else pytest.raises(UsageError, match=reason):
        privacy.check(LearningSettings(features="rounds"), beside, "classification", "mean")


@pytest.mark.parametrize("algorithm", ["fedprox", "fednova"])
def test_sums_hide_the_steps_that_fednova_counts(algorithm):
    learning = LearningSettings(algorithm=algorithm, local_batch=4)
    refused = pytest.raises(UsageError, match="sums hide the number of steps of each client")
    with refused if algorithm == "fednova" else nullcontext():
        PrivacySettings(secure_aggregation="pooled").check(learning, ProfileSettings(), "classification", "mean")


def test_noise_hides_the_scores_of_candidates_too():
    asked = Score(entry=1, round=1, epoch=1, registry=1, slots=SLOTS, relabel=("step 0",))
    layout = Layout.of_scores(asked, REGISTRY, LEARNER.model.columns)
    assert set(NOISE.deviations(layout)) == {"losses", *(f"step {slot.name}" for slot in SLOTS), "labels step 0"}
