"""The links of one process: a message reaches every client that it concerns, and the process itself."""

from collections.abc import Iterable

from streamfl.core.protocol.messages import Ended, FromClient, FromCoordinator, Left
from streamfl.log.links import Links

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
