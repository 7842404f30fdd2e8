"""The simulation must fail when a safeguard is removed: here each is removed in a copy."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SAFEGUARDS = {
    "one update for each client": (
        "core/coordinator/machine.py",
        "self._unsaved.updates[update.client] = update",
        "self._unsaved.updates[update.attempt] = update",
    ),
    "the ledger seek": (
        "core/client/machine.py",
        "decisions.append(Seek({**self._begun, **joined.positions}))",
        "pass",
    ),
    "the check of round and epoch": (
        "core/coordinator/checks.py",
        "if (update.entry, update.epoch) != (opened.entry, opened.epoch):",
        "if False:",
    ),
}

TRY_SEEDS = """
from simulation.federation import federation
from simulation.test_simulation import faults_of, undisturbed

for seed in range(1000, 1060):
    federation("adaptive", seed=seed, faults=faults_of(seed), quorum=2).run()
    simulation = federation("adaptive", seed=seed, faults=faults_of(seed))
    assert simulation.run().digest() == undisturbed("adaptive")[0]
"""


@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_without_a_safeguard_some_world_breaks_the_federation(safeguard, tmp_path):
    file, there, instead = SAFEGUARDS[safeguard]
    shutil.copytree(ROOT / "streamfl", tmp_path / "streamfl")
    source = tmp_path / "streamfl" / file
    text = source.read_text()
    assert text.count(there) == 1, f"{safeguard} has changed in the source: update this test"
    source.write_text(text.replace(there, instead))

    path = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'tests'}"}
    run = subprocess.run(
        [sys.executable, "-c", TRY_SEEDS], env=path, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert "Violation: seed" in run.stderr
