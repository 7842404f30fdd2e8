"""Compares what reading records costs through kafka-python and through librdkafka: CPU time on the same messages.

    python benchmarks/readers.py --seeds 7 --json benchmarks/runs/readers.json.gz

In each turn both connectors read the same topics, one after the other and in the other order in the next turn: only
the messages; the messages decoded into rows; and a host that learns from them until their end, with its start. CPU
time is that of the whole process, with all its threads. Unless --bootstrap names a broker, an Apache Kafka is started
in a temporary folder. Finished turns are kept in the JSON file and not repeated.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import click
from kafka import TopicPartition

from deploy.broker import Broker
from live.federation import World, federation, fresh
from live.records import clients, produced
from streamfl.errors import StreamflError
from streamfl.live.settings.installed import connector_named
from streamfl.records.formats import FieldMap, record_format
from streamfl_benchmarks import run_file
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Kept

LIBS = Path(__file__).parents[1] / ".kafka" / "libs"
CLIENTS, PATIENCE = 10, 600.0
CONNECTORS = ("kafka", "confluent")

# Records of a client, by their form.
EACH = {"json": 10_000, "packed": 60_000}
WHAT = ("messages", "rows", "host")


def read(bootstrap: str, connector: str, topics: list[str], form: str, each: int, *, decode: bool) -> float:
    """Return the CPU seconds in which the records of all topics are read, with the consumer's start and end."""
    kind = connector_named(connector)
    connection = kind("f", kind.Settings.model_validate({"bootstrap_servers": bootstrap}))._connection  # type: ignore[attr-defined]
    records, left = record_format(form, FieldMap()), {TopicPartition(topic, 0) for topic in topics}
    began = time.process_time()
    with closing(connection.record_reader("f.clients")) as reader:
        reader.assign(sorted(left))
        for partition in left:
            reader.seek(partition, 0)
        while left:
            for partition, messages in reader.poll(timeout_ms=100).items():
                valued = [one for one in messages if one.value is not None]
                left -= {partition} if len(valued) < len(messages) else set()
                if decode:
                    records.decode([one.offset for one in valued], [one.value for one in valued])
    return time.process_time() - began


def host(world: World, connector: str, topics: str, form: str) -> float:
    """Return the CPU seconds of a host that learns all records, from its start to its end."""
    tables: dict[str, dict[str, Any]] = {
        "federation": {"min_clients": CLIENTS, "connector": connector},
        "rounds": {"clock": "records", "size": 1000, "quorum": "all", "deadline": 0},
        "records": {"topics": [topics], "format": form},
        connector: {"bootstrap_servers": world.bootstrap},
    }
    with federation(world, tables) as live:
        coordinator = live.start("coordinator", "--until-end")
        client = live.start("client", "--until-end")
        client.wait(PATIENCE)
        coordinator.wait(PATIENCE)
        return client.cpu


def turns(world: World, seeds: int, done: set[int]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each turn: microseconds of CPU a record by connector, and their ratio."""
    prefix = fresh("readers")
    for form, each in EACH.items():
        tables = {"records": {"topics": [f"{prefix}.{form}.*"], "format": form}}
        with federation(world, tables) as writer:
            produced(writer, clients(CLIENTS), each, end=True)
    for seed in sorted(set(range(1, seeds + 1)) - done):
        rows = []
        for form, each in EACH.items():
            topics = [f"{prefix}.{form}.{client}" for client in clients(CLIENTS)]
            for what in WHAT:
                cpu = {}
                for connector in CONNECTORS[:: 1 if seed % 2 else -1]:
                    if what == "host":
                        seconds = host(world, connector, f"{prefix}.{form}.*", form)
                    else:
                        seconds = read(world.bootstrap, connector, topics, form, each, decode=what == "rows")
                    cpu[connector] = 1e6 * seconds / (CLIENTS * each)
                rows.append(
                    {"seed": seed, "form": form, "what": what, **cpu, "ratio": cpu["kafka"] / cpu["confluent"]}
                )
        yield rows


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", type=click.IntRange(1), default=7, show_default=True, help="Turns.")
@click.option("--json", "to", type=click.Path(path_type=Path), required=True, help="File of runs.")
@click.option("--bootstrap", metavar="HOST:PORT", help="A running broker. Default: start one.")
def main(seeds: int, to: Path, bootstrap: str | None) -> None:
    """Compare what reading costs, and print the figures."""
    kept, origin = list(run_file.read(to) if to.exists() else ()), Origin.now("readers")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            if bootstrap is None:
                bootstrap = stack.enter_context(Broker.start(folder / "broker", libs=LIBS)).bootstrap
            world = World(bootstrap, folder, tenth=False, minutes=1.0)
            for rows in turns(world, seeds, {one.run["seed"] for one in kept}):
                kept += [Kept(origin, row) for row in rows]
                run_file.write(to, kept)
                for row in rows:
                    click.echo(row)
        except StreamflError as error:
            raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
