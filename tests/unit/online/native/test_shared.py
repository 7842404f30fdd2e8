"""Clients of one process share what is the same: they learn what they would learn alone, in far less memory."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from native_streams import drawn, state

from streamfl.bounds import NAMED
from streamfl.online.native.at_client import NativeAtClient
from streamfl.online.native.online_models import NativeOnlineModels
from streamfl.protocol.messages import OnlinePublished
from streamfl.protocol.native.settings import NativeSettings
from streamfl.protocol.records import Batch, Span
from streamfl.records.files.covtype import covtype

pytestmark = pytest.mark.compiles

SIZE = 5


class Clients:
    """Clients that learn rounds of five records, and an agreement on what they have learnt."""

    def __init__(self, settings: NativeSettings, count: int, *, shared: bool) -> None:
        self.online = NativeOnlineModels(settings)
        host = self.online.in_one_process() if shared else self.online
        self.clients: list[NativeAtClient] = [host.at_client() for _ in range(count)]
        self.stream = drawn(SIZE * count * 8, targets=settings.targets)
        self.agreed, self.version, self.read = self.online.initial(()), 1, 0

    def batch(self, n: int = SIZE) -> Batch:
        """Return the next records."""
        features, X, y, labels = self.stream.part(self.read, self.read + n)
        self.read += n
        return Batch(Span("p", 0, n), np.arange(n), features, X, y, labels)

    def agree(self, learnt: dict[str, Any]) -> tuple[OnlinePublished, OnlinePublished]:
        """Return the next agreed state as it is published: by its new rows, and whole."""
        learnt = {name: self.online.completed(part, self.agreed) for name, part in learnt.items()}
        labels = tuple(sorted({name for part in learnt.values() for name in part.labels}))
        labels = (*self.agreed.labels, *(name for name in labels if name not in self.agreed.labels))
        self.agreed, changed = self.online.after(self.agreed, learnt, labels, limits=NAMED)
        self.version += 1
        rows = self.online.published(self.agreed, self.version, changed)
        return rows, self.online.published(self.agreed, self.version)


def a_run(settings: NativeSettings, *, shared: bool) -> Iterator[object]:
    """Yield all that clients hold while they are at different states, learn in turns, and are told other things."""
    run = Clients(settings, 4, shared=shared)
    one, other, late, misled = run.clients
    first = run.batch()
    for client in run.clients:
        client.learn_next(first)
        yield client.answer(run.batch(1))
    for t in range(3):
        rows, whole = run.agree({str(i): client.learnt(NAMED, "c") for i, client in enumerate((one, other, misled))})
        for client in (one, other, late) if t == 1 else (one, other):
            client.take(whole if client is late else rows)
        misled.take(replace(whole, agreed=replace(whole.agreed, table=whole.agreed.table + 1.0)))
        one.begin(run.version, 1)
        for client in (one, other, one, misled):  # they are asked and learn one by one, at two versions
            next_one = run.batch(1)
            client.answer(next_one)
            client.learn_next(next_one)
        twin = copy.deepcopy(one)
        for client in (other, late, misled):
            client.begin(run.version, 1)
        late.forget()
        for client in (twin, *run.clients):
            client.learn_next(run.batch())
        yield state([client.learner for client in (twin, *run.clients)])
        yield state([client.learnt(NAMED, "c") for client in (twin, *run.clients)])


@pytest.mark.parametrize("targets", [False, True])
@pytest.mark.parametrize("features", ["auto", "linear"])
def test_clients_that_share_learn_what_they_would_learn_alone(features, targets):
    settings = NativeSettings(features, targets=targets)
    shared, alone = (list(a_run(settings, shared=how)) for how in (True, False))
    assert len(shared) == len(alone) == 10
    for ours, theirs in zip(shared, alone, strict=True):
        np.testing.assert_equal(ours, theirs)


def test_what_was_predicted_before_others_used_the_table_is_predicted_again():
    online = NativeOnlineModels(NativeSettings("auto")).in_one_process()
    one, other, alone = online.at_client(), online.at_client(), NativeOnlineModels(online.settings).at_client()
    stream = drawn(30)
    records = [stream.part(i, i + 1) for i in range(30)]
    for client in (one, other, alone):
        client.learner.learn(*stream.part(0, 20))
    for features, X, y, labels in records[20:]:
        for client in (one, alone):
            client.learner.predicted(features, X)
        other.learner.predicted(features, X)
        served = [client.learner.learn(features, X, y, labels).tolist() for client in (one, alone)]
        assert served[0] == served[1]
    assert state(one.learner) == state(alone.learner)


def test_nothing_is_shared_unless_it_is_asked_for():
    online = NativeOnlineModels(NativeSettings("auto"))
    assert online.at_client().learner.shared is not online.at_client().learner.shared
    hosts = [online.in_one_process() for _ in range(2)]
    shared = [[host.at_client().learner.shared for _ in range(2)] for host in hosts]
    assert shared[0][0] is shared[0][1] is not shared[1][0]
    assert hosts[0] == online


def held(value: Any, known: set[int]) -> int:
    """Return the bytes of all arrays that a value holds and that are not known yet."""
    if id(value) in known or isinstance(value, type):
        return 0
    known.add(id(value))
    if isinstance(value, np.ndarray):
        return value.nbytes if value.base is None else held(value.base, known)
    if isinstance(value, dict):
        return sum(held(item, known) for item in value.values())
    inside = [*value] if isinstance(value, list | tuple | set) else []
    return sum(held(item, known) for item in [*inside, *getattr(value, "__dict__", {}).values()])


def test_a_client_more_takes_the_room_of_what_it_changed_and_of_few_records():
    """A table of seven labels has 7 MB, 1000 records of 54 features 432 kB, and a hundred pairs of its own 403 kB."""
    table, sizes = covtype(), {}
    for count in (4, 12):
        run = Clients(NativeSettings("auto"), count, shared=True)
        known, total, most = set(), 0, 0
        for t in range(3):
            learnt = {}
            for i, client in enumerate(run.clients):
                at = 11 * (t * count + i) + np.arange(11)
                rows = Batch(Span("p", 0, 11), np.arange(11), table.features, table.X[at], table.y[at], table.labels)
                client.learn_next(rows)
                learnt[str(i)] = client.learnt(NAMED, "c")
            known = set()
            total = sum(held(client, known) for client in run.clients)
            most = max(most, total)
            changed, _ = run.agree(learnt)
            for client in run.clients:
                client.take(changed)
                client.begin(run.version, 1)
        sizes[count] = most
    a_client = (sizes[12] - sizes[4]) / 8
    assert 450_000 < a_client < 700_000
    assert sizes[4] - 4 * a_client < 30_000_000
