"""Runs a natural federation on a real broker, and replays it: figures and bytes of the model are compared.

    python benchmarks/natural_on_kafka.py --data DIR --only hosts,skab --json benchmarks/runs/on_kafka.json.gz

The commands are those of a user: `produce`, `client`, `coordinator`. Rounds wait for every client, and are those of a
replay with its defaults: by records, or by event time where the clients' rates differ; then rows count as seconds.
Unless --bootstrap names a broker, an Apache Kafka is started in a temporary folder. Finished runs are kept in the
JSON file and not repeated.
"""

import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from deploy.broker import Broker
from live.federation import Federation, World, fresh
from streamfl.errors import StreamflError
from streamfl.protocol.messages import RoundClosed
from streamfl.records.table import Table
from streamfl.run.dealing.dealing import Log
from streamfl.run.dealing.order import usual_rounds
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.summary import RoundSummary
from streamfl_benchmarks import run_file
from streamfl_benchmarks.natural.sources import CLIENT, TARGET, Source, sources
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Kept

LIBS = Path(__file__).parents[1] / ".kafka" / "libs"
PATIENCE = 600.0  # seconds for all rounds
MIN_RECORDS = 10


@dataclass
class Ledger:
    """What the entries of a federation's ledger say in all."""

    rounds: int = 0
    records: int = 0
    good: float = 0.0
    no_change: float = 0.0
    model: str = ""
    clients: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[RoundClosed], *, targets: bool) -> "Ledger":
        """Add entries up; `good` and `no_change` become an accuracy, of targets a mean absolute error."""
        total = cls()
        for closed in (RoundSummary.of(entry, targets=targets) for entry in entries):
            served = closed.served
            total.rounds, total.model = total.rounds + (closed.records > 0), closed.model
            total.records += served.records
            total.good += served.absolute_error if targets else served.correct
            total.no_change += served.no_change
            for one in closed.accepted:
                total.clients[one.client] = total.clients.get(one.client, 0) + one.records
        total.good, total.no_change = total.good / total.records, total.no_change / total.records
        return total


def run(source: Source, records: int, world: World) -> dict[str, Any]:
    """Return what a replay and a live federation make of the first records of a natural federation."""
    table, logs = source.dealt(records)
    size, period = usual_rounds(table, logs, None, min_records=MIN_RECORDS)
    settings = ReplaySettings(round_size=size, interval=period, min_records=MIN_RECORDS)
    replay, live = _replayed(table, logs, settings), _live(source, table, len(logs), records, settings, world)
    return {
        "federation": source.name,
        "first": records,
        "seed": 0,
        "measure": "accuracy" if table.labels else "mae",
        "size": size,
        "period": period,
        "clients": len(logs),
        "same_bytes": replay.model == live.model,
        "same_records": replay.clients == live.clients,
        **{way: asdict(made) for way, made in (("replay", replay), ("live", live))},
    }


def _replayed(table: Table, logs: dict[str, Log], settings: ReplaySettings) -> Ledger:
    entries = list[RoundClosed]()
    replay = Replay(table, logs, settings)
    replay.observe = lambda event: entries.append(event) if isinstance(event, RoundClosed) else None
    replay.run()
    return Ledger.of(entries, targets=not table.labels)


def _live(source: Source, table: Table, clients: int, records: int, settings: ReplaySettings, world: World) -> Ledger:
    clock: dict[str, Any] = {"clock": "records", "size": settings.round_size}
    if settings.interval is not None:
        clock = {"clock": "event_time", "interval": settings.interval}
    name = fresh("natural")
    tables: dict[str, dict[str, Any]] = {
        "federation": {"min_clients": clients, "task": "classification" if table.labels else "regression"},
        "rounds": {**clock, "quorum": "all", "deadline": 0},
        "records": {"clients": "message-key", "topics": [f"{name}.records"]},
        "records.fields": {"time": "row"},
        "learning": {"features": "auto"},
    }
    with closing(Federation(world, tables, name)) as made:
        file = world.folder / f"{name}.csv"
        source.frame().head(records).write_csv(file)
        words = [str(file), "--label", TARGET, "--split", f"column:{CLIENT}", "--end"]
        made.start("produce", *words).wait(PATIENCE)
        processes = [made.start(command, "--until-end") for command in ("coordinator", "client")]
        for process in processes:
            process.wait(PATIENCE)
        entries = [timed.message for timed in made.messages() if isinstance(timed.message, RoundClosed)]
        return Ledger.of(entries, targets=not table.labels)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--data", type=click.Path(path_type=Path, exists=True), required=True, help="Folder of fed_*.npz.")
@click.option("--only", required=True, help="Names of federations, with commas.")
@click.option("--records", type=click.IntRange(100), default=8000, show_default=True, help="The first so many.")
@click.option("--json", "to", type=click.Path(path_type=Path), required=True, help="File of runs.")
@click.option("--bootstrap", metavar="HOST:PORT", help="A running broker. Default: start one.")
def main(data: Path, only: str, records: int, to: Path, bootstrap: str | None) -> None:
    """Run natural federations on Kafka and in a replay, and compare."""
    found, origin = sources(data), Origin.now("on_kafka")
    kept = {(one.run["federation"], one.run["first"]): one for one in (run_file.read(to) if to.exists() else ())}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            if bootstrap is None:
                bootstrap = stack.enter_context(Broker.start(folder / "broker", libs=LIBS)).bootstrap
            for name in only.split(","):
                if (name, records) not in kept:
                    made = run(found[name], records, World(bootstrap, folder, tenth=False, minutes=1.0))
                    kept[name, records] = Kept(origin, made)
                    run_file.write(to, kept.values())
                    click.echo(f"{name}: {'the same' if made['same_bytes'] else 'OTHER'} bytes; {made['live']}")
        except StreamflError as error:
            raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
