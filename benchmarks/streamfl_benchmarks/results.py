"""Finished runs on disk, which need not be run again."""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from streamfl.arrays import FloatArray
from streamfl.errors import UsageError
from streamfl_benchmarks import run_file
from streamfl_benchmarks.origin import OF_TODAY, Origin
from streamfl_benchmarks.run import Finished, Run
from streamfl_benchmarks.run_file import Kept


@dataclass
class Results:
    """The runs that have finished, in memory and, with a path, in a file of runs (`streamfl_benchmarks.run_file`).

    The losses of each round would make that file a hundred times as long, and only figures need them. Those that were
    asked for are kept next to it, in an archive of arrays: the name of the file with `.rounds.npz` as its ending.

    Parameters
    ----------
    path
        The file; None keeps nothing on disk.
    renew
        Whether runs that other code has made are missing. They are made again, with the constants that they have.
    """

    path: Path | None = None
    renew: bool = False
    runs: dict[str, Run] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    losses: dict[str, FloatArray] = field(default_factory=dict)
    # Of the runs to come; noted now, because code that is changed later is not what this process runs.
    origin: Origin = field(default_factory=lambda: Origin.now("drift"))

    @classmethod
    def read(cls, path: Path | None, *, renew: bool = False) -> "Results":
        """Return the runs in a file; none if there is no such file.

        Raises
        ------
        UsageError
            If the file exists and is not of this benchmark.
        """
        results = cls(path, renew)
        if path is not None and path.exists():
            for origin, run in _runs(path):
                results.runs[run.key] = run
                results.origins[run.key] = origin
            results.losses = {key: losses for key, losses in kept_losses(path).items() if key in results.runs}
        return results

    def has(self, key: str, *, losses: bool) -> bool:
        """Return whether a run is there, with the losses of its rounds if they are needed."""
        is_there = key in self.runs and (not losses or key in self.losses)
        return is_there and not (self.renew and self.origins[key].age != OF_TODAY)

    def variant(self, key: str) -> str | None:
        """Return the constants of a run that is there, also if it is to be made again; None if there is none."""
        return self.runs[key].variant if key in self.runs else None

    def add(self, finished: Finished, *, losses: bool) -> None:
        """Add a run, and write all of them, so that no finished run is lost if the process ends.

        With `losses` also the losses of its rounds.
        """
        key = finished.run.key
        self.runs[key] = finished.run
        self.origins[key] = self.origin
        self.losses.pop(key, None)
        if losses:
            self.losses[key] = finished.losses
        if self.path is not None:
            self._write(self.path)

    def _write(self, path: Path) -> None:
        self._write_losses(_beside(path))
        run_file.write(path, (Kept(self.origins[key], run.model_dump(mode="json")) for key, run in self.runs.items()))

    def _write_losses(self, path: Path) -> None:
        if not self.losses:
            path.unlink(missing_ok=True)
            return
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **self.losses)
            part.replace(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def _beside(path: Path) -> Path:
    return path.with_suffix(".rounds.npz")


def _runs(path: Path) -> list[tuple[Origin, Run]]:
    kept = run_file.read(path)
    try:
        return [(origin, Run.model_validate(run)) for origin, run in kept]
    except ValidationError:
        raise UsageError(f"--json {path}: it holds no runs of this benchmark; name another file") from None


def kept_losses(runs: Path) -> Mapping[str, FloatArray]:
    """Return the losses of each round, shape (rounds,), that are kept next to a file of runs, by the key of the run.

    Raises
    ------
    UsageError
        The archive is damaged.
    """
    path = _beside(runs)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, zipfile.BadZipFile):
        raise UsageError(f"{path}: the file is damaged; delete it, and its runs are repeated for a figure") from None
