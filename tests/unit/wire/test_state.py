"""The coordinator's checkpoint through its bytes and back."""

import pytest
from unit.machines.script import PROFILES, federation, parting

from streamfl.errors import PeerError
from streamfl.learning.drift.detectors.excess import Excess
from streamfl.learning.drift.detectors.glr import GLRDetector
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.learning.profiles.paper.profile import Paper
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.alarm import Reading
from streamfl.wire import codec

KINDS = {"adaptive": Promotion, "paper": Paper}


def states(profile: str) -> list[CoordinatorState]:
    """Return what was saved with every commit of a run with a restart, bad records and a growing ledger."""
    saved: list[bytes] = []

    def note(machine: Coordinator) -> Coordinator:
        saved.append(codec.encode(machine.state))
        return machine

    (parting(restart=note) if profile == "apart" else federation(profile, restart=note)).run()
    return [codec.decode(CoordinatorState, data) for data in saved]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_coordinator_state_survives_encoding_to_the_last_bit(profile):
    found = states(profile)
    assert len(found) > 16
    for state in found:
        assert type(state.profile) is KINDS[profile]
        again = codec.decode(CoordinatorState, codec.encode(state))
        assert codec.encode(again) == codec.encode(state)
    last = found[-1]
    assert last.profile.epoch == 2
    assert {name: member.rejected for name, member in last.members.items()} == dict.fromkeys(("c0", "c1", "c2"), 10)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_new_coordinator_state_survives_encoding(profile):
    new = PROFILES[profile]()
    again = codec.decode(CoordinatorState, codec.encode(new))
    assert type(again.profile) is KINDS[profile]
    assert (again.entry, again.round, again.members) == (1, 1, {})
    assert codec.encode(again) == codec.encode(new)


def test_members_keep_their_history_samples():
    samples = [member.sample for found in states("paper") for member in found.members.values()]
    assert all(sample.positions and sample.share > 0.0 for kept in samples for sample in kept)
    assert max(map(len, samples)) > 1


@pytest.mark.parametrize("profile", PROFILES)
def test_coordinator_state_bytes_that_are_cut_short_are_refused(profile):
    data = codec.encode(states(profile)[-1])
    for end in (0, 1, 8, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(PeerError):
            codec.decode(CoordinatorState, data[:end])


def test_all_that_a_profile_keeps_comes_back_in_the_middle_of_a_latch_and_with_a_branch():
    found = [(state, state.profile) for state in states("apart")]
    latched = [profile for _, profile in found if profile.latch is not None]
    branched = [(state, profile) for state, profile in found if profile.branches]
    assert len(latched) == 2
    assert sorted({state.round for state, _ in branched}) == list(range(12, 28))
    assert {len(trial.gains) for profile in latched for trial in profile.latch.trials.values()} == {0, 1}
    assert set(latched[0].latch.trials) >= {"incumbent", "shadow", "scratch", "relabelled"}
    state, profile = branched[-1]
    assert [branch.clients for branch in profile.branches] == [("c1",)]
    assert [rung.velocity is None for rung in profile.branches[0].ladder.rungs] == [True, True, True, False]
    assert isinstance(profile.detector, Excess)
    assert {name.split()[0] for name in profile.detector.logs if name} == {"label"}
    assert {client for rises in profile.detector.few.rounds for client in rises} > {"c0", "c2"}
    assert len(profile.trail.kept) > 3
    assert state.agreement is not None
    assert state.agreement.second is not None
    assert {len(member.held) > 10 for member in state.members.values()} == {True}
    for state, _ in found:
        assert codec.encode(codec.decode(CoordinatorState, codec.encode(state))) == codec.encode(state)


@pytest.mark.parametrize(
    "detector", [Excess(), GLRDetector(), GLRDetector(losses=[0.5, 0.25], reading=Reading(1.0, 2.0))]
)
def test_the_detector_comes_back_as_the_one_it_was(detector):
    again = codec.decode(CoordinatorState, codec.encode(CoordinatorState(Promotion(detector=detector))))
    assert isinstance(again.profile, Promotion)
    assert again.profile.detector == detector


def test_a_pool_of_former_models_comes_back():
    (*_, last) = states("adaptive")
    assert isinstance(last.profile, Promotion)
    assert list(last.profile.pool.entries) == ["recall-1"]
    assert (last.profile.pool.current, last.profile.held_since) == (None, 12)
