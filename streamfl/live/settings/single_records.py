"""Warns, when a host starts, of settings that let others see single records."""

import structlog

from streamfl.live.settings.settings import FederationSettings
from streamfl.runtime.log.topics import Topics

LOG = structlog.get_logger("streamfl.client")


def warn_of_single_records(settings: FederationSettings) -> None:
    """Log a warning for each way in which settings let others see single records."""
    if settings.rounds.min_records == 1:
        LOG.warning(
            "single records may be sent",
            min_records=1,
            remedy="raise rounds.min_records; a single record can be computed from such an update",
        )
    if settings.privacy.secure_aggregation == "masked" and settings.labels.topic:
        LOG.warning(
            "masks do not hide answers",
            topic=Topics(settings.federation.name).predictions,
            consequence="whoever may read this topic sees each record's id, client, prediction and last known label",
            remedy="let only those read it who may read records and labels, or remove [labels] from the settings",
        )
