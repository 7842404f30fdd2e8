"""The links of one process: a message reaches every client that it concerns, and the process itself."""

from collections.abc import Iterable

import numpy as np

from streamfl.protocol.messages import Ended, FromClient, FromCoordinator, Left, ModelPublished, base
from streamfl.runtime.log import links
from streamfl.runtime.log.links import Links

LEFT, ENDED = Left(client="c0", nonce="1"), Ended(entry=3)


class Log(Links):
    """Links on a list."""

    def __init__(self) -> None:
        super().__init__()
        self.arriving: list[FromCoordinator] = []

    def send(self, message: FromClient) -> None:
        pass

    def received(self) -> list[FromCoordinator]:
        arrived, self.arriving = self.arriving, []
        return arrived

    def current(self) -> Iterable[FromCoordinator]:
        return ()


def test_an_answer_reaches_its_client_only_and_all_else_every_client():
    log = Log()
    c0, c1 = log.link("c0"), log.link("c1")
    log.arriving = [LEFT, ENDED]
    assert (c0.receive(), c1.receive()) == ([LEFT, ENDED], [ENDED])


def test_the_process_gets_what_its_clients_were_the_first_to_ask_for():
    log = Log()
    c0 = log.link("c0")
    log.arriving = [LEFT]
    assert c0.receive() == [LEFT]
    log.arriving = [ENDED]
    log.link("c1")
    assert log.receive() == [LEFT, ENDED]
    assert log.receive() == []


def test_a_message_is_weighed_once_by_whoever_read_it_and_by_the_links(monkeypatch):
    weighed = []
    monkeypatch.setattr(base, "memory", lambda message: weighed.append(message) or 1)
    log, message = Log(), Ended(entry=4)
    assert message.memory == 1  # the listener counts first what it hands over
    log.arriving = [message]
    log.deliver()
    assert (weighed, log._taken) == ([message], 1)


def test_what_the_clients_have_not_used_yet_is_bounded_by_what_it_takes_decoded(monkeypatch):
    monkeypatch.setattr(links, "MOST_AT_ONCE", 100_000)
    log, zeros = Log(), np.zeros((100, 200))  # 160 kB, in a few bytes
    all_links = [log.link(f"c{i}") for i in range(3)]
    taken = []
    for i in range(3):
        log.arriving = [ModelPublished(slot="m", version=i, registry=1, weights=zeros)]
        taken.append([message.version for link in all_links for message in link.receive()])
        log.arriving = [ModelPublished(slot="m", version=10 + i, registry=1, weights=zeros)]
        assert [link.receive() for link in all_links] == [[], [], []]
        log.receive()
    assert taken == [[0] * 3, [1] * 3, [2] * 3]
