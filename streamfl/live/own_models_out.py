"""Clients' own model files, which a host writes while the federation continues, and at its end."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from streamfl.errors import UsageError
from streamfl.live.model_out import EVERY, of_columns
from streamfl.live.settings.settings import FederationSettings
from streamfl.machines.client.machine import Client
from streamfl.run.model_file import ServedModel
from streamfl.run.saved.own_files import check_own_files, own_file

LOG = structlog.get_logger("streamfl.client")


@dataclass
class OwnModelsOut:
    """The folder to which a host writes a file for each of its clients, with what that client alone knows.

    Raises
    ------
    UsageError
        Clients have nothing of their own, or there is no such folder.
    """

    # The folder. A file in it is replaced as a whole, and only its owner may read it.
    folder: Path
    settings: FederationSettings  # how the federation works
    _entries: dict[str, int] = field(default_factory=dict)
    _due: float = -math.inf

    def __post_init__(self) -> None:
        check_own_files(self.folder, self.settings.learning, self.settings.federation.task)

    def keep(self, clients: Iterable[Client], now: float) -> None:
        """Write the files of clients of whom a round was closed since the last one, if that is long enough ago.

        A file that cannot be written is logged: the federation continues.
        """
        if now < self._due:
            return
        self._due = now + EVERY
        try:
            self.write(one for one in clients if one.entry != self._entries.get(one.name))
        except UsageError as error:
            LOG.error("own model file not written", reason=str(error))  # noqa: TRY400 - the reason says all

    def write(self, clients: Iterable[Client]) -> None:
        """Write the files, but for clients that have not been in a second round.

        What a client alone knows also changes within a round, so the last files are those of the end.

        Raises
        ------
        UsageError
            One cannot be written.
        """
        task = self.settings.federation.task
        for client in clients:
            model = ServedModel.at_client(client, self.settings.learning, task, **of_columns(self.settings))
            if model is not None:
                model.save(own_file(self.folder, client.name))
                self._entries[client.name] = client.entry
