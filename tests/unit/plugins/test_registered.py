"""What is registered by name: by other packages, and by packages that are at fault."""

import json
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints, PathDistribution
from pathlib import Path
from typing import Any

import pytest
from unit.learning.test_algorithms import Signs

from streamfl.errors import PeerError, UsageError
from streamfl.learning.algorithms.fedavg import FedAvg
from streamfl.learning.algorithms.mirror_maps import MIRROR_MAPS
from streamfl.learning.profiles.adaptive.candidates import CANDIDATES
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.aggregators import AGGREGATORS
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.online.external.online_models import ExternalOnlineModels
from streamfl.plugins.algorithms import ALGORITHMS
from streamfl.plugins.detectors import DETECTORS
from streamfl.plugins.models import MODELS
from streamfl.plugins.profiles import PROFILES
from streamfl.protocol import registered
from streamfl.records.files.known import FILE_FORMATS
from streamfl.records.formats import RECORD_FORMATS
from streamfl.run.settings import LearningSettings
from streamfl.wire import codec

SIGNS = "unit.learning.test_algorithms:Signs"

NAMED: dict[str, tuple[str, Callable[[str], Any]]] = {
    of.what: (of.group, of.find)
    for of in (
        ALGORITHMS,
        PROFILES,
        DETECTORS,
        MODELS,
        FILE_FORMATS,
        RECORD_FORMATS,
        AGGREGATORS,
        CANDIDATES,
        MIRROR_MAPS,
    )
}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Install packages that register one name each."""
    found: list[EntryPoint] = []

    def add(package: str, name: str, value: str, group: str) -> None:
        about = tmp_path / f"{package}-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
        found.extend(PathDistribution(about).entry_points)

    monkeypatch.setattr(registered, "entry_points", lambda **chosen: EntryPoints(found).select(**chosen))
    return add


def test_an_algorithm_of_another_package_is_found_and_listed(install):
    install("signs", "their-signs", SIGNS, ALGORITHMS.group)
    assert list(ALGORITHMS) == [*ALGORITHMS.own, "their-signs"]
    assert ALGORITHMS.find("their-signs") is Signs
    assert isinstance(LearningSettings(algorithm="their-signs").learner("classification", 0).algorithm, Signs)


def test_an_algorithm_of_another_package_is_refused_options_that_it_does_not_use(install):
    install("signs", "their-signs", SIGNS, ALGORITHMS.group)
    with pytest.raises(
        UsageError, match="l1: only for fedomd, but the algorithm is their-signs; use fedomd, or leave l1 out"
    ):
        LearningSettings(algorithm="their-signs", l1=0.1)


def test_a_model_of_another_package_is_federated_by_its_weights(install):
    install("nets", "net", "unit.models.test_by_weights:Softmax", MODELS.group)
    settings = LearningSettings(model="net")
    assert settings.external_model("classification").name == "Softmax"
    assert (settings.loss("classification"), settings.loss("regression")) == ("softmax", "squared")
    assert isinstance(settings.learner("classification", 0).online, ExternalOnlineModels)


def test_a_class_with_neither_a_loss_nor_weights_is_refused_with_the_methods_it_needs(install):
    install("nets", "net", "json:JSONEncoder", MODELS.group)
    methods = "weights, set_weights, learn, predict"
    with pytest.raises(
        UsageError, match=f"derived from streamfl.learning.model.Model, or one with the methods {methods}"
    ):
        LearningSettings(model="net")
    with pytest.raises(UsageError, match="model JSONEncoder has no weights and no set_weights and no learn"):
        LearningSettings(model=json.JSONEncoder)


def test_no_package_can_take_a_name_of_ours(install):
    install("signs", "fedavg", SIGNS, ALGORITHMS.group)
    assert ALGORITHMS.find("fedavg") is FedAvg
    assert list(ALGORITHMS) == list(ALGORITHMS.own)


@pytest.mark.parametrize("what", NAMED)
def test_a_name_that_there_is_not_is_refused_with_those_there_are(what, install):
    group, named = NAMED[what]
    install("a-package", "bar", "no.such.module:Bar", group)  # it is named without being imported
    with pytest.raises(UsageError, match=f"no {what} is called 'baz': use one of .*, bar.*; did you mean bar\\?"):
        named("baz")


@pytest.mark.parametrize("what", NAMED)
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no.such.module:Bar", "cannot be imported: ModuleNotFoundError"),
        ("json:Bar", "cannot be imported: AttributeError"),
        ("json:__doc__", "it must be a"),
    ],
)
def test_a_package_that_is_at_fault_is_named(what, value, why, install):
    group, named = NAMED[what]
    install("a-package", "bar", value, group)
    with pytest.raises(UsageError) as raised:
        named("bar")
    assert f"package a-package, which registers {what} 'bar' as {value}" in str(raised.value)
    assert why in str(raised.value)


@pytest.mark.parametrize("value", ["json:dumps", "json:JSONEncoder"])
@pytest.mark.parametrize("of", [ALGORITHMS, FILE_FORMATS], ids=lambda of: of.what)
def test_what_should_derive_from_a_class_and_does_not_is_refused_with_that_class(of, value, install):
    install("a-package", "bar", value, of.group)
    with pytest.raises(UsageError, match=f"it must be a class derived from {of.root.__module__}"):
        of.find("bar")


def test_an_aggregation_of_another_package_is_a_function(install):
    install("a-package", "largest", "numpy:maximum", AGGREGATORS.group)
    assert AGGREGATORS.find("largest")(1, 2) == 2


def test_a_name_that_two_packages_register_is_refused_with_both(install):
    install("one", "their-signs", SIGNS, ALGORITHMS.group)
    install("two", "their-signs", SIGNS, ALGORITHMS.group)
    with pytest.raises(UsageError, match="algorithm 'their-signs' is registered by one and two: remove one of these"):
        ALGORITHMS.find("their-signs")


# --- saved states ----------------------------------------------------------------------------------------------


def saved(profile: str) -> bytes:
    """Return a state as a coordinator with a profile of this name would have saved it."""
    data = codec.encode(CoordinatorState(Promotion()))
    named = rb"\"profile\":\"%s\""
    assert data.count(named % b"adaptive") == 1
    return data.replace(named % b"adaptive", named % profile.encode())


def test_a_state_of_a_profile_that_there_is_not_is_refused_with_those_there_are():
    assert isinstance(codec.decode(CoordinatorState, saved("adaptive")).profile, Promotion)
    with pytest.raises(PeerError, match=r"'magician'.* does not match any of the expected tags: .*'adaptive'"):
        codec.decode(CoordinatorState, saved("magician"))


def test_what_derives_from_a_profile_is_saved_and_read_as_that_profile():
    class Quiet(Promotion):
        """A profile of some test: of the same kind as its base."""

    assert type(codec.decode(CoordinatorState, codec.encode(CoordinatorState(Quiet()))).profile) is Promotion
