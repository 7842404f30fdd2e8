"""Prometheus and its tool, for tests: where they are, or why a test cannot run."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def tool(name: str) -> str:
    """Return the path of `prometheus` or `promtool`; skip the test if it is not there, and fail it in CI."""
    found = shutil.which(name) or shutil.which(name, path=str(ROOT / ".tools" / "bin"))
    if found is not None:
        return found
    reason = f"{name} is not here: deploy/install-prometheus.sh fetches it"
    if os.environ.get("STREAMFL_REQUIRE_BROKER"):
        pytest.fail(reason)
    pytest.skip(reason)
