"""The model file of a live federation: the coordinator writes it while the federation continues, and at its end."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from streamfl import __version__
from streamfl.errors import UsageError
from streamfl.live.settings.settings import FederationSettings
from streamfl.machines.coordinator.machine import Coordinator
from streamfl.run.model_file import ServedModel
from streamfl.run.saved.provenance import Provenance, settings_told

LOG = structlog.get_logger("streamfl.coordinator")

# Seconds between two files while rounds continue: a killed coordinator leaves one that is at most so old.
EVERY = 60.0


def shared_model(machine: Coordinator, settings: FederationSettings) -> ServedModel:
    """Return the model that the clients agree on, once a round was opened.

    Raises
    ------
    UsageError
        The model is not one of streamfl's own.
    """
    return ServedModel.of(machine, settings.learning, **of_columns(settings))


def of_columns(settings: FederationSettings) -> dict[str, Any]:
    """Return what a file says of the columns of records."""
    fields = settings.field_map
    return {
        "categories": dict(fields.categories),
        "label": fields.label,
        "left_out": (*fields.times, *fields.drop),
        "client_column": fields.client or "",
        "missing_values": fields.missing_values,
        "time_features": fields.made_of_times,
        "past": settings.past,
    }


@dataclass
class ModelOut:
    """The file to which a coordinator writes the model that its clients agree on: that of `replay --model-out`.

    Raises
    ------
    UsageError
        The model is not one of streamfl's own, or the file is in no folder.
    """

    # The file. It is replaced as a whole.
    path: Path
    settings: FederationSettings  # how the federation works
    _entry: int = 0
    _due: float = -math.inf

    def __post_init__(self) -> None:
        external = self.settings.learning.external_model(self.settings.federation.task)
        if external is not None:
            raise UsageError(
                f"--model-out cannot save {external.name}, a model that is not streamfl's own; leave it out"
            )
        if not self.path.resolve().parent.is_dir():
            raise UsageError(f"--model-out {self.path}: there is no such folder; make it")

    def keep(self, machine: Coordinator, bytes_a_record: Mapping[str, float], now: float) -> None:
        """Write the file if a round was closed since the last one, and that is long enough ago.

        A file that cannot be written is logged: the federation continues.
        """
        if now < self._due or machine.state.entry == self._entry:
            return
        self._due = now + EVERY
        try:
            self.write(machine, bytes_a_record)
        except UsageError as error:
            LOG.error("model file not written", reason=str(error))  # noqa: TRY400 - the reason says all

    def write(self, machine: Coordinator, bytes_a_record: Mapping[str, float]) -> None:
        """Write the file, unless no round was opened yet.

        Raises
        ------
        UsageError
            It cannot be written.
        """
        if machine.state.agreement is None:
            return
        model = shared_model(machine, self.settings)
        replace(model, provenance=self._provenance(machine, bytes_a_record)).save(self.path)
        self._entry = machine.state.entry

    def _provenance(self, machine: Coordinator, bytes_a_record: Mapping[str, float]) -> Provenance:
        settings, state = self.settings, machine.state
        return Provenance(
            version=__version__,
            source=settings.federation.name,
            entry=state.entry - 1,
            epoch=state.profile.epoch,
            records=sum(member.accepted for member in state.members.values()),
            clients=len(state.members),
            rounds=state.round - 1,
            sha256=machine.digest(),
            settings=settings_told(
                settings.learning.resolved_with(settings.profile, settings.privacy),
                settings.profile.resolved_with(settings.privacy),
                round_size=settings.rounds.size,
                min_records=settings.rounds.min_records,
                seed=settings.federation.seed,
                scaling=settings.federation.scaling,
            ),
            measure="accuracy" if settings.federation.task == "classification" else "mae",
            file=None,
            served=None,
            up=bytes_a_record["up"],
            down=bytes_a_record["down"],
            raw=bytes_a_record["raw"],
            privacy="none" if (sums := settings.privacy.secure_aggregation) == "off" else sums,
        )
