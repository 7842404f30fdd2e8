"""The bytes of a replay's messages are estimated: of many clients only some messages are encoded."""

import pytest

from streamfl.protocol.messages import Leave
from streamfl.runtime.transport import traffic
from streamfl.runtime.transport.traffic import Traffic
from streamfl.wire import messages

BYTES = len(messages.encode(Leave(client="c0", nonce="7f")))


@pytest.mark.parametrize("clients", [64, 70, 512, 2_954, 10_019])
def test_of_many_clients_with_equal_messages_the_bytes_are_those_of_all(clients: int) -> None:
    counted = Traffic()
    for _ in range(clients):
        counted.add(Leave(client="c0", nonce="7f"))
    assert counted.up == pytest.approx(BYTES * clients, rel=0.02)


def test_of_ten_thousand_clients_few_messages_are_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = []
    monkeypatch.setattr(traffic.messages, "encode", lambda message: encoded.append(message) or b"")
    counted = Traffic()
    for _ in range(10_000):
        counted.add(Leave(client="c0", nonce="7f"))
    assert len(encoded) == 64 + 64 + 194  # all, one in 7 up to 512, one in 49 from then on
