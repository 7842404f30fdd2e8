"""Log lines for programs."""

import json
import logging

import pytest
import structlog

from streamfl.live.metrics.logs import configure


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
