"""How far partitions go, asked again and again in a thread of its own: a log that answers slowly holds up no page."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread

import structlog

from streamfl.live.page.source import PageSource
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.ports import PartitionEnds

LOG = structlog.get_logger("streamfl.page")

# Seconds between two questions, also after one that was not answered.
ASK_EVERY = 5.0

# Seconds for which a page that ends waits for an answer.
ENDED_WITHIN = 2.0


@contextmanager
def lag_of(source: PageSource, reach: Callable[[], PartitionEnds]) -> Iterator[None]:
    """Tell a source how far the partitions of its clients go, until the block ends.

    While the log does not answer, that is unknown.

    Parameters
    ----------
    reach
        Connects to the log.
    """
    ended = Event()
    thread = Thread(target=_keep_asking, args=(source, reach, ended), name="lag", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(ENDED_WITHIN)


def _keep_asking(source: PageSource, reach: Callable[[], PartitionEnds], ended: Event) -> None:
    unknown = Tally(LOG, "how many records wait is not known")
    while not ended.is_set():
        try:
            _ask(source, reach, ended)
        except Exception as error:  # whatever it is, the page goes on, and the brokers are asked again
            unknown.note(source.name, str(error))
            ended.wait(ASK_EVERY)


def _ask(source: PageSource, reach: Callable[[], PartitionEnds], ended: Event) -> None:
    try:
        with closing(reach()) as ends:
            while not ended.is_set():
                source.take_reaches(ends.of(source.partitions()))
                ended.wait(ASK_EVERY)
    finally:
        source.take_reaches({})
