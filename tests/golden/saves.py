"""What a version saves, and what becomes of it: later versions must read it, and go on to the same bytes.

python tests/golden/saves.py --write     writes the files of `saved/` again, and what becomes of them

They are of 0.2.0, the oldest version whose files are read: write them in a checkout of it.
"""

import gzip
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from river import datasets

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))


from golden.arithmetic import begin, digest, tell
from streamfl import MasterFLClassifier, MasterFLRegressor
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.protocol.messages import RoundClosed
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import deal
from streamfl.run.model_file import ServedModel
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl.runtime.clock import ManualClock
from streamfl.runtime.loop import run
from streamfl.runtime.nodes import CoordinatorNode
from streamfl.runtime.transport.memory import MemoryTransport
from streamfl.wire import state_bytes

SAVED = Path(__file__).parent / "saved"
NOTED = SAVED / "answers.json"

ESTIMATORS: dict[str, dict[str, Any]] = {
    "classifier": {"features": "auto", "round_size": 20, "seed": 1},
    "regressor": {"features": "linear", "round_size": 20, "seed": 1},
    "rounds": {"features": "rounds", "round_size": 20, "seed": 2},
}
PROFILES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "adaptive": ({}, {"features": "linear"}),
    "glr": ({"detector": "glr"}, {"features": "rounds"}),
    "experts": ({"profile": "experts"}, {"features": "rounds"}),
    "paper": ({"profile": "paper"}, {"features": "rounds"}),
    "external": ({}, {"model": "river:naive_bayes.GaussianNB"}),
}
RECORDS, CLIENTS, ROUND = 1600, 4, 20

# The round after which a state is kept: the concept has changed two rounds before.
KEPT = 12


class Enough(Exception):
    """The state that was sought has been saved."""


def main() -> None:
    """Print what becomes of the saved files as JSON, or write them anew with it."""
    begin()
    if "--write" in sys.argv:
        SAVED.mkdir(exist_ok=True)
        for name, data in (*_estimators(), _model(), *_states()):
            (SAVED / name).write_bytes(gzip.compress(data, mtime=0))
    tell(answers(), NOTED)


def answers() -> dict[str, str]:
    """Return what becomes of every saved file: a digest of its answers, or of the model that it ends with."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for file in sorted(SAVED.glob("*.gz")):
            kind, name = file.name.removesuffix(".gz").split("-")
            path = Path(folder) / file.stem
            path.write_bytes(gzip.decompress(file.read_bytes()))
            found[file.name] = {"estimator": _estimator_answers, "model": _model_answers, "state": _goes_on}[kind](
                path, name.split(".")[0]
            )
    return found


def _estimators() -> Iterator[tuple[str, bytes]]:
    with tempfile.TemporaryDirectory() as folder:
        for name, constants in ESTIMATORS.items():
            model = (MasterFLRegressor if name == "regressor" else MasterFLClassifier)(**constants)
            for x, y in _records(name, 0, 130):
                model.learn_one(x, y)
            path = Path(folder) / name
            model.save(path)
            yield f"estimator-{name}.streamfl.gz", path.read_bytes()


def _estimator_answers(path: Path, name: str) -> str:
    """Predict 30 records, learning each, and digest the predictions."""
    model: Any = (MasterFLRegressor if name == "regressor" else MasterFLClassifier).load(path)
    told = []
    for x, y in _records(name, 130, 160):
        told.append(repr(model.predict_one(x) if name == "regressor" else sorted(model.predict_proba_one(x).items())))
        model.learn_one(x, y)
    return digest("\n".join(told).encode())


def _records(name: str, first: int, last: int) -> list[tuple[dict[str, float], Any]]:
    return list(islice(datasets.ChickWeights() if name == "regressor" else datasets.Phishing(), first, last))


def _model() -> tuple[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        _replay("adaptive").run().model.save(path)
        return "model-native.safetensors.gz", path.read_bytes()


def _model_answers(path: Path, _: str) -> str:
    model = ServedModel.load(path)
    return digest(" ".join(map(str, model.predict(_table().X[:50], ("a", "b", "c")))).encode())


def _states() -> Iterator[tuple[str, bytes]]:
    """Yield the state of a coordinator of each profile in the middle of a run."""
    for name in PROFILES:
        transport = MemoryTransport(durable=True)
        with (
            mock.patch("streamfl.run.replay.MemoryTransport", lambda *_, kept=transport, **__: kept),
            suppress(Enough),
        ):
            _replay(name, stop=True).run()
        assert transport._saved is not None
        yield f"state-{name}.bin.gz", transport._saved


def _goes_on(path: Path, name: str) -> str:
    """Go on from a state with clients that were started anew, to the end, and return what the model has become."""
    replay, transport = _replay(name), MemoryTransport()
    machine = Coordinator(replay._coordinator().settings, state_bytes.decode(path.read_bytes()))
    node = CoordinatorNode(machine, transport.coordinator())
    clients = [replay._client(client, transport) for client in replay.logs]
    node.start(0.0)
    run([*clients, node], ManualClock())
    accepted = sum(member.accepted for member in machine.state.members.values())
    return f"{accepted} records, {machine.digest()}"


def _replay(name: str, *, stop: bool = False) -> Replay:
    def observe(event: object) -> None:
        if stop and isinstance(event, RoundClosed) and event.round == KEPT:
            raise Enough

    table = _table()
    profile, learning = PROFILES[name]
    settings = ReplaySettings(
        round_size=ROUND,
        learning=LearningSettings.model_validate(learning),
        profile=ProfileSettings.model_validate(profile),
    )
    return Replay(table, deal(table, CLIENTS, "round-robin", 0), settings, observe)


def _table() -> Table:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(RECORDS, 3))
    y = (X @ rng.normal(size=(3, 3)) + 0.2 * rng.normal(size=(RECORDS, 3))).argmax(axis=1)
    y[CLIENTS * ROUND * (KEPT - 2) :] = (y[CLIENTS * ROUND * (KEPT - 2) :] + 1) % 3
    return Table("drawn", ("a", "b", "c"), X, y.astype(float), ("u", "v", "w"), np.arange(RECORDS))


if __name__ == "__main__":
    main()
