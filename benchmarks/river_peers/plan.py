"""The wanted runs, and how one is made: in a new process, so that runs do not affect one another, or in this one."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from river_peers import figures
from river_peers.figures import Marks
from river_peers.methods import Task, make, variants
from river_peers.results import Run, key
from river_peers.streams import Stream
from river_peers.trial import UNAVAILABLE, made
from streamfl.errors import StreamflError

HERE = Path(__file__).parents[1]
LINES_OF_ERROR = 5


class FailedError(StreamflError):
    """A run ended with an error."""


class UnavailableError(StreamflError):
    """The library of a method is not installed."""


@dataclass(frozen=True)
class Wanted:
    """One run to make."""

    stream: str
    method: str
    variant: str
    seed: int

    @property
    def foreign(self) -> bool:
        """Return whether it needs the environment of CapyMOA."""
        return self.method.startswith("capymoa")

    def key(self, digest: str) -> str:
        return key(self.stream, digest, self.method, self.variant, self.seed)


def wanted(
    streams: Sequence[str], methods: Sequence[str], asked: Sequence[str], seeds: Sequence[int]
) -> Iterator[Wanted]:
    """Yield runs, a method after the other in the order given, so that cheap ones can come first.

    Only streamfl methods have variants with several clients.
    """
    for method in methods:
        for variant in asked:
            if variant in variants(method):
                for name in streams:
                    yield from (Wanted(name, method, variant, seed) for seed in seeds)


@dataclass(frozen=True)
class Bench:
    """Makes runs.

    Parameters
    ----------
    streams
        The records that every method gets.
    capymoa
        The interpreter of an environment with CapyMOA; None if there is none.
    here
        Whether runs are made in this process, if it has their library, which takes less time; then their times and
        memory mean nothing.
    """

    streams: Mapping[str, Stream]
    capymoa: Path | None
    here: bool = False

    def make(self, run: Wanted) -> tuple[Run, Marks]:
        """Return the figures of a run, and which records were predicted correctly.

        Raises
        ------
        UnavailableError
            If the method's library is not installed.
        FailedError
            If it ended with another error.
        """
        stream = self.streams[run.stream]
        if self.here and not run.foreign:
            learner = make(run.method, run.variant, Task(stream.features, stream.labels, run.seed))
            return _figures(run, stream, made(learner, stream.X, stream.y))
        with TemporaryDirectory() as folder:
            given, out = Path(folder) / "stream.npz", Path(folder) / "out.npz"
            np.savez(
                given,
                X=stream.X,
                y=stream.y,
                features=np.array(stream.features),
                labels=stream.labels,
                allow_pickle=False,
            )
            self._try(run, given, out)
            with np.load(out, allow_pickle=False) as found:
                return _figures(run, stream, found)

    def _try(self, run: Wanted, given: Path, out: Path) -> None:
        if run.foreign and self.capymoa is None:
            raise UnavailableError(f"{run.method}: left out; --capymoa-python names an interpreter that has CapyMOA")
        program = str(self.capymoa) if run.foreign else sys.executable
        arguments = (str(given), str(out), run.method, run.variant, str(run.seed))
        ended = subprocess.run(
            [program, "-m", "river_peers.trial", *arguments],
            env=_environment(foreign=run.foreign),
            capture_output=True,
            text=True,
            check=False,
        )
        last = "\n".join(ended.stderr.strip().splitlines()[-LINES_OF_ERROR:])
        if ended.returncode == UNAVAILABLE:
            raise UnavailableError(f"{run.method}: left out: {last}")
        if ended.returncode:
            raise FailedError(
                f"{run.method}, {run.variant}, on {run.stream}: failed with {ended.returncode}:\n{last}"
            )


def _environment(*, foreign: bool) -> dict[str, str]:
    inherited = os.environ.get("PYTHONPATH", "")
    path = str(HERE) if foreign or not inherited else os.pathsep.join((str(HERE), inherited))
    return {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _figures(run: Wanted, stream: Stream, found: Mapping[str, np.ndarray]) -> tuple[Run, Marks]:
    guesses = found["guesses"].astype(np.int64)
    made = Run(
        stream=run.stream,
        digest=stream.digest,
        records=len(stream),
        method=run.method,
        variant=run.variant,
        seed=run.seed,
        accuracy=figures.accuracy(stream.y, guesses),
        kappa=figures.kappa(stream.y, guesses),
        temporal_kappa=figures.temporal_kappa(stream.y, guesses),
        silent=int((guesses < 0).sum()),
        cpu_seconds=float(found["cpu"]),
        wall_seconds=float(found["wall"]),
        model_bytes=int(found["model"]),
        resident_bytes=int(found["resident"]),
        versions=tuple(found["versions"].tolist()),
    )
    return made, guesses == stream.y
