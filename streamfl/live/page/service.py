"""`streamfl page`: reads the log of a federation, and serves the page of it."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import structlog

from streamfl.bounds import REASON_CHARS
from streamfl.errors import PeerError, UsageError
from streamfl.live.http.serving import serving
from streamfl.live.page.app import app
from streamfl.live.page.history import PageHistory
from streamfl.live.page.lag import lag_of
from streamfl.live.page.letters import Letters
from streamfl.live.page.source import PageSource
from streamfl.live.settings.addresses import address
from streamfl.live.stopping import Stop
from streamfl.records.values.times import iso
from streamfl.run.page.events import plain
from streamfl.run.page.sections import Sections
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.ports import Connector, LoggedDeadLetter, LoggedMessage, PartitionEnds, Watcher

LOG = structlog.get_logger("streamfl.page")

# Messages of the control topic from which the first page is made, while the whole log is read.
FIRST = 100

# While the whole log is read, its end is looked at once in this many reads.
END_EVERY = 10

# Seconds until a log that did not answer is asked again.
PAUSE = 1.0


class PageReader:
    """Reads a log into a source: its end first, so that there is a page at once, and meanwhile the whole of it.

    Parameters
    ----------
    end, whole
        A reader of the last messages, which is closed when it is no longer needed, and one of all.
    """

    def __init__(self, source: PageSource, end: Watcher, whole: Watcher) -> None:
        self.source, self._end, self._whole = source, end, whole
        self._history, self._letters = PageHistory(), Letters(whole.letters_before, whole.letters_readable)
        source.letters = Letters(end.letters_before, end.letters_readable)
        self._left, self._all = whole.behind, max(1, whole.behind)
        self._steps = 0
        self._silent_since = ""
        source.status = self.status

    @property
    def has_all(self) -> bool:
        """Tell whether the page shows the whole log."""
        return self.source.history is self._history

    def status(self) -> Sections:
        """Return how much of the log was read, how many of its messages were no use, and since when it is silent."""
        read = 1.0 if self.has_all else round(1.0 - min(1.0, self._left / self._all), 2)
        return {"read": read, "unusable": self._whole.unusable, "silent_since": self._silent_since}

    def step(self, now: float) -> None:
        """Read what there is; now is the time in seconds since 1970.

        Raises
        ------
        PeerError
            The log does not answer.
        """
        try:
            self._read()
        except PeerError:
            self._silent_since = self._silent_since or iso(now)
            raise
        self._silent_since = ""

    def _read(self) -> None:
        if not self.has_all and self._steps % END_EVERY == 0:
            _hear(self._end.read(), self.source.history, self.source.letters)
        self._steps += 1
        _hear(self._whole.read(), self._history, self._letters)
        self._left, self._letters.readable = self._whole.behind, self._whole.letters_readable
        if not self.has_all and self._left == 0:
            self.source.history, self.source.letters = self._history, self._letters
            self._end.close()
            LOG.info("the whole log is read", entry=self._history.now.entry, rounds=self._history.now.closed)


def _hear(heard: Iterable[LoggedMessage | LoggedDeadLetter], history: PageHistory, letters: Letters) -> None:
    for one in heard:
        if isinstance(one, LoggedDeadLetter):
            letters.add(one)
        else:
            history.hear(one.message, one.time)


def serve_page(
    name: str,
    connector: Connector,
    where: str,
    stop: Stop,
    names: Collection[str] = (),
    reach: Callable[[], PartitionEnds] | None = None,
) -> None:
    """Serve the page of a federation until stopped.

    Parameters
    ----------
    where
        The address, PORT or HOST:PORT.
    names
        Names under which browsers may ask for it, besides those of this machine and any address.
    reach
        Connects to the log to ask how far partitions go; None if it cannot tell.

    Raises
    ------
    UsageError
        The address cannot be had, or the log-in may not read the federation.
    """
    source = PageSource(name)
    with ExitStack() as stack:
        LOG.info("page", url=stack.enter_context(shown(source, where, names)))
        unread = Tally(LOG, "the federation cannot be read yet")
        reading: PageReader | None = None
        while not stop.requested:
            try:
                if reading is None:
                    end, whole = _readers(connector)
                    stack.callback(end.close)
                    stack.callback(whole.close)
                    reading = PageReader(source, end, whole)
                    if reach is not None:
                        stack.enter_context(lag_of(source, reach))
                reading.step(time.time())
            except PeerError as error:
                if reading is None:
                    unread.note(name, str(error))
                    source.status = partial(dict, unread=plain(str(error), REASON_CHARS))
                time.sleep(PAUSE)


def _readers(connector: Connector) -> tuple[Watcher, Watcher]:
    """Return a reader of the last messages, and one of all."""
    end = connector.watcher(last=FIRST)
    try:
        return end, connector.watcher(last=None)
    except BaseException:
        end.close()
        raise


@contextmanager
def shown(source: PageSource, where: str, names: Collection[str] = ()) -> Iterator[str]:
    """Serve the page of a source until the block ends.

    Parameters
    ----------
    where
        The address, PORT or HOST:PORT.

    Yields
    ------
    Its address, for a browser.

    Raises
    ------
    UsageError
        The address cannot be had.
    """
    try:
        host, port = address(where)
    except ValueError as error:
        raise UsageError(str(error)) from None
    ended = False
    with serving(app(source, ending=lambda: ended), host, port, names) as taken:
        try:
            yield f"http://{f'[{host}]' if ':' in host else host}:{taken}/"
        finally:
            ended = True  # or the server would wait for them
