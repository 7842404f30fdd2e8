"""The names of a federation's own topics."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of a federation's own topics.

    >>> Topics("forest").updates
    'forest.updates'
    """

    federation: str

    @property
    def control(self) -> str:
        """The coordinator's messages, for people and programs to read."""
        return f"{self.federation}.control"

    @property
    def models(self) -> str:
        """Registries and models, by slot."""
        return f"{self.federation}.models"

    @property
    def updates(self) -> str:
        """The clients' messages, keyed by client."""
        return f"{self.federation}.updates"

    @property
    def commands(self) -> str:
        """Operators' commands."""
        return f"{self.federation}.commands"

    @property
    def heartbeats(self) -> str:
        """The coordinator's signs of life, for one that stands by."""
        return f"{self.federation}.heartbeats"

    @property
    def state(self) -> str:
        """The coordinator's state."""
        return f"{self.federation}.state"

    @property
    def dead_letters(self) -> str:
        """Messages that could not be used, unchanged."""
        return f"{self.federation}.dead-letter"

    @property
    def predictions(self) -> str:
        """Answers to records without labels."""
        return f"{self.federation}.predictions"

    @property
    def client_records(self) -> str:
        """Records, those of a client in one partition, if they are repartitioned."""
        return f"{self.federation}.client-records"

    @property
    def client_labels(self) -> str:
        """Delayed labels, each in the partition of its record, if they are repartitioned."""
        return f"{self.federation}.client-labels"

    @property
    def repartition_group(self) -> str:
        """The group that commits how far records were repartitioned, and the transactional id for it."""
        return f"{self.federation}.repartition"

    @property
    def scorers_group(self) -> str:
        """The group that divides the partitions of records without labels among scorers."""
        return f"{self.federation}.scorers"

    @property
    def coordinator_group(self) -> str:
        """The group under which the coordinator's input offsets are committed."""
        return f"{self.federation}.coordinator"

    @property
    def clients_group(self) -> str:
        """The group that divides the record partitions among hosts."""
        return f"{self.federation}.clients"

    @property
    def own(self) -> frozenset[str]:
        """All of the federation's own topics; none holds records.

        >>> sorted(Topics("forest").own)[:2]
        ['forest.commands', 'forest.control']
        """
        return frozenset(
            (
                self.control,
                self.models,
                self.updates,
                self.commands,
                self.heartbeats,
                self.state,
                self.dead_letters,
                self.predictions,
            )
        )
