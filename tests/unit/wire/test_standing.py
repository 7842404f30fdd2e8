"""The coordinator's checkpoint through its bytes and back."""

import pytest
from unit.machines.script import PROFILES, federation

from streamfl import codec
from streamfl.core.coordinator import Coordinator, Standing
from streamfl.core.errors import PeerError
from streamfl.core.paper import Paper
from streamfl.core.promotion import Promotion

KINDS = {"adaptive": Promotion, "paper": Paper}


def standings(profile: str) -> list[Standing]:
    """Return what was saved with every commit of a run with a restart, bad records and a growing ledger."""
    saved: list[bytes] = []

    def note(machine: Coordinator) -> Coordinator:
        saved.append(codec.encode(machine.standing))
        return machine

    federation(profile, restart=note).run()
    return [codec.decode(Standing, data) for data in saved]


@pytest.mark.parametrize("profile", PROFILES)
def test_it_comes_back_to_the_last_bit(profile):
    found = standings(profile)
    assert len(found) > 16
    for standing in found:
        assert type(standing.master) is KINDS[profile]
        again = codec.decode(Standing, codec.encode(standing))
        assert codec.encode(again) == codec.encode(standing)
    last = found[-1]
    assert last.master.epoch == 2
    assert {name: member.rejected for name, member in last.members.items()} == dict.fromkeys(("c0", "c1", "c2"), 10)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_new_one_comes_back_too(profile):
    new = PROFILES[profile]()
    again = codec.decode(Standing, codec.encode(new))
    assert type(again.master) is KINDS[profile]
    assert (again.entry, again.round, again.members) == (1, 1, {})
    assert codec.encode(again) == codec.encode(new)


def test_members_keep_their_history_samples():
    samples = [member.sample for found in standings("paper") for member in found.members.values()]
    assert all(sample.positions and sample.share > 0.0 for kept in samples for sample in kept)
    assert max(map(len, samples)) > 1


@pytest.mark.parametrize("profile", PROFILES)
def test_bytes_cut_short_are_refused(profile):
    data = codec.encode(standings(profile)[-1])
    for end in (0, 1, 8, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(PeerError):
            codec.decode(Standing, data[:end])
