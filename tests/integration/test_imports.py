"""What takes long to import is imported where it is used.

The compiler takes a quarter of a second and 60 MB, River and what it imports a second: more than all the rest.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

# The estimator and the coordinator are told what does learn online, but they do not compile it.
LEARNS_BY_ROUNDS = """
import numpy as np
from streamfl import MasterFLClassifier
model = MasterFLClassifier(features="rounds", round_size=20, seed=1)
for i in range(200):
    model.learn_one({"x": float(i % 2)}, "ab"[i % 2])
assert model.predict_one({"x": 1.0}) == "b"
"""
COORDINATES = """
import streamfl.live.coordinator
from streamfl.bounds import Limits
from streamfl.run.settings import LearningSettings
between = LearningSettings(features="auto").learner("classification", 1).online
agreed, _ = between.after(between.initial(()), {}, (), limits=Limits())
assert between.published(agreed, 2).agreed.labels == ()
"""
COMMAND = """
from streamfl.cli.main import cli
cli({arguments!r}, standalone_mode=False)
"""
LOADS = """
from pathlib import Path
from streamfl.live.settings.loading import load
load(Path("deploy/federation.toml"), {})
"""
LEARNS_RECORD_BY_RECORD = """
import streamfl.online.native.learner
"""


COMPILER, RIVER = {"numba", "llvmlite"}, {"river", "sklearn", "scipy"}


def imported(program: str, of: set[str] = COMPILER) -> set[str]:
    """Return which of some packages a process has imported at its end."""
    end = f"\nimport sys; print('imported', *({of} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program + end], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "program",
    [
        "import streamfl",
        "import streamfl.run.estimators",
        "import streamfl.live.client",
        "import streamfl_connectors.kafka.connector",
        COMMAND.format(arguments=["--help"]),
        COMMAND.format(arguments=["compile", "--help"]),
        LEARNS_BY_ROUNDS,
        COORDINATES,
    ],
)
def test_programs_that_compile_nothing_do_not_import_numba(program):
    assert imported(program) == set()


def test_a_replay_of_rounds_does_not_import_numba(tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_text("x,label\n" + "".join(f"{i % 7},{'ab'[i % 2]}\n" for i in range(400)))
    arguments = ["replay", str(path), "--clients", "2", "--features", "rounds"]
    assert imported(COMMAND.format(arguments=arguments)) == set()


def test_programs_that_learn_record_by_record_import_numba():
    assert imported(LEARNS_RECORD_BY_RECORD) == {"numba", "llvmlite"}


@pytest.mark.parametrize(
    "program",
    [
        "import streamfl.live.coordinator, streamfl_connectors.kafka.connector",
        "import streamfl.live.client, streamfl.live.score, streamfl.live.page.service",
        LOADS,
        COMMAND.format(arguments=["replay", "--help"]),
        COORDINATES,
    ],
)
def test_a_process_that_needs_nothing_of_river_does_not_import_river(program):
    assert imported(program, RIVER) == set()


def test_an_estimator_imports_no_more_of_river_than_it_needs():
    of = {"sklearn", "pandas", "river.drift", "river.datasets"}
    program = "from streamfl import MasterFLClassifier; MasterFLClassifier(seed=1).learn_one({'x': 1.0}, 'a')"
    assert imported(program, of) == set()


@pytest.mark.parametrize(
    "program",
    [
        "import streamfl.run.settings as s; s.LearningSettings(model='river:linear_model.SoftmaxRegression')",
        "from streamfl.plugins.detectors import named_detector; named_detector('river:ADWIN')",
        "import streamfl.run.estimators",
    ],
)
def test_a_process_that_needs_river_imports_river(program):
    assert "river" in imported(program, RIVER)


EXTRAS = (
    "prometheus_client",
    "starlette",
    "uvicorn",
    "opentelemetry",
    "fastavro",
    "google.protobuf",
    "dp_accounting",
    "confluent_kafka",
)
WITHOUT_EXTRAS = """
import sys
sys.modules.update(dict.fromkeys({extras}))
from pathlib import Path
import streamfl, streamfl.live.coordinator, streamfl.live.score, streamfl.cli.live
from streamfl.errors import UsageError
from streamfl.live.client import exposed
from streamfl.live.settings.loading import load
streamfl.Federation({{"records": {{"fields": {{"label": "y"}}}}}}).learn("east", [{{"x": 1, "y": "a"}}])
settings = load(Path("deploy/federation.toml"), {{"telemetry": {{"address": "127.0.0.1:0"}}}})
try:
    exposed(settings, "client", tuple, lambda: None).__enter__()
except UsageError as error:
    assert "install the extra telemetry" in str(error), error
else:
    raise AssertionError("it is shown without the extra")
"""


def test_a_federation_runs_live_and_in_a_program_without_any_extra():
    assert imported(WITHOUT_EXTRAS.format(extras=EXTRAS), set()) == set()
