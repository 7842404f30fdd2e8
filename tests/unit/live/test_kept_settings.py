"""Which settings may change between two starts of a coordinator."""

import pytest

from streamfl.live.coordinator import wrong_state
from streamfl.live.settings import kept_settings
from streamfl.live.settings.kept_settings import changes, is_fixed, to_keep, wrong
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.settings.tables import FederationTable, Records, RoundSettings
from streamfl.run.settings import LearningSettings, ProfileSettings


def settings(**tables):
    return FederationSettings(records=Records(topics=("r.*",)), **tables)


def test_every_setting_of_the_federation_is_kept_by_its_name_and_nothing_of_one_process():
    names = to_keep(settings())
    assert {"federation.task", "rounds.size", "records.topics", "labels.key", "learning.model", "profile.step"} < set(
        names
    )
    assert {name.partition(".")[0] for name in names} == set(kept_settings.KEPT)
    assert all(is_fixed(name) in (True, False) for name in names)
    assert {name for name in kept_settings.FIXED if "." in name} <= names.keys()
    assert names.keys() >= kept_settings.FREE


@pytest.mark.parametrize(
    ("other", "name"),
    [
        ({"learning": LearningSettings(features="rounds")}, "learning.features"),
        ({"profile": ProfileSettings(profile="paper")}, "profile.profile"),
        ({"federation": FederationTable(task="regression")}, "federation.task"),
        ({"federation": FederationTable(seed=3)}, "federation.seed"),
        ({"rounds": RoundSettings(clock="records")}, "rounds.clock"),
    ],
)
def test_settings_that_a_state_is_made_of_may_not_change(other, name):
    before = settings().first_state()
    before.settings = to_keep(settings())
    reason = wrong_state(settings(**other))(before)
    assert reason is not None
    assert reason.startswith(f"{name} was ")
    assert wrong_state(settings())(before) is None


@pytest.mark.parametrize(
    "other",
    [
        {"federation": FederationTable(min_clients=7, most_clients=3)},
        {"rounds": RoundSettings(deadline=1.0, quorum=2, size=300)},
        {"learning": LearningSettings(bytes=2000.0, last_answer=False)},
    ],
)
def test_settings_that_changed_and_may_are_reported(other):
    before = to_keep(settings())
    now = to_keep(settings(**other))
    assert wrong(before, now) is None
    (table,) = other
    differing = {f"{table}.{name}" for name in other[table].model_fields_set}
    assert changes(before, now).keys() == differing


def test_a_state_of_before_settings_were_kept_is_taken():
    assert wrong({}, to_keep(settings())) is None
    assert changes({}, to_keep(settings())) == {}
    assert wrong({"learning.unheard": "1", "learning.features": "x" * 10_000}, to_keep(settings())).endswith("name")
    assert len(wrong({"learning.features": "x" * 10_000}, to_keep(settings()))) < 1000
