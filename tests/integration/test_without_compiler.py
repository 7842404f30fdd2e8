"""Where nothing is compiled, the compiler is not imported: it takes a quarter of a second and 60 MB."""

import subprocess
import sys
from pathlib import Path

import pytest

# The estimator and the coordinator are told what does learn between rounds, but they do not compile it.
LEARNS_BY_ROUNDS = """
import numpy as np
from streamfl import MasterFLClassifier
model = MasterFLClassifier(features="rounds", round_size=20, seed=1)
for i in range(200):
    model.learn_one({"x": float(i % 2)}, "ab"[i % 2])
assert model.predict_one({"x": 1.0}) == "b"
"""
COORDINATES = """
import streamfl.services.coordinator
from streamfl.core.bounds import Limits
from streamfl.settings import LearningSettings
between = LearningSettings(features="auto").learner("classification", 1).between
agreed, _ = between.after(between.initial(()), {}, (), limits=Limits())
assert between.published(agreed, 2).agreed.labels == ()
"""
COMMAND = """
from streamfl.cli import cli
cli({arguments!r}, standalone_mode=False)
"""
LEARNS_RECORD_BY_RECORD = """
import streamfl.core.between.native.learner
"""


def imported(program: str) -> set[str]:
    """Return which parts of the compiler a process has imported at its end."""
    end = "\nimport sys; print('imported', *({'numba', 'llvmlite'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program + end], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize(
    "program",
    [
        "import streamfl",
        "import streamfl.estimators",
        "import streamfl.services.client",
        "import streamfl_connectors.kafka.connector",
        COMMAND.format(arguments=["--help"]),
        COMMAND.format(arguments=["compile", "--help"]),
        LEARNS_BY_ROUNDS,
        COORDINATES,
    ],
)
def test_it_is_not_imported(program):
    assert imported(program) == set()


def test_a_replay_of_rounds_does_not_import_it(tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_text("x,label\n" + "".join(f"{i % 7},{'ab'[i % 2]}\n" for i in range(400)))
    arguments = ["replay", str(path), "--clients", "2", "--features", "rounds"]
    assert imported(COMMAND.format(arguments=arguments)) == set()


def test_what_learns_record_by_record_imports_it():
    assert imported(LEARNS_RECORD_BY_RECORD) == {"numba", "llvmlite"}
