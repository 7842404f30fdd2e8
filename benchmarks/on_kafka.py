"""Measures a live federation on a real broker: throughput, recovery from kills, and takeovers.

    python benchmarks/on_kafka.py --json results.json                       everything
    python benchmarks/on_kafka.py --tenth --json tenth.json throughput      a tenth of one part

Parts: throughput, recovery, takeover (--runs 200), loaded (--minutes 60). Unless --bootstrap names a broker, an
Apache Kafka is started in a temporary folder. The processes are those that a user starts. Finished measurements are
kept in the JSON file and not repeated. (This file is not named kafka.py, which would hide the library.)
"""

import json
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from deploy.broker import Broker
from live import recovery, standby, throughput
from live.federation import World
from streamfl.errors import StreamflError

LIBS = Path(__file__).parents[1] / ".kafka" / "libs"
PARTS = {
    "throughput": (throughput.measure, throughput.table),
    "recovery": (recovery.recovery, recovery.table),
    "takeover": (standby.takeover, standby.takeover_table),
    "loaded": (standby.loaded, standby.loaded_table),
}


def machine(broker: str) -> dict[str, Any]:
    """Return the machine and versions that the figures depend on."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    libraries = {name: version(name) for name in ("streamfl", "kafka-python", "crc32c", "msgspec", "numpy")}
    return {
        "cores": os.cpu_count(),
        "cpu": cpu[0].partition(": ")[2] if cpu else platform.machine(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "broker": broker,
        **libraries,
    }


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("parts", nargs=-1, type=click.Choice(tuple(PARTS)))
@click.option("--json", "to", type=click.Path(path_type=Path), required=True, help="File of results.")
@click.option("--bootstrap", metavar="HOST:PORT", help="A running broker. Default: start one.")
@click.option("--runs", type=click.IntRange(1), default=7, show_default=True, help="Repetitions.")
@click.option(
    "--minutes",
    type=click.FloatRange(0.0, min_open=True),
    help="Minutes of load. Default: 10, or 1 with --tenth.",
)
@click.option("--load", type=click.IntRange(0), help="Busy loops of the part loaded. Default: one for each core.")
@click.option("--tenth", is_flag=True, help="Measure with a tenth of the size, to try it out.")
@click.option("--logs", type=click.Path(path_type=Path), help="Folder for settings and logs of all processes.")
def main(
    parts: tuple[str, ...],
    to: Path,
    bootstrap: str | None,
    runs: int,
    minutes: float | None,
    logs: Path | None,
    load: int | None,
    *,
    tenth: bool,
) -> None:
    """Measure PARTS (default: all) of a live federation on Kafka, and print the figures."""
    done: dict[str, dict[str, Any]] = json.loads(to.read_text()) if to.exists() else {}
    with ExitStack() as stack:
        folder = logs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if bootstrap is None:
                data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                broker = stack.enter_context(Broker.start(data, libs=LIBS))
                bootstrap, what = broker.bootstrap, f"Apache Kafka {broker.version}, one node"
            else:
                what = "given"
            done["machine"] = machine(what)
            world = World(bootstrap, folder.resolve(), tenth, minutes or (1.0 if tenth else 10.0), load)
            for part in parts or PARTS:
                run(part, world, runs, done, to)
        except StreamflError as error:
            raise click.ClickException(str(error)) from error
    for part in PARTS:
        for scale, kept in (("", part), (" (a tenth of the size)", f"{part}, a tenth")):
            lines = PARTS[part][1](done.get(kept, {}))
            if lines:
                click.echo("\n".join(["", f"### {part}{scale}", "", *lines]))


def run(part: str, world: World, runs: int, done: dict[str, dict[str, Any]], to: Path) -> None:
    """Make the missing measurements of a part, and save each when it is done."""
    kept = done.setdefault(f"{part}, a tenth" if world.tenth else part, {})
    measured: Iterator[tuple[str, dict[str, Any]]] = PARTS[part][0](world, runs, kept)
    for key, figures in measured:
        kept[key] = figures
        to.write_text(json.dumps(done, indent=1))
        click.echo(f"{part}: {key}: {_short(figures)}", err=True)


def _short(figures: dict[str, Any]) -> str:
    return json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()})[:200]


if __name__ == "__main__":
    main()
