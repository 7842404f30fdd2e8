"""Log lines for programs."""

import json
import logging

import pytest
import structlog

from streamfl.live.metrics.logs import MOST, PAUSE, Seldom, configure


def test_a_line_of_json_begins_with_the_event_and_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    before = logging.root.handlers[:]
    configure("info", "json", federation="forest", role="client", host="plant-7")
    structlog.get_logger("streamfl").info("joined", client="c3", entry=4)
    logging.getLogger("kafka").warning("slow")
    logging.root.handlers[:] = before
    structlog.reset_defaults()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    of_process = {"federation": "forest", "role": "client", "host": "plant-7"}
    assert [list(line) for line in lines] == [
        ["timestamp", "level", "event", *of_process, "client", "entry"],
        ["timestamp", "level", "event", *of_process],
    ]
    assert [line["event"] for line in lines] == ["joined", "slow"]
    assert all(of_process.items() <= line.items() for line in lines)


def test_another_library_says_the_same_once_a_minute_and_then_how_often_it_would_have() -> None:
    now = 0.0
    seldom = Seldom(lambda: now)

    def line(place: int, text: str) -> logging.LogRecord | None:
        record = logging.LogRecord("kafka", logging.ERROR, "manager.py", place, "%s failed", (text,), None)
        return record if seldom.filter(record) else None

    told = []
    for second in range(0, int(PAUSE) + 1, 20):
        now = float(second)
        told += [found.getMessage() for broker in ("b1", "b2") if (found := line(7, broker)) is not None]
        assert (line(8, "log-in") is None) is (second in (20, 40))
    assert told == ["b1 failed", "b1 failed (5 more like this were left out)"]
    for place in range(2 * MOST):
        line(place, "text")
    assert len(seldom._said) <= MOST
