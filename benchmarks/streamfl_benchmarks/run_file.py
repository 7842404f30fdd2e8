"""Finished runs in a file, each with its origin: the same runs give the same bytes.

A file is JSON, compressed if its name ends with `.gz`, with one line for each run: a list of batches, each with an
origin, the seeds of its runs, and the runs. A run is an object that says its `seed`.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from streamfl.errors import UsageError
from streamfl_benchmarks.origin import Origin

Row = Mapping[str, Any]


class Kept(NamedTuple):
    """A run, and where it comes from."""

    origin: Origin
    run: Row


class _Batch(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    origin: Origin
    seeds: tuple[int, ...]
    runs: tuple[dict[str, Any], ...]


def read(path: Path) -> list[Kept]:
    """Return the runs of a file.

    Raises
    ------
    UsageError
        If it cannot be read, or is no such file.
    """
    try:
        batches = TypeAdapter(tuple[_Batch, ...]).validate_json(_plain(path, path.read_bytes()))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValidationError, EOFError, zlib.error):
        raise UsageError(f"{path}: it holds no runs of this benchmark; name another file") from None
    for batch in batches:
        if _seeds(batch.runs) != batch.seeds:
            raise UsageError(f"{path}: its runs have other seeds than it says; take it from the repository again")
    return [Kept(batch.origin, run) for batch in batches for run in batch.runs]


def write(path: Path, kept: Iterable[Kept]) -> None:
    """Write runs atomically, those of one origin together, in the order in which the origins are met.

    Raises
    ------
    UsageError
        If the file cannot be written.
    """
    batches: dict[str, list[Kept]] = {}
    for each in kept:
        batches.setdefault(each.origin.model_dump_json(), []).append(each)
    text = "[\n" + ",\n".join(map(_text, batches.values())) + "\n]\n"
    # The time of writing and the name are left out of the header.
    content = gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode()
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def continued(path: Path, origin: Origin, wanted: Iterable[Row], make: Callable[[Row], Row]) -> Iterator[Row]:
    """Yield the wanted runs: those that a file has, and others, which are made and added to it one by one.

    Parameters
    ----------
    path
        The file; it need not exist.
    origin
        That of the runs to come.
    wanted
        Of each run the fields by which it is known.
    make
        Returns a run's other fields.
    """
    kept = read(path) if path.exists() else []
    for one in wanted:
        found = next((each.run for each in kept if one.items() <= each.run.items()), None)
        if found is None:
            found = {**one, **make(one)}
            kept.append(Kept(origin, found))
            write(path, kept)
        yield found


def _plain(path: Path, content: bytes) -> bytes:
    return gzip.decompress(content) if path.suffix == ".gz" else content


def _text(batch: list[Kept]) -> str:
    runs = [each.run for each in batch]
    head = f'{{"origin": {json.dumps(batch[0].origin.model_dump(mode="json"))},\n"seeds": {list(_seeds(runs))},\n'
    return head + '"runs": [\n' + ",\n".join(map(json.dumps, runs)) + "\n]}"


def _seeds(runs: Iterable[Row]) -> tuple[int, ...]:
    return tuple(sorted({run["seed"] for run in runs}))
