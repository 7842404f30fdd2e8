"""What the speed check measures: five kinds of work of streamfl, each with a yardstick that does not change with it.

A yardstick is code of other libraries on the same records or bytes, so that a slow machine slows both alike.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from io import BytesIO
from typing import Protocol

import numpy as np
from river import linear_model, preprocessing

from streamfl import MasterFLClassifier
from streamfl.arrays import FloatArray, IntArray
from streamfl.protocol.messages import FromClient, FromCoordinator, Update
from streamfl.records.files.covtype import covtype
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import deal
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.runtime.transport.traffic import Traffic
from streamfl.sampling import generator
from streamfl.wire import messages
from streamfl_benchmarks.speed import LIVE, federation, gaussian, plain

Work = Callable[[], object]

# Rounds of the simulation. The first ones cost more than later ones: of `paper` there are as many as `streamfl bench
# speed` runs, so that later ones count; with five models a round takes longer, and eight are enough.
ROUNDS = {"paper": 60, "adaptive": 8}

# Clients, records of a round and rounds of a replay that learns record by record.
CLIENTS, SIZE, LEARNT_ROUNDS = 4, 50, 6

# Records and features that an estimator learns one by one.
RECORDS, FEATURES = 1500, 8

# How often River's softmax regression learns these in one measurement: it takes a tenth of the time.
SOFTMAXES = 4

# How often updates are encoded, and how often their arrays are saved, in one measurement: 0.2 seconds each.
ENCODED, SAVED = 5, 40


class Learner(Protocol):
    """A classifier that learns record by record."""

    def predict_one(self, x: dict[Hashable, float]) -> object:
        """Return the label that it predicts."""
        ...

    def learn_one(self, x: dict[Hashable, float], y: int) -> object:
        """Learn a record."""
        ...


@dataclass(frozen=True)
class Comparison:
    """A work of streamfl and its yardstick, which may be repeated so that its time can be measured.

    Parameters
    ----------
    name
        The name of the committed figure.
    ours, yardstick
        What is measured.
    times
        How often ours and the yardstick do the work that is compared.
    """

    name: str
    ours: Work
    yardstick: Work
    times: tuple[int, int] = (1, 1)


def comparisons() -> Iterator[Comparison]:
    """Yield every comparison; what it works on is made when it is asked for."""
    for profile, live in LIVE.items():
        yield _simulation(profile, live, ROUNDS[profile])
    yield _record_by_record()
    yield _estimator()
    yield _encoding()


def _simulation(profile: str, live: int, rounds: int) -> Comparison:
    table = gaussian(rounds)
    name = f"simulation of {profile}, {live} live"
    return Comparison(name, lambda: federation(table, profile), lambda: plain(table, live, rounds))


def _record_by_record() -> Comparison:
    """Compare a replay with `auto` and River's softmax regression on the same forest records."""
    table = _forest()
    X, y = table.X.astype(np.float64), table.y.astype(np.int64)
    return Comparison("auto, record by record", lambda: replayed(Traffic()), lambda: softmax(X, y))


def _estimator() -> Comparison:
    """Compare our estimator and River's softmax regression on 8 features and 2 classes."""
    rng = generator(0, "speed check")
    X = rng.normal(size=(RECORDS, FEATURES))
    y = (X @ rng.normal(size=FEATURES) > 0.0).astype(np.int64)
    return Comparison(
        "estimator, 8 features x 2 classes",
        lambda: one_by_one(MasterFLClassifier(seed=1), X, y),
        lambda: repeated(lambda: softmax(X, y), SOFTMAXES),
        (1, SOFTMAXES),
    )


def _encoding() -> Comparison:
    """Compare the encoding of updates and NumPy's own file of the arrays in them, which is not compressed.

    Both spend most of their time in calls of Python and NumPy about small arrays. Compression is a loop in C: next to
    it, the same encoding took 1.6 times as long on one processor as on another.
    """
    sent = Kept()
    replayed(sent)
    updates = sent.updates[-CLIENTS:]
    arrays = [arrays_of(update) for update in updates]
    return Comparison(
        "encoding of updates",
        lambda: [messages.encode(update) for _ in range(ENCODED) for update in updates],
        lambda: [saved(values) for _ in range(SAVED) for values in arrays],
        (ENCODED, SAVED),
    )


def saved(arrays: Sequence[FloatArray]) -> bytes:
    """Return the bytes of NumPy's file of some arrays."""
    file = BytesIO()
    np.savez(file, *arrays)
    return file.getvalue()


@dataclass
class Kept(Traffic):
    """Keeps the updates that clients send."""

    updates: list[Update] = field(default_factory=list)

    def add(self, message: FromClient | FromCoordinator) -> None:
        """Keep a message if it is an update."""
        if isinstance(message, Update):
            self.updates.append(message)


def arrays_of(update: Update) -> list[FloatArray]:
    """Return the arrays of differences and of what was learnt record by record."""
    learnt = update.numbers.learnt
    values = [] if learnt is None else [getattr(learnt, one.name) for one in fields(learnt)]
    own = [value for value in values if isinstance(value, np.ndarray)]
    return [*update.numbers.differences.values(), *own]


@cache
def _forest() -> Table:
    """Return the first forest records of a shuffled order."""
    whole, n = shuffled(covtype(), 0), CLIENTS * SIZE * LEARNT_ROUNDS
    return Table(whole.name, whole.features, whole.X[:n], whole.y[:n], whole.labels, np.arange(n))


def replayed(traffic: Traffic) -> None:
    """Replay the forest records with `auto`."""
    table = _forest()
    logs = deal(table, CLIENTS, "round-robin", 0)
    Replay(table, logs, ReplaySettings(round_size=SIZE), _traffic=traffic).run()


def softmax(X: FloatArray, y: IntArray) -> None:
    """Predict and learn records with River's scaler and softmax regression."""
    one_by_one(preprocessing.StandardScaler() | linear_model.SoftmaxRegression(), X, y)


def repeated(work: Work, times: int) -> None:
    """Do a work so many times."""
    for _ in range(times):
        work()


def one_by_one(model: Learner, X: FloatArray, y: IntArray) -> None:
    """Predict every record and learn it."""
    names = [f"x{j}" for j in range(X.shape[1])]
    for values, label in zip(X.tolist(), y.tolist(), strict=True):
        x: dict[Hashable, float] = dict(zip(names, values, strict=True))
        model.predict_one(x)
        model.learn_one(x, label)
