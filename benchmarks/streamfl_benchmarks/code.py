"""Which code the runs of a benchmark depend on, and its digest: by these runs are known that older code has made.

A path is a file, or a folder with all its Python files. What only reads, shows or writes figures is left out, so that
a new option or another table makes no run older. Comments count: a digest that leaves them out would have to read
Python as the interpreter does, and would change with it.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from streamfl.errors import UsageError

ROOT = Path(__file__).parents[2]
UNKNOWN = "unknown"

_LEARNING = tuple(f"streamfl/{room}" for room in ("protocol", "learning", "online", "machines", "models"))
_FEDERATION = (
    *_LEARNING,
    "streamfl/plugins",
    "streamfl/records",
    "streamfl/run/dealing",
    "streamfl/run/settings.py",
    "streamfl/runtime",
)
_ESTIMATORS = (*_FEDERATION, "streamfl/run/estimators")
_RIVER = tuple(
    f"benchmarks/river_peers/{name}.py" for name in ("dealing", "intercept", "methods", "streams", "trial")
)
_LIVE = (*_FEDERATION, "streamfl/live", "streamfl/wire", "connectors/streamfl_connectors/kafka")
_PLANT = (*_LIVE, "benchmarks/live/plant.py")
_OURS = "benchmarks/streamfl_benchmarks"

# By the name of the file of runs, without its ending; those of `paper` are of the code of `drift`.
CODE: dict[str, tuple[str, ...]] = {
    "drift": (
        *_FEDERATION,
        "streamfl/run/replay.py",
        *(
            f"{_OURS}/{name}.py"
            for name in ("drawn", "features", "federated", "findings", "meter", "methods", "one_by_one")
        ),
        f"{_OURS}/peers",
        *(f"{_OURS}/{name}.py" for name in ("plain", "recorded", "records", "run")),
    ),
    "federations": (
        *_FEDERATION,
        "streamfl/run/replay.py",
        "streamfl/run/compare.py",
        f"{_OURS}/natural",
    ),
    "quiet_streams": (*_FEDERATION, "streamfl/run/replay.py", "benchmarks/quiet_streams.py"),
    "targets": (*_ESTIMATORS, "benchmarks/regression.py"),
    "last_answer": (*_FEDERATION, "streamfl/run/replay.py", "benchmarks/last_answer.py"),
    "late_answers": (*_ESTIMATORS, *_RIVER, "benchmarks/late_answers.py"),
    "river": (*_ESTIMATORS, *_RIVER),
    "replay_bytes": (
        *_FEDERATION,
        "streamfl/run/replay.py",
        "streamfl/wire",
        f"{_OURS}/natural/sources.py",
        "benchmarks/replay_bytes.py",
    ),
    "hostile": (
        *_FEDERATION,
        f"{_OURS}/liars/hostile.py",
        f"{_OURS}/liars/knowing.py",
        "benchmarks/hostile.py",
    ),
    "epsilon": (
        *_FEDERATION,
        "streamfl/run/replay.py",
        "benchmarks/epsilon.py",
    ),
    "beside_flower": (
        *_FEDERATION,
        "streamfl/run/replay.py",
        "benchmarks/beside_flower.py",
        "benchmarks/flower_client.py",
    ),
    "growth": (
        *_FEDERATION,
        "streamfl/run/replay.py",
        "benchmarks/growth.py",
    ),
    "masked_drift": (
        *_FEDERATION,
        "streamfl/run/replay.py",
        "benchmarks/masked_drift.py",
    ),
    "on_kafka": (
        *_FEDERATION,
        "streamfl/run/replay.py",
        "streamfl/live",
        "streamfl/wire",
        "connectors/streamfl_connectors/kafka",
        f"{_OURS}/natural/sources.py",
        "benchmarks/natural_on_kafka.py",
    ),
    "plant": _PLANT,
    "plant_300": _PLANT,
    "plant_answers": (*_PLANT, "benchmarks/live/plant_answers.py"),
    "wide": (*_LIVE, "benchmarks/live/wide.py"),
    "readers": ("connectors/streamfl_connectors", "streamfl/runtime/log", "benchmarks/readers.py"),
    "published_matrices": (
        *_FEDERATION,
        "streamfl/run/replay.py",
        f"{_OURS}/features.py",
        f"{_OURS}/matrices",
        f"{_OURS}/peers",
        "benchmarks/published_matrices.py",
    ),
    "published_detectors": (*_ESTIMATORS, "streamfl/drift.py", "benchmarks/published_detectors.py"),
    "regret": (
        *_LEARNING,
        *(f"{_OURS}/{name}.py" for name in ("regret", "regret_driver", "regret_players", "regret_streams")),
    ),
}


def digest(paths: Iterable[str], root: Path = ROOT) -> str:
    """Return the SHA-256 of the Python files at some paths: of their names and bytes, in the order of the names.

    Raises
    ------
    UsageError
        If there is no Python file at one of them.

    >>> import tempfile
    >>> root = Path(tempfile.mkdtemp())
    >>> (root / "a.py").write_text("x = 1")
    5
    >>> before = digest(["a.py"], root)
    >>> before[:8], (root / "a.py").write_text("x = 2"), digest(["a.py"], root) == before
    ('...', 5, False)
    """
    whole = sha256()
    for name, content in sorted(_files(paths, root)):
        whole.update(f"{name} {sha256(content).hexdigest()}\n".encode())
    return whole.hexdigest()


def is_of_today(paths: Sequence[str], known: str, root: Path = ROOT) -> bool:
    """Return whether the code still has a digest; it has not if one of the paths is no longer there.

    >>> is_of_today(["streamfl/gone.py"], "0" * 64), is_of_today(["streamfl/models"], digest(["streamfl/models"]))
    (False, True)
    """
    try:
        return digest(paths, root) == known
    except UsageError:
        return False


def _files(paths: Iterable[str], root: Path) -> set[tuple[str, bytes]]:
    found = set()
    for path in paths:
        place = root / path
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        if not files or not files[0].is_file():
            raise UsageError(f"{path}: there is no Python file; name the code of these runs in {_OURS}/code.py")
        found |= {(file.relative_to(root).as_posix(), file.read_bytes()) for file in files}
    return found
