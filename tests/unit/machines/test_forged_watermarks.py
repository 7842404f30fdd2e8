"""Watermarks, and places of features, that no honest client sends: each is refused, and never ends the
coordinator."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
from simulation.late_labels import Disorder, late

from streamfl.bounds import MOST_POSITIONS
from streamfl.machines.coordinator.gate import admission
from streamfl.machines.coordinator.gate.checks import Claim, refusal
from streamfl.protocol.messages import Joined, SampledRound, Update, Watermark
from streamfl.wire import messages, state_bytes
from streamfl_benchmarks.liars.fields import altered, field_of


@dataclass(frozen=True)
class Seen:
    """An honest update as the coordinator checked it."""

    claim: Claim

    def refused(self, **forged: Any) -> str | None:
        """Return why the update is refused with other fields."""
        found = refusal(replace(self.claim, update=altered(self.claim.update, **forged)))
        assert found is None or found.is_fault
        return None if found is None else found.reason


@cache
def seen(profile: str) -> tuple[Seen, ...]:
    """Return the honest updates of one run."""
    found: list[Seen] = []

    def spy(claim: Claim) -> Any:
        member = claim.member
        kept = replace(member.copy(), places=member.places)
        found.append(Seen(replace(claim, member=kept, already=tuple(claim.already))))
        return refusal(claim)

    simulation = late(Disorder((7,), missing=0.05), window=30, profile=profile)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admission, "refusal", spy)
        simulation.run()
    return tuple(found)


def later(profile: str = "adaptive", part: str = "watermark") -> Seen:
    """Return the last update with a part."""
    return next(
        one for one in reversed(seen(profile)) if field_of(one.claim.update, part) and one.claim.update.records
    )


def test_honest_watermarks_are_accepted():
    assert {one.refused() for profile in ("adaptive", "paper") for one in seen(profile)} == {None}
    assert later("adaptive", "held") and later("paper", "sample")


def forged_watermarks(
    watermark: Watermark, before: Watermark, end: int, rejected: int
) -> Iterator[tuple[str, Watermark | None]]:
    """Yield watermarks of which one field lies."""
    yield "none", None
    yield "another partition", replace(watermark, partition="else")
    yield "no partition", replace(watermark, partition="")
    yield "a partition of a long name", replace(watermark, partition="x" * 1000)
    yield "the partition of the labels", replace(watermark, partition=watermark.partition.removesuffix("/features"))
    for features in (before.features - 1, -1, MOST_POSITIONS, 2**70):
        yield f"features {features}", replace(watermark, features=features)
    for labels in (before.labels - 1, -1, end + 1, 2**63, 2**70):
        yield f"labels {labels}", replace(watermark, labels=labels)
    for expired in (-1, watermark.features + 1, 2**63, 2**70):
        yield f"expired {expired}", replace(watermark, expired=expired)
    for wrong in (-1, rejected + 1, 2**63, 2**70):
        yield f"unmatched {wrong}", replace(watermark, unmatched=wrong)
        yield f"repeated {wrong}", replace(watermark, repeated=wrong)
        yield f"unusable {wrong}", replace(watermark, unusable=wrong)


def test_a_mark_of_which_any_field_lies_is_refused():
    one = later()
    watermark, before = one.claim.update.watermark, one.claim.member.watermark
    assert watermark is not None and before is not None
    for what, forged in forged_watermarks(
        watermark, before, one.claim.update.spans[0].end, one.claim.update.rejected
    ):
        assert one.refused(watermark=forged) is not None, what


def test_a_client_with_whole_records_has_no_mark_but_bad_labels_may_come_before_the_first_features():
    one = seen("adaptive")[0]
    member = one.claim.member
    assert one.claim.member.watermark is None and one.refused() is None
    of_whole = replace(member, positions={one.claim.update.spans[0].partition: 0}, accepted=3)
    assert Seen(replace(one.claim, member=of_whole)).refused() == (
        "the update has a watermark, but the client's labels have come with their records"
    )
    after_bad = replace(of_whole, accepted=0, rejected=3)
    assert Seen(replace(one.claim, member=after_bad)).refused() is None


@pytest.mark.parametrize("place", [None, -1, "end", 2**63, 2**70])
def test_a_record_held_out_or_sampled_whose_features_are_nowhere_is_refused(place):
    one = later("adaptive", "held")
    assert one.claim.update.watermark is not None
    position = one.claim.update.watermark.features if place == "end" else place
    held = (replace(one.claim.update.kept.held[0], beside=position), *one.claim.update.kept.held[1:])
    assert one.refused(held=held) == "a held-out record does not say where its features are"

    one = later("paper", "sample")
    sample: SampledRound | None = one.claim.update.kept.sample
    assert sample is not None and one.claim.update.watermark is not None
    ((partition, places),) = sample.beside.items()
    position = one.claim.update.watermark.features if place == "end" else place
    others = places[:-1] if place is None else (position, *places[1:])
    for beside in ({partition: others}, {}, {"else": places}, {partition: places, "else": ()}):
        reason = one.refused(sample=replace(sample, beside=beside))
        assert reason == "the sample does not say where the features of its records are"


def test_without_a_mark_no_record_may_name_features():
    one = later("adaptive", "held")
    whole = replace(one.claim.member, watermark=None)
    there = Seen(replace(one.claim, update=replace(one.claim.update, watermark=None), member=whole))
    assert there.refused() == "a held-out record does not say where its features are"
    assert there.refused(held=tuple(replace(held, beside=None) for held in one.claim.update.kept.held)) is None


# --- on the wire ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["adaptive", "paper"])
def test_updates_with_marks_are_read_as_they_were_written_also_in_the_compact_form(profile):
    for one in (seen(profile)[0], later(profile, {"adaptive": "held", "paper": "sample"}[profile])):
        for update in (one.claim.update, replace(one.claim.update, watermark=None)):
            read = messages.decode(messages.encode(update))
            assert isinstance(read, Update)
            assert (read.watermark, read.kept.held, read.kept.sample) == (
                update.watermark,
                update.kept.held,
                update.kept.sample,
            )


@pytest.mark.parametrize("name", ["watermark", "beside"])
def test_a_partition_may_have_the_name_of_a_field_that_is_left_out_where_it_is_empty(name):
    joined = Joined(client="c0", nonce="7f", incarnation=1, entry=2, positions={name: 0}, read=0)
    read = messages.decode(messages.encode(joined))
    assert isinstance(read, Joined)
    assert (read.positions, read.watermark) == ({name: 0}, None)


def test_a_saved_state_keeps_marks_and_where_features_are():
    simulation = late(Disorder((7,)), window=30)
    state = simulation.run().state
    read = state_bytes.decode(state_bytes.encode(state))
    for name, member in state.members.items():
        assert member.watermark is not None and member.watermark.features > 200
        assert any(record.beside is not None for record in member.held)
        assert (read.members[name].watermark, read.members[name].held) == (member.watermark, member.held)
