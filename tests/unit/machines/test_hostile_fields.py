"""Any one field of any message of a client, replaced by what a broken or hostile client may put there."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from river import naive_bayes
from suites.parameters import full
from unit.machines.script import LEARNER, PROFILES, Federation, broadcast, feed, join, swapping, uncounted

from streamfl.errors import PeerError
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.coordinator.close import rounds
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.decisions import Commit, Refused
from streamfl.protocol.messages import (
    FromClient,
    Leave,
    ModelPublished,
    ModelsChanged,
    OnlinePublished,
    RoundClosed,
    RoundOpened,
    Score,
    Scores,
    Update,
)
from streamfl.run.settings import LearningSettings
from streamfl.wire import codec, messages

NAMES = ("c0", "c1", "c2")
HOSTILE = "c1"

NUMBERS = [math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-320, 0, -1, 0.5, 2**53, 2**63 - 1, 2**63, 2**70, 10**400]
OTHERS = [None, True, "x", "9" * 500, [], [0], {}]
# Of their entries too the first and the last stand for all.
MAPPINGS = ("losses", "differences", "relabelling", "tables", "shares")
WORDS = ["", "x", "x" * 1000, "é" * 200, "\x00", "\ud800", "#1", "#true", "#[", "c0", 7, None, ["x"]]


# --- what may be replaced by what ------------------------------------------------------------------------------


def spoilt(plain: Any, arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, Any, dict[str, np.ndarray]]]:
    """Give the same data with one thing in it replaced, each with the place and what it was replaced by."""
    for place in places(plain):
        value = at(plain, place)
        if isinstance(value, dict) and codec.REFERENCE in value:
            name = value[codec.REFERENCE]
            for i, other in enumerate(arrays_instead_of(arrays[name])):
                yield f"{place} array {i}", plain, arrays | {name: other}
            continue
        for other in instead_of(value):
            yield f"{place} {str(other)[:40]}", replaced(plain, place, other), arrays


def places(plain: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    if isinstance(plain, dict) and codec.REFERENCE not in plain:
        alike = [*plain][:: max(1, len(plain) - 1)] if place and place[-1] in MAPPINGS else plain
        for key in alike:
            yield from places(plain[key], (*place, key))
    elif isinstance(plain, list):
        for i in {0, len(plain) - 1} if plain else ():  # the first and the last stand for all
            yield from places(plain[i], (*place, i))


def at(plain: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        plain = plain[key]
    return plain


def replaced(plain: Any, place: tuple[Any, ...], other: Any) -> Any:
    changed = copy.deepcopy(plain)
    at(changed, place[:-1])[place[-1]] = other
    return changed


def instead_of(value: Any) -> list[Any]:
    match value:
        case str():
            return [other for other in WORDS if other != value]
        case bool() | int() | float():
            more = [value + 1, value - 1, 2 * value + 1]
            return [other for other in (*NUMBERS, *more, *OTHERS) if other != value or other is True]
        case list():
            return [[], value + value, value[1:], value[:-1], [*value, None], value[::-1], None, {}, "x"]
        case dict():
            first = next(iter(value), None)
            renamed = {("x" if key == first else key): item for key, item in value.items()}
            fewer = {key: item for key, item in value.items() if key != first}
            return [{}, fewer, renamed, {**value, "x": value.get(first)}, None, [], 0]
    return [0, "x", [], {}, [0], math.nan]


def arrays_instead_of(array: np.ndarray) -> Iterator[np.ndarray]:
    yield from (np.zeros(0), np.zeros((0, 0)), np.array(1.0), array[None], np.zeros_like(array), -array, array * 1e9)
    yield np.concatenate([array, array]) if array.ndim else np.zeros(2)
    yield np.ascontiguousarray(array.T) + 1.0
    for place in {0, array.size - 1} if array.size else ():
        for value in (math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-320, 2.0**70, -1.0, 0.5, 1e101):
            other = array.astype(np.float64).copy()
            other.flat[place] = value
            yield other


# --- federations whose messages are real ------------------------------------------------------------------------


@dataclass
class Listening(Federation):
    """Notes where the coordinator stood at the last Commit, and what has come since."""

    saved: bytes = b""
    since: list[FromClient] = field(default_factory=list)
    moments: list[tuple[bytes, tuple[FromClient, ...]]] = field(default_factory=list)

    def _coordinator(self, event: FromClient) -> None:
        self.since.append(event)
        super()._coordinator(event)

    def _restarted(self) -> None:
        self.moments.append((self.saved, tuple(self.since)))
        self.saved, self.since = codec.encode(self.coordinator.state), []


def federation(kind: str) -> Listening:
    learner, profile, task, size = LEARNER, PROFILES["adaptive"](), "classification", 20
    if kind == "paper":
        profile = PROFILES["paper"]()
    elif kind == "online":
        learner = LearningSettings(features="linear", neighbours=False).learner("classification", 0)
    elif kind == "external":
        learner = LearningSettings(model=naive_bayes.GaussianNB()).learner("classification", 0)
    elif kind == "regression":
        learner, task = LearningSettings(features="rounds").learner("regression", 0), "regression"
    records = {name: swapping(name, 12, size=size, at=8) for name in NAMES}
    if kind == "regression":
        records = {name: replace(b, y=b.X[:, 0] + 7.0 * b.y, labels=()) for name, b in records.items()}
    settings = CoordinatorSettings(learner=learner, min_clients=3, task=task, partitions=("*",))
    return Listening(Coordinator(settings, profile), records, ClientSettings(learner=learner, round_size=size))


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest) -> Listening:
    return federation(request.param).run()  # type: ignore[return-value]


def moment(run: Listening, entry: int) -> tuple[bytes, dict[str, Update]]:
    """Return the state in which an entry was open, and its updates."""
    for saved, since in run.moments:
        updates = {m.client: m for m in since if isinstance(m, Update) and m.entry == entry}
        if len(updates) == len(NAMES):
            return saved, updates
    raise AssertionError(f"no entry {entry}")


def begun(run: Listening, saved: bytes) -> Coordinator:
    machine = Coordinator(run.coordinator.settings, codec.decode(CoordinatorState, saved))
    machine.start(0.0)
    return machine


def variants(message: FromClient) -> Iterator[tuple[str, FromClient]]:
    """Give the messages that a coordinator's link would hand over of all that is wrong in one place."""
    plain, arrays = codec.split(message)
    for what, other, others in spoilt({"type": messages.TYPES[type(message)], **plain}, arrays):
        try:
            decoded = messages.decode(codec.pack(other, others))
        except (PeerError, UnicodeEncodeError):
            continue  # it is no message: the link says so
        if isinstance(decoded, FromClient):
            yield what, decoded


def harmless(decisions: list[Any]) -> list[str]:
    """Return the values of a round that are not finite: none."""
    told_ = [m for d in decisions if isinstance(d, Commit) for m in d.messages]
    wrong = [f"{m.slot}" for m in told_ if isinstance(m, ModelPublished) and not np.isfinite(m.weights).all()]
    wrong += [m.slots[0] for m in told_ if isinstance(m, ModelsChanged) and not np.isfinite(m.numbers).all()]
    for message in told_:
        if isinstance(message, OnlinePublished):
            _, arrays = codec.split(message)
            # Names of features that nothing is known of yet, and cells that nobody has visited, are NaN or infinite.
            wrong += [name for name, array in arrays.items() if not np.isfinite(array).all()]
        if isinstance(message, RoundClosed):
            text = messages.encode(message)
            wrong += [str(text)] if b"NaN" in text or b"Infinity" in text else []
    return wrong


ENTRIES = [("adaptive", 1), full("adaptive", 6), ("paper", 6), full("external", 6), full("regression", 6)]
COMPILED = pytest.param("online", 6, marks=[pytest.mark.compiles, pytest.mark.full])


@pytest.mark.parametrize(("run", "entry"), [*ENTRIES, COMPILED], indirect=["run"])
def test_an_update_with_any_one_field_spoilt_harms_only_its_sender(run, entry):
    saved, updates = moment(run, entry)
    reference = begun(run, saved)
    (closed,) = broadcast(feed(reference, *updates.values()), RoundClosed)
    assert harmless(feed(begun(run, saved), *updates.values())) == []
    refused = 0
    for what, message in variants(updates[HOSTILE]):
        machine = begun(run, saved)
        before = uncounted(machine)
        decisions = feed(machine, message)
        if any(isinstance(decision, Refused) for decision in decisions):
            refused += 1
            assert uncounted(machine) == before, what
            assert not machine._unsaved.updates, what
        rest = [updates[name] for name in (HOSTILE, "c0", "c2")]
        decisions = feed(machine, *rest)
        while machine.is_scoring:  # it may lie about losses, and so raise an alarm
            decisions = rounds.settle(machine._standing, 0.0)
        (ended,) = broadcast(decisions, RoundClosed)
        assert harmless(decisions) == [], what
        honest = {a.client: a for a in ended.accepted if a.client != HOSTILE}
        assert honest == {a.client: a for a in closed.accepted if a.client != HOSTILE}, what
        assert math.isfinite(machine.state.agreed.squared_norm), what
        for name in ("c0", "c2"):
            assert account(machine, name) == account(reference, name), what
    assert refused > 300


def account(machine: Coordinator, name: str) -> tuple[object, ...]:
    member = machine.state.members[name]
    return member.positions, member.accepted, member.rejected, member.refused, member.left


@pytest.mark.parametrize("run", ["adaptive", full("regression")], indirect=True)
def test_scores_with_any_one_field_spoilt_do_no_harm(run):
    saved, since = next((s, m) for s, m in run.moments if any(isinstance(one, Scores) for one in m))
    updates = [m for m in since if isinstance(m, Update)]
    answers = [replace(m, resumed=1) for m in since if isinstance(m, Scores)]  # each coordinator has started again
    said = {m.client: m for m in answers if m.stage == 1}
    assert said.keys() == set(NAMES)
    refused = 0
    for what, message in variants(said[HOSTILE]):
        machine = begun(run, saved)
        assert broadcast(feed(machine, *updates), Score), what
        before = uncounted(machine)
        decisions = feed(machine, message)
        if any(isinstance(decision, Refused) for decision in decisions):
            refused += 1
            assert (uncounted(machine), machine._unsaved.scores) == (before, {}), what
        decisions = feed(machine, said[HOSTILE], said["c0"], said["c2"])
        while machine.is_scoring:
            asked = broadcast(decisions, Score)[-1]
            decisions = feed(machine, *(m for m in answers if m.stage == asked.stage))
            if machine.is_scoring and not broadcast(decisions, Score):
                decisions = rounds.settle(machine._standing, 0.0)
        assert harmless(decisions) == [], what
    assert refused > 200


@pytest.mark.parametrize("run", ["adaptive"], indirect=True)
def test_a_join_with_any_one_field_spoilt_does_no_harm(run):
    introduction = join(HOSTILE)
    others = [join("c0"), join("c2")]
    refused = 0
    for what, message in variants(introduction):
        machine = Coordinator(run.coordinator.settings, PROFILES["adaptive"]())
        decisions = feed(machine, message)
        refused += bool(decisions)
        decisions = feed(machine, introduction, *others)
        opened = broadcast(decisions, RoundOpened)[0]
        assert harmless(decisions) == [], what
        assert {"c0", "c2"} <= machine.state.members.keys(), what
        assert math.isfinite(machine.state.agreed.squared_norm), what
        assert np.isfinite(machine.state.registry.scale).all(), what
        assert opened.round == 1
    assert refused > 50


@pytest.mark.parametrize("run", ["adaptive"], indirect=True)
def test_a_leave_with_any_one_field_spoilt_does_no_harm(run):
    saved, _ = moment(run, 6)
    for what, message in variants(Leave(client=HOSTILE, nonce="i1")):
        machine = begun(run, saved)
        feed(machine, message)
        assert {"c2"} <= machine.state.active(), what
        assert len(codec.encode(machine.state)) < len(saved) + 300, what
