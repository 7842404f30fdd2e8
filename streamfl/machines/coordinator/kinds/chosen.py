"""The kind of the rounds of a federation, by its settings."""

from streamfl.machines.coordinator.kinds.base import RoundKind
from streamfl.machines.coordinator.kinds.by_client import ClientUpdates
from streamfl.machines.coordinator.kinds.masked import Masked
from streamfl.machines.coordinator.kinds.one_client import OneClient
from streamfl.machines.coordinator.kinds.summed import Summed
from streamfl.machines.coordinator.settings import CoordinatorSettings

KINDS: dict[str, type[RoundKind]] = {
    "off": ClientUpdates,
    "alone": OneClient,
    "pooled": Summed,
    "masked": Masked,
}


def round_kind(settings: CoordinatorSettings) -> RoundKind:
    """Return the kind of rounds that settings name."""
    return KINDS[settings.secure_aggregation](settings)
