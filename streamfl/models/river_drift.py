"""Drift detectors of River, by name, on the pooled loss of each round."""

import ast
import inspect
from dataclasses import dataclass
from typing import Any, Literal

from river import base, drift

from streamfl.errors import UsageError
from streamfl.learning.drift.detectors.external import ExternalDetector, LibraryDetector
from streamfl.models import RIVER

# River's defaults are for one number a record; here there is one number a round. So ADWIN checks in every round, not
# in every 32nd, and Page-Hinkley's sum need not reach 50, which takes hundreds of rounds of losses in [0, 1].
FOR_ROUNDS: dict[str, dict[str, object]] = {
    "ADWIN": {"clock": 1},
    "PageHinkley": {"threshold": 1.0},
}

# Detectors that cannot take a stream of losses, with the reason. The sums and bounds of the other detectors for hits
# and misses hold for any number in [0, 1].
REFUSED = {
    "binary.EDDM": "it measures the records between two errors, and the loss of a round is neither a hit nor a miss",
    "binary.FHDDM": "it detects when a mean falls, as that of correct predictions does, and never when a loss rises",
    "DriftRetrainingClassifier": "it is a classifier, which has a detector",
}


@dataclass
class RiverDetector(ExternalDetector):
    """A detector of `river.drift`, such as ADWIN, KSWIN or binary.HDDMA(drift_confidence=0.01).

    Parameters that are not named have River's defaults, or others where these do not suit one number a round.
    `kind` and `name` identify it in a saved state.

    Raises
    ------
    UsageError
        River has no such detector, it cannot take a stream of losses, or these parameters are invalid.

    References
    ----------
    Montiel et al., "River: machine learning for streaming data in Python", 2021, and for each detector its own.

    Examples
    --------
    >>> detector = RiverDetector("ADWIN")
    >>> alarms = [detector.take(t, 0.2 if t <= 100 else 0.6, records=1000) for t in range(1, 151)]
    >>> next(alarm for alarm in alarms if alarm).since
    101
    """

    kind: Literal["river"] = "river"

    def built(self) -> LibraryDetector:
        """Return a fresh detector of this name."""
        return _built(self.name)


def river_detectors() -> dict[str, type[Any]]:
    """Return the detectors of `river.drift` that take a stream of losses, by name.

    >>> " ".join(sorted(river_detectors()))
    'ADWIN DummyDriftDetector KSWIN NoDrift PageHinkley binary.DDM binary.HDDMA binary.HDDMW'
    """
    # Some names in drift.__all__ do not exist.
    names = vars(drift) | {f"binary.{key}": kind for key, kind in vars(drift.binary).items()}
    kinds = (base.DriftDetector, base.BinaryDriftDetector)
    return {
        key: kind
        for key, kind in names.items()
        if inspect.isclass(kind) and issubclass(kind, kinds) and key not in REFUSED
    }


def name_of(detector: base.Base) -> str:
    """Return the name under which a fresh detector with the same parameters is built.

    Parameters
    ----------
    detector
        An object of `river.drift`; its state is ignored.

    Raises
    ------
    UsageError
        It has another class, or a parameter that is not a plain value.

    Examples
    --------
    >>> name_of(drift.ADWIN(delta=0.01)), name_of(drift.binary.DDM())
    ('river:ADWIN(delta=0.01)', 'river:binary.DDM')
    """
    kind = type(detector)
    name = next((key for key, known in river_detectors().items() if known is kind), None)
    if name is None:
        raise UsageError(
            f"{kind.__name__} is not a detector of river.drift; give one of these, or a name such as 'excess'"
        )
    defaults = {key: given.default for key, given in inspect.signature(kind).parameters.items()}
    chosen = {key: value for key, value in detector._get_params().items() if value != defaults[key]}
    for key, value in chosen.items():
        if not isinstance(value, bool | int | float | str):
            raise UsageError(
                f"{kind.__name__}: {key} is not a plain value, and detectors are built from their parameters"
            )
    arguments = ", ".join(f"{key}={value!r}" for key, value in chosen.items())
    return f"{RIVER}{name}({arguments})" if arguments else f"{RIVER}{name}"


def _built(name: str) -> LibraryDetector:
    plain, chosen = _read(name)
    if plain in REFUSED:
        raise UsageError(f"River's {plain} cannot watch the loss of rounds: {REFUSED[plain]}")
    known = river_detectors()
    if plain not in known:
        raise UsageError(f"River has no drift detector {plain!r}: use one of {', '.join(sorted(known))}")
    try:
        detector: LibraryDetector = known[plain](**(_parameters(plain, known[plain]) | chosen))
    except Exception as error:  # River's constructors raise what they like
        raise UsageError(f"River's {plain} cannot be made with these parameters: {error}") from error
    return detector


def _read(name: str) -> tuple[str, dict[str, Any]]:
    """Return the class and the parameters in a name, which is parsed and never evaluated.

    >>> _read("ADWIN(delta=0.01, clock=8)"), _read("binary.DDM")
    (('ADWIN', {'delta': 0.01, 'clock': 8}), ('binary.DDM', {}))
    """
    plain, opened, _ = name.partition("(")
    if not opened:
        return name, {}
    try:
        match ast.parse(name, mode="eval").body:
            case ast.Call(_, [], keywords) if all(given.arg for given in keywords):
                return plain, {str(given.arg): ast.literal_eval(given.value) for given in keywords}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass  # like any other text that is not a call with named parameters
    raise UsageError(f"{name!r} is not a detector: write it as river:ADWIN(delta=0.01)")


def _parameters(name: str, kind: type[Any]) -> dict[str, object]:
    """Return parameters for rounds, and a fixed seed if there is one, so that equal losses give equal alarms."""
    seeds: dict[str, object] = {"seed": 0} if "seed" in inspect.signature(kind).parameters else {}
    return FOR_ROUNDS.get(name, {}) | seeds
