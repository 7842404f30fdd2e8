"""Federated learning on streams that drift."""

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

__all__ = [
    "Federation",
    "ManualClock",
    "MasterFLClassifier",
    "MasterFLRegressor",
    "TimeEncoder",
    "__version__",
    "read",
    "replay",
]

if TYPE_CHECKING:
    from streamfl.cli.federation import Federation
    from streamfl.cli.python import read, replay
    from streamfl.run.estimators import MasterFLClassifier, MasterFLRegressor, TimeEncoder
    from streamfl.runtime.clock import ManualClock


def __getattr__(name: str) -> Any:
    """Import what is asked for: the services and the command line need no River."""
    if name in {"read", "replay"}:
        from streamfl.cli import python  # noqa: PLC0415

        return getattr(python, name)
    if name == "Federation":
        from streamfl.cli.federation import Federation  # noqa: PLC0415

        return Federation
    if name == "ManualClock":
        from streamfl.runtime.clock import ManualClock  # noqa: PLC0415

        return ManualClock
    if name in __all__:
        from streamfl.run import estimators  # noqa: PLC0415

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
