"""The models that may serve after an alarm and are not live: ours, and those of other packages.

Live models and relabelled ones are candidates too, see `streamfl.learning.profiles.adaptive.choice`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from streamfl.arrays import FloatArray
from streamfl.errors import UsageError
from streamfl.learning.profiles.adaptive.branch import Branch
from streamfl.learning.profiles.adaptive.recall import RecallPool, Trail
from streamfl.protocol.alarm import Alarm
from streamfl.protocol.registered import Registered


@dataclass(frozen=True, slots=True)
class Remembered:
    """What candidates are made of at an alarm."""

    alarm: Alarm
    scratch: FloatArray  # an untrained model
    incumbent: FloatArray  # the model that served last; its last columns may be of labels that came in this round
    trail: Trail  # the models that served in the last rounds
    pool: RecallPool  # the models of earlier epochs
    branches: Sequence[Branch]  # the models of clients that drifted alone


Candidates = Callable[[Remembered], Mapping[str, FloatArray]]


def scratch(known: Remembered) -> dict[str, FloatArray]:
    """Return an untrained model."""
    return {"scratch": known.scratch}


def recalled(known: Remembered) -> dict[str, FloatArray]:
    """Return the models of earlier epochs."""
    return {name: entry.W for name, entry in known.pool.entries.items()}


def branches(known: Remembered) -> dict[str, FloatArray]:
    """Return the models of clients that drifted alone."""
    return {branch.name: branch.served for branch in known.branches if branch.served is not None}


def ordered(known: Remembered) -> Mapping[str, FloatArray]:
    """Return the model that an operator wants."""
    return known.trail.named(known.alarm.wanted)


# Each is a function that returns models by name, with the rows of `scratch`. Every client scores all of them.
CANDIDATES = Registered[Candidates](
    "candidate",
    None,
    "streamfl.candidates",
    {"scratch": scratch, "recalled": recalled, "branches": branches, "ordered": ordered},
)


def candidates(known: Remembered) -> dict[str, FloatArray]:
    """Return all candidates by name, without columns of labels that clients do not know yet.

    Raises
    ------
    UsageError
        A candidate of another package has a shape that no client can score.
    """
    rows, columns = known.scratch.shape
    made = {name: W[:, :columns] for models in CANDIDATES.values() for name, W in models(known).items()}
    wrong = next((name for name, W in made.items() if W.shape != (rows, columns)), None)
    if wrong is not None:
        raise UsageError(f"candidate {wrong!r} must have {rows} rows and {columns} columns; correct its package")
    return made
