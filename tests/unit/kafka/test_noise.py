"""What kafka-python logs of a connection that was closed is no news, all else is."""

import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport

from streamfl_connectors.kafka.noise import leave_out_noise


@pytest.fixture(autouse=True)
def left_out() -> None:
    leave_out_noise()


def run(task: Callable[[NetworkSelector], Coroutine[Any, Any, None]]) -> None:
    """Run a task to its end, as kafka-python's own thread does."""
    net = NetworkSelector()
    net.call_soon(lambda: task(net))
    for _ in range(3):
        net.poll(timeout_ms=0)
    net.close()


@pytest.mark.parametrize("wait", ["wait_read", "wait_write"])
def test_waiting_for_a_closed_connection_is_not_logged(wait: str, caplog: pytest.LogCaptureFixture) -> None:
    closed = socket.socket()
    closed.close()

    async def wait_for_it(net: NetworkSelector) -> None:
        await getattr(net, wait)(closed)

    async def wait_for_nothing(net: NetworkSelector) -> None:
        await getattr(net, wait)(None)  # what a connection holds once it has been closed

    run(wait_for_it)
    run(wait_for_nothing)
    assert caplog.records == []


def test_reading_from_a_connection_that_was_closed_meanwhile_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    net = NetworkSelector()
    transport = KafkaTCPTransport(net, socket.socket())
    transport.abort()
    caplog.clear()
    assert transport._sock_recv()[1] is not None
    net.close()
    assert caplog.records == []


def test_a_connection_that_breaks_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    broken = socket.socket()
    broken.close()
    net = NetworkSelector()
    KafkaTCPTransport(net, broken)._sock_recv()
    net.close()
    (told,) = caplog.records
    assert "Error receiving network data" in told.message


def test_whatever_else_a_task_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: NetworkSelector) -> None:
        raise ValueError("Invalid file descriptor: 7")

    run(fail)
    logging.getLogger("kafka.net.selector").error("socket disconnected")
    failed, lost = caplog.records
    assert failed.exc_info is not None and "7" in str(failed.exc_info[1])
    assert lost.message == "socket disconnected"


def test_a_slow_task_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("kafka.net.selector").warning("task took 0.2 s")
    assert caplog.records == []
