"""A client whose records have other features than the federation's takes part, and its host says so."""

from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

import streamfl

TABLES = {
    "federation": {"min_clients": 1},
    "rounds": {"clock": "records", "size": 10},
    "records": {"fields": {"label": "y"}},
    "learning": {"features": "rounds"},
}


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    """The program has said what becomes of logs, so a federation leaves that as it is."""
    structlog.configure()
    yield
    structlog.reset_defaults()


def record(i: int, *names: str) -> dict[str, Any]:
    return {**{name: float(i % 7 + j) for j, name in enumerate(names)}, "y": "ab"[i % 2]}


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("t", "p"), ("t, p", "temperature, pressure, flow")),
        (("temperature", "p", "f"), ("p, f", "pressure, flow")),
        (("temperature", "pressure"), None),
        (("temperature", "pressure", "flow", "level"), None),
    ],
)
def test_who_joins_with_other_features_is_told_once_what_differs(
    names: tuple[str, ...], told: tuple[str, str] | None
) -> None:
    federation = streamfl.Federation(TABLES)
    with capture_logs() as logs:
        for i in range(40):
            federation.learn("old", record(i, "temperature", "pressure", "flow"))
        for i in range(40):
            federation.learn("old", record(i, "temperature", "pressure", "flow"))
            federation.learn("new", record(i, *names))
    found = [line for line in logs if line["event"] == "other features than the federation's"]
    if told is None:
        assert found == []
    else:
        (line,) = found
        assert (line["client"], line["only_here"], line["missing_here"]) == ("new", *told)
    assert federation.failed == {}
    assert federation.predict("new", record(1, *names)) in ("a", "b")
