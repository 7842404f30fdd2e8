"""How old the runs are: which of them other code has made than is here."""

from collections.abc import Iterator
from pathlib import Path

from streamfl_benchmarks import run_file
from streamfl_benchmarks.origin import OF_TODAY, Origin
from streamfl_benchmarks.pages.made import ENDING


def ages(folder: Path) -> Iterator[str]:
    """Yield a line for the runs of each origin in a folder that are not of today's code."""
    for path in sorted(folder.glob(f"*{ENDING}")):
        counts: dict[str, tuple[Origin, int]] = {}
        for origin, _ in run_file.read(path):
            key = origin.model_dump_json()
            counts[key] = (origin, counts.get(key, (origin, 0))[1] + 1)
        for origin, n in counts.values():
            if (age := origin.age) != OF_TODAY:
                told = f"{n} runs {age}, {origin.date}, version {origin.version}"
                yield f"{path.name.removesuffix(ENDING)}: {told}: {origin.command}"
