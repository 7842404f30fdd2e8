"""The simulation must fail when a safeguard is removed: here each is removed in a copy."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SAFEGUARDS = {
    "one update for each client": (
        "machines/coordinator/round/unsaved.py",
        "self.updates[update.client] = update",
        "self.updates[update.attempt] = update",
    ),
    "the ledger seek": (
        "machines/client/machine.py",
        "decisions.append(Seek({**self._begun, **joined.positions, **again_at}, needed))",
        "pass",
    ),
    "the check of round and epoch": (
        "machines/coordinator/gate/checks.py",
        "if (update.entry, update.epoch) != (opened.entry, opened.epoch):",
        "if False:",
    ),
}

LATE = {
    "the watermark behind the newest labelled record": (
        "machines/client/intake/waiting.py",
        "features = max(self.watermark.features, max(learnt, default=-1) + 1, *(one.front for one in released))",
        "features = self.watermark.features",
    ),
    "labels read again settle their records": (
        "machines/client/intake/waiting.py",
        "            self._settle(self._named)\n",
        "            pass\n",
    ),
    "recorded answers": (
        "run/dealing/delayed.py",
        "return [asked] if self._recorded is None else list(self._recorded.parts(asked))",
        "return [asked]",
    ),
}

TRY_LATE = """
from simulation.late_labels import late
from simulation.test_late_labels import DELAYED, outcome, right_answers
from simulation.test_simulation import faults_of

for seed in range(3, 20):
    simulation = late(DELAYED, window=60, seed=seed, faults=faults_of(seed))
    outcome(simulation)
    served = sum(closed.served.correct for closed in simulation.audit.closed)
    assert served == right_answers(simulation), f"Violation: seed {seed}: scored otherwise than answered"
"""

TRY_SEEDS = """
from simulation.federation import federation
from simulation.test_simulation import faults_of, undisturbed

for seed in range(1000, 1060):
    federation("adaptive", seed=seed, faults=faults_of(seed), quorum=2).run()
    simulation = federation("adaptive", seed=seed, faults=faults_of(seed))
    assert simulation.run().digest() == undisturbed("adaptive")[0]
"""


@pytest.mark.full
@pytest.mark.process
@pytest.mark.parametrize("safeguard", [*SAFEGUARDS, *LATE])
def test_without_a_safeguard_some_world_breaks_the_federation(safeguard, tmp_path):
    file, there, instead = {**SAFEGUARDS, **LATE}[safeguard]
    shutil.copytree(ROOT / "streamfl", tmp_path / "streamfl")
    source = tmp_path / "streamfl" / file
    text = source.read_text()
    assert text.count(there) == 1, f"{safeguard} has changed in the source: update this test"
    source.write_text(text.replace(there, instead))

    path = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'tests'}"}
    worlds = TRY_LATE if safeguard in LATE else TRY_SEEDS
    run = subprocess.run(
        [sys.executable, "-c", worlds], env=path, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "Violation: seed" in run.stderr
