"""Finished runs on disk: figures in a JSON file, and which records were right in an archive next to it."""

import fcntl
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from streamfl.errors import UsageError

Bits = npt.NDArray[np.uint8]


class Run(BaseModel):
    """One method on one stream.

    `digest` is of the records. `silent`: records for which nothing was predicted; they count as wrong.
    `cpu_seconds` is of all threads of the process, `wall_seconds` what passed, both of predicting and learning only.
    `model_bytes`: the pickled model, or for CapyMOA what it keeps alive in Java's heap. `resident_bytes`: by how much
    the process grew, from loaded libraries to the last record; for CapyMOA that is mostly what Java has not
    collected yet.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    stream: str
    digest: str
    records: int
    method: str
    variant: str
    seed: int
    accuracy: float
    kappa: float | None
    temporal_kappa: float | None
    silent: int
    cpu_seconds: float
    wall_seconds: float
    model_bytes: int
    resident_bytes: int
    versions: tuple[str, ...]

    @property
    def key(self) -> str:
        return key(self.stream, self.digest, self.method, self.variant, self.seed)


def key(stream: str, digest: str, method: str, variant: str, seed: int) -> str:
    """Return the key of a run."""
    return f"{stream}/{digest}/{method}/{variant}/{seed}"


@dataclass
class Results:
    """Finished runs. Several processes may add to one file: each merges the runs of the others.

    Parameters
    ----------
    path
        The JSON file: a list of runs. `.bits.npz` in place of its ending is the archive.
    """

    path: Path
    runs: dict[str, Run] = field(default_factory=dict)
    bits: dict[str, Bits] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Return the runs of a file; none if there is no file.

        Raises
        ------
        UsageError
            If the file exists and is not of this benchmark.
        """
        results = cls(path)
        results._read()
        return results

    def has(self, key: str) -> bool:
        return key in self.runs

    def right(self, key: str) -> npt.NDArray[np.bool_]:
        """Return which records of a run were predicted correctly, shape (n,)."""
        return np.unpackbits(self.bits[key], count=self.runs[key].records).astype(np.bool_)

    def add(self, run: Run, right: npt.NDArray[np.bool_]) -> None:
        """Add a run, and write all of them."""
        with _alone(self.path):
            self._read()
            self.runs[run.key] = run
            self.bits[run.key] = np.packbits(right)
            self._write()

    def _read(self) -> None:
        try:
            plain = json.loads(self.path.read_text(encoding="utf-8"))
            runs = [Run.model_validate(run) for run in plain]
            with np.load(self._beside, allow_pickle=False) as archive:
                bits = dict(archive)
        except FileNotFoundError:
            return
        except (ValueError, TypeError, ValidationError, zipfile.BadZipFile):
            raise UsageError(f"--json {self.path}: it holds no runs of this benchmark; name another file") from None
        self.runs = {run.key: run for run in runs if run.key in bits}
        self.bits = {key: bits[key] for key in self.runs}

    def _write(self) -> None:
        with _partial(self._beside).open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **self.bits)
        runs = [run.model_dump(mode="json") for run in self.runs.values()]
        _partial(self.path).write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
        for place in (self._beside, self.path):
            _partial(place).replace(place)

    @property
    def _beside(self) -> Path:
        return self.path.with_suffix(".bits.npz")


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
