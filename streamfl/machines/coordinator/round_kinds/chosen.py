"""The kind of the rounds of a federation, by its settings."""

from streamfl.machines.coordinator.round_kinds.base import RoundKind
from streamfl.machines.coordinator.round_kinds.by_client import ClientUpdates
from streamfl.machines.coordinator.round_kinds.masked import MaskedRounds
from streamfl.machines.coordinator.round_kinds.one_client import OneClient
from streamfl.machines.coordinator.round_kinds.summed import SummedRounds
from streamfl.machines.coordinator.settings import CoordinatorSettings

# By what the setting `secure_aggregation` says.
KINDS: dict[str, type[RoundKind]] = {"off": ClientUpdates, "pooled": SummedRounds, "masked": MaskedRounds}


def round_kind(settings: CoordinatorSettings) -> RoundKind:
    """Return the kind of rounds that settings name."""
    return OneClient(settings) if settings.alone else KINDS[settings.secure_aggregation](settings)
