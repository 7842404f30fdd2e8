"""Programs that some tests need besides Python and Java: where they are, or why a test cannot run."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# By program, what fetches it, and whether CI must have it: some have to be built, where there is Go.
FETCHED = {
    "prometheus": ("deploy/install-prometheus.sh", True),
    "promtool": ("deploy/install-prometheus.sh", True),
    "helm": ("deploy/install-helm.sh", False),
    "compose-spec": ("deploy/install-compose.sh", False),
}


def tool(name: str) -> str:
    """Return the path of a program; without it skip the test, or in CI fail it."""
    found = shutil.which(name) or shutil.which(name, path=str(ROOT / ".tools" / "bin"))
    if found is not None:
        return found
    script, required = FETCHED[name]
    reason = f"{name} is not here: {script} fetches it"
    if required and os.environ.get("STREAMFL_REQUIRE_BROKER"):
        pytest.fail(reason)
    pytest.skip(reason)
