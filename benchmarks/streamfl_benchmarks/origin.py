"""Where a run comes from: its command, machine, date, version, and the digest of the code that made it."""

import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from streamfl import __version__
from streamfl_benchmarks.code import CODE, UNKNOWN, digest, is_of_today

# The age of runs that the code made that is here.
OF_TODAY = "of this code"


class Origin(BaseModel):
    """What was noted when a run was made; "unknown" where nothing was.

    Parameters
    ----------
    command
        What was typed.
    settings
        What all these runs share and their rows do not say.
    machine, date, version
        Processor and software, the day, and the version of streamfl.
    code, digest
        Paths of the code that the runs depend on, and its SHA-256; see `streamfl_benchmarks.code`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str
    settings: dict[str, float | str] = {}
    machine: str
    date: str
    version: str
    code: tuple[str, ...]
    digest: str

    @classmethod
    def now(cls, benchmark: str, settings: Mapping[str, float | str] | None = None) -> "Origin":
        """Return the origin of the runs that this process makes from now on.

        Parameters
        ----------
        benchmark
            The name of their code in `streamfl_benchmarks.code`.

        >>> origin = Origin.now("regret", {"clients": 3})
        >>> origin.settings, len(origin.digest), origin.age
        ({'clients': 3.0}, 64, 'of this code')
        """
        return cls(
            command=typed(sys.argv),
            settings=dict(settings or {}),
            machine=machine(),
            date=datetime.now(UTC).date().isoformat(),
            version=__version__,
            code=CODE[benchmark],
            digest=digest(CODE[benchmark]),
        )

    @property
    def age(self) -> str:
        """Return how the code that made the run compares with what is here."""
        if self.digest == UNKNOWN:
            return "of unknown code"
        return OF_TODAY if is_of_today(self.code, self.digest) else "of older code"


def typed(words: Sequence[str]) -> str:
    """Return a command line, absolute paths by their names alone: other machines have other folders.

    >>> typed(["/home/ann/.venv/bin/streamfl", "bench", "drift", "--data", "/data/mnist", "--seeds", "1,2"])
    'streamfl bench drift --data mnist --seeds 1,2'
    """
    return shlex.join(Path(word).name if Path(word).is_absolute() else word for word in words)


def machine() -> str:
    """Return the processor and the software that figures may depend on."""
    software = f"{platform.python_implementation()} {platform.python_version()}, NumPy {np.__version__}"
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, {software}"


def _processor() -> str:
    """Return the model of the processor, which `platform` does not know on Linux."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
