"""Delays of a federation with an interval clock: to report a drift, and to close an empty round."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from kafka import TopicPartition

from live.federation import Federation, Timed, World, federation, times_of
from live.records import arriving, clients, produced
from streamfl.protocol.messages import Restarted, RoundClosed, RoundOpened

CLIENTS = 10
INTERVAL = 2.0
EACH = 90  # records a client and interval
FIRST, APART = 16, 20  # rounds before the first swap, and between two


# --- restart-delay -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Swap:
    """A class swap: where it begins in every client's log."""

    number: int
    offset: int


def restart_delay(world: World, runs: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the time from the records of each swap to Restarted; one federation measures all."""
    rounds = [FIRST + APART * i for i in range(runs)]
    swaps = [Swap(i, (at - 1) * EACH) for i, at in enumerate(rounds, 1)]
    if all(f"swap {swap.number}" in done for swap in swaps):
        return
    tables = {
        "federation": {"min_clients": CLIENTS},
        "rounds": {"clock": "interval", "interval": INTERVAL, "size": EACH, "quorum": "all", "deadline": 1.0},
    }
    each, rate = EACH * (rounds[-1] + APART), EACH * CLIENTS / INTERVAL
    with federation(world, tables) as live:
        live.start("coordinator")
        with arriving(live, clients(CLIENTS), each, rate, f"class-swap@{','.join(map(str, rounds))}") as producer:
            live.start("client")
            producer.result(120 + each * CLIENTS / rate)
        live.when("RoundClosed", 60, lambda closed: not closed.records)
        yield from _delays(live, swaps)


def _delays(live: Federation, swaps: list[Swap]) -> Iterator[tuple[str, dict[str, Any]]]:
    published = live.messages()
    restarts = [t for t in published if isinstance(t.message, Restarted)]
    for swap in swaps:
        starts = dict.fromkeys(_partitions(live), swap.offset)
        began = min(times_of(live.world.bootstrap, starts).values())
        end = began + APART * INTERVAL
        found = next((t for t in restarts if began <= t.at < end), None)
        yield f"swap {swap.number}", {"found": False} if found is None else _delay(live, published, found, began)


def _delay(live: Federation, published: list[Timed], restarted: Timed, began: float) -> dict[str, Any]:
    alarm: int = restarted.message.round  # type: ignore[union-attr]
    closed = next(t.message for t in published if isinstance(t.message, RoundClosed) and t.message.round == alarm)
    opened = next(t for t in published if isinstance(t.message, RoundOpened) and t.message.round == alarm)
    closes = opened.at + opened.message.closes  # type: ignore[union-attr, operator]
    ends = {
        TopicPartition(span.partition.rpartition("/")[0], 0): span.end - 1
        for accepted in closed.accepted  # type: ignore[union-attr]
        for span in accepted.spans
    }
    return {
        "found": True,
        "round": alarm,
        "from_first_record": restarted.at - began,
        "from_last_record": restarted.at - max(times_of(live.world.bootstrap, ends).values()),
        "from_closes": restarted.at - closes,
    }


def _partitions(live: Federation) -> list[TopicPartition]:
    return [TopicPartition(f"{live.name}.records.{client}", 0) for client in clients(CLIENTS)]


def restart_table(done: dict[str, Any]) -> list[str]:
    found = [one for name, one in done.items() if name.startswith("swap ") and one["found"]]
    missed = sum(not one["found"] for name, one in done.items() if name.startswith("swap "))
    if not found and not missed:
        return []
    lines = [
        f"Restart after a class swap, {CLIENTS} clients, {EACH * CLIENTS} records an interval of {INTERVAL:g} s;"
        f" {len(found)} found, {missed} missed.",
        "",
        "| from | median, s | least | most |",
        "| --- | --- | --- | --- |",
    ]
    words = {
        "from_first_record": "first drifted record's arrival",
        "from_last_record": "arrival of the record that completes the drifted round",
        "from_closes": "closing time of that round",
    }
    for name, word in words.items():
        values = sorted(one[name] for one in found)
        if values:
            lines.append(f"| {word} | {median(values):.3f} | {values[0]:.3f} | {values[-1]:.3f} |")
    return lines


# --- empty-round ---------------------------------------------------------------------------------------------------

EMPTY_ROUNDS, EMPTY_INTERVAL = 100, 0.5


def empty_round(world: World, _: int, done: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the times from `closes` to RoundClosed of empty rounds, after rounds with records."""
    if "rounds" in done:
        return
    tables = {
        "federation": {"min_clients": CLIENTS},
        "rounds": {"clock": "interval", "interval": EMPTY_INTERVAL, "size": EACH, "quorum": "all", "deadline": 1.0},
    }
    with federation(world, tables) as live:
        produced(live, clients(CLIENTS), 20 * EACH, end=False)
        live.start("coordinator")
        live.start("client")
        live.when("RoundClosed", 60, lambda closed: closed.records > 0)
        live.when("RoundClosed", 60, lambda closed: not closed.records)
        wanted = world.size(EMPTY_ROUNDS)
        closes: dict[int, float] = {}
        delays: list[float] = []
        for published in live.new_messages(60 + 2 * wanted * EMPTY_INTERVAL):
            match published.message:
                case RoundOpened(entry=entry, closes=float(seconds)):
                    closes[entry] = published.at + seconds
                case RoundClosed(entry=entry, records=0) if entry in closes:
                    delays.append(published.at - closes[entry])
            if len(delays) == wanted:
                break
        yield "rounds", {"delays": delays}


def empty_table(done: dict[str, Any]) -> list[str]:
    if "rounds" not in done:
        return []
    delays = sorted(done["rounds"]["delays"])
    late = delays[min(len(delays) - 1, int(0.95 * len(delays)))]
    return [
        f"A round without records, from its closing time to RoundClosed, {len(delays)} rounds of {CLIENTS} clients:"
        f" median {1000 * median(delays):.0f} ms, 95% {1000 * late:.0f} ms, most {1000 * delays[-1]:.0f} ms."
    ]
