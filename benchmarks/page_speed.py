"""How long a page takes of a federation with a long history: `python benchmarks/page_speed.py --clients 20`.

It makes the control messages of so many clients and rounds, reads them as the page does, and tells the seconds until
the page of the end of the log can be shown, and until all of it is read; then what a view, a view of the past and a
round cost, and how many bytes they are. With Chromium on the path it also opens the page.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from streamfl.live.page.history import PageHistory
from streamfl.live.page.service import FIRST, shown
from streamfl.live.page.source import PageSource
from streamfl.protocol.alarm import Reading
from streamfl.protocol.messages import (
    Accepted,
    FromCoordinator,
    Joined,
    Restarted,
    RoundClosed,
    RoundOpened,
    Served,
)
from streamfl.protocol.records import Span
from streamfl.run.page.sections import changed
from streamfl.runtime.log.control import ControlReader, written

SIZE = 50


def told(clients: int, rounds: int) -> Iterator[FromCoordinator]:
    """Yield what a coordinator tells; every 500 rounds it begins again."""
    rng = random.Random(1)
    names = [f"plant-{i:04d}" for i in range(clients)]
    for name in names:
        yield Joined(client=name, nonce="a", incarnation=1, entry=1, positions={}, read=0)
    for t in range(1, rounds + 1):
        epoch = 1 + (t - 1) // 500
        yield _opened(t, epoch)
        yield _closed(t, epoch, [name for name in names if rng.random() > 0.01], 0.8 + rng.gauss(0.0, 0.01))
        if t % 500 == 0:
            yield Restarted(
                round=t,
                epoch=epoch + 1,
                cause="excess",
                statistic=113.8,
                threshold=9.21,
                chosen="scratch",
                since=t,
                clients=tuple(names[:50]),
                labels=("1", "2"),
                scores={f"recall-{i}": 0.2 + 0.03 * i for i in range(12)},
            )
    yield _opened(rounds + 1, 1 + rounds // 500)


def _opened(t: int, epoch: int) -> RoundOpened:
    return RoundOpened(entry=t, round=t, epoch=epoch, block=1, registry=1, slots=(), serves="rung-1", known_labels=7)


def _closed(t: int, epoch: int, names: list[str], accuracy: float) -> RoundClosed:
    records = SIZE * len(names)
    accepted = tuple(
        Accepted(
            client=name,
            attempt=f"1-{t}",
            spans=(Span(f"forest.records.{name}/0", SIZE * (t - 1), SIZE * t),),
            records=SIZE,
            rejected=0,
            measured=(float((7 * i + t) % (SIZE + 1)), 19.0),
        )
        for i, name in enumerate(names)
    )
    served = Served(
        records=records,
        correct=int(records * accuracy),
        no_change=0.38 * records,
        shares={f"linear-{i}": records / 20 for i in range(20)},
    )
    return RoundClosed(
        entry=t,
        round=t,
        epoch=epoch,
        block=1,
        accepted=accepted,
        records=records,
        trained=records,
        rejected=0,
        losses={f"rung-{i}": 0.25 for i in range(9)},
        serves="rung-1",
        readings={"excess": Reading(2.5, 9.21)},
        served=served,
        model="ab" * 32,
        registry=1,
    )


def measured(clients: int, rounds: int) -> PageSource:
    """Read the log as the page does, tell how long that takes, and return what the page shows."""
    log = Path(tempfile.mkstemp()[1])
    sizes = _write(log, told(clients, rounds))
    print(f"{clients} clients, {rounds} rounds: {len(sizes):,} messages, {sum(sizes) / 1e6:.0f} MB")
    with log.open("rb") as file:
        began = time.perf_counter()
        file.seek(sum(sizes[:-FIRST]))
        _read(file, sizes[-FIRST:])
        print(f"  the page of the last {FIRST} messages: {time.perf_counter() - began:.2f} s")
        file.seek(0)
        began = time.perf_counter()
        history = _read(file, sizes)
        print(f"  all of the log: {time.perf_counter() - began:.1f} s, {history.bytes / 1e6:.1f} MB held")
    log.unlink()
    source = PageSource("forest", history)
    _tell(source, clients, rounds)
    return source


def _write(log: Path, messages: Iterator[FromCoordinator]) -> list[int]:
    sizes = []
    with log.open("wb") as file:
        for message in messages:
            for value, _ in written(message):
                sizes.append(file.write(value))
    return sizes


def _read(file, sizes: list[int]) -> PageHistory:
    history, reader = PageHistory(), ControlReader()
    for size in sizes:
        message = reader.read(file.read(size), ())
        if message is not None:
            history.hear(message, 1_700_000_000_000)
    return history


def _tell(source: PageSource, clients: int, rounds: int) -> None:
    began = time.perf_counter()
    _, now = source.now()
    view = msgspec.json.encode(now)
    print(f"  a view: {1e3 * (time.perf_counter() - began):.0f} ms, {len(view) / 1e3:.0f} kB")
    for entry in (rounds // 3, rounds - 1):
        began = time.perf_counter()
        assert source.as_of(entry) is not None
        print(f"  as of entry {entry:,}: {1e3 * (time.perf_counter() - began):.0f} ms")
    began = time.perf_counter()
    source.history.hear(_closed(rounds + 1, 1 + rounds // 500, [f"plant-{i:04d}" for i in range(clients)], 0.8))
    _, after = source.now()
    change = msgspec.json.encode(changed(now, after))
    print(f"  a round more: {1e3 * (time.perf_counter() - began):.0f} ms, {len(change) / 1e3:.0f} kB to each page")


def opened(source: PageSource) -> None:
    """Open the page in Chromium, if it is there, and tell how long it takes."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from integration.chromium import FOUND, browser  # noqa: PLC0415  only tests have it

    if FOUND is None:
        return
    folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with shown(source, "0") as url, folder as path, browser(Path(path)) as tab:
        for what in ("first", "second"):
            began = time.perf_counter()
            tab.open(url)
            tab.until("!!document.querySelector('[data-name=records]') && !!document.querySelector('#ledger button')")
            print(f"  in Chromium, {what} time: {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=100_000)
    arguments = parser.parse_args()
    opened(measured(arguments.clients, arguments.rounds))
