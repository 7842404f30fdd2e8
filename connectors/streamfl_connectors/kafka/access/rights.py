"""Rights: what each role of a federation may do on Kafka, as one table.

`streamfl acls` prints it, `streamfl check` and the start of each process hold a log-in to it, and docs/kafka.md shows
it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from streamfl.errors import UsageError
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import Unlabelled

Kind = Literal["topic", "group", "transactional id"]

# Rights that spare work by hand: whoever lacks them can have topics made, and their settings go unchecked.
OPTIONAL = frozenset({"CREATE", "DESCRIBE_CONFIGS"})


@dataclass(frozen=True, slots=True)
class Need:
    """One right: to READ, WRITE or DESCRIBE a topic, group or transactional id; with a `*`, all of such names.

    A process that lacks a right that is not `vital` says so, and continues without.

    >>> str(Need("WRITE", "topic", "forest.updates"))
    'WRITE on topic forest.updates'
    """

    right: str
    kind: Kind
    name: str
    vital: bool = True

    def __str__(self) -> str:
        return f"{self.right} on {self.kind} {self.name}"

    @property
    def beginning(self) -> str | None:
        """Return what names begin with; None if there is one name."""
        before, starred, _ = self.name.partition("*")
        return before if starred else None


@dataclass(frozen=True, slots=True)
class Row:
    """A right in the table, on what the settings name: `what` is a name of `Federated`, see there.

    `when` names the setting without which the right is not needed.
    """

    right: str
    kind: Kind
    what: str
    when: str = ""
    vital: bool = True


def _rows(right: str, kind: Kind, *what: str, when: str = "", vital: bool = True) -> tuple[Row, ...]:
    return tuple(Row(right, kind, one, when, vital) for one in what)


# When records are repartitioned: the values of `clients` in [records].
REPARTITIONED = "message-key, field"

OWN = ("control", "models", "updates", "commands", "heartbeats", "state", "dead_letters")

ROLES: Mapping[str, tuple[Row, ...]] = {
    "coordinator": (
        *_rows("READ", "topic", "updates", "commands", "state"),
        *_rows("WRITE", "topic", "control", "models", "state"),
        *_rows("WRITE", "topic", "dead_letters", vital=False),
        *_rows("READ", "topic", "heartbeats", "control", vital=False),
        *_rows("WRITE", "topic", "heartbeats", vital=False),
        *_rows("DESCRIBE", "topic", "records", "labels", vital=False),
        *_rows("DESCRIBE", "topic", "repartitioned", when=REPARTITIONED, vital=False),
        *_rows("READ", "group", "coordinator"),
        *_rows("WRITE", "transactional id", "coordinator"),
        *_rows("CREATE", "topic", *OWN),
        *_rows("DESCRIBE_CONFIGS", "topic", *OWN),
    ),
    "host": (
        *_rows("READ", "topic", "records", "labels", "control", "models"),
        *_rows("WRITE", "topic", "updates"),
        *_rows("WRITE", "topic", "dead_letters", vital=False),
        *_rows("READ", "topic", "predictions", when="[labels]"),
        *_rows("READ", "topic", "repartitioned", when=REPARTITIONED),
        *_rows("WRITE", "topic", "predictions", when="[labels]"),
        *_rows("WRITE", "topic", "repartitioned", when=REPARTITIONED),
        *_rows("READ", "group", "clients"),
        *_rows("READ", "group", "repartition", when=REPARTITIONED),
        *_rows("WRITE", "transactional id", "repartition", when=REPARTITIONED),
        *_rows("CREATE", "topic", "predictions", when="[labels]"),
        *_rows("CREATE", "topic", "repartitioned", when=REPARTITIONED),
        *_rows("DESCRIBE_CONFIGS", "topic", "repartitioned", when=REPARTITIONED),
    ),
    "scorer": (
        *_rows("READ", "topic", "unlabelled", "control", "models"),
        *_rows("WRITE", "topic", "predictions"),
        *_rows("WRITE", "topic", "dead_letters", vital=False),
        *_rows("READ", "group", "scorers"),
        *_rows("WRITE", "transactional id", "each scorer", when="exactly_once"),
        *_rows("CREATE", "topic", "predictions"),
    ),
    "watch": _rows("READ", "topic", "control"),
    "page": (
        *_rows("READ", "topic", "control"),
        *_rows("READ", "topic", "dead_letters", vital=False),
        *_rows("DESCRIBE", "topic", "records", "labels", vital=False),
        *_rows("DESCRIBE", "topic", "repartitioned", when=REPARTITIONED, vital=False),
        *_rows("DESCRIBE", "group", "clients", vital=False),
    ),
    "producer": (
        *_rows("WRITE", "topic", "records", "labels", "unlabelled"),
        *_rows("CREATE", "topic", "records", "labels", "unlabelled"),
    ),
    "operator": (*_rows("READ", "topic", "control", "state"), *_rows("WRITE", "topic", "commands")),
}

# How findings call those who have a role.
HOLDERS = {
    "coordinator": "the coordinator",
    "host": "hosts",
    "scorer": "scorers",
    "watch": "watch",
    "page": "the page",
    "producer": "producers",
    "operator": "operators",
}


@dataclass(frozen=True, slots=True)
class Federated:
    """What a federation names on Kafka.

    Examples
    --------
    >>> forest = Federated(Topics("forest"), ("forest.records.*",))
    >>> [str(need) for need in forest.needs("producer")]
    ['WRITE on topic forest.records.*', 'CREATE on topic forest.records.*']
    """

    topics: Topics  # its own topics and groups
    # Topics of records, and of delayed labels; a name may hold one `*`.
    records: Sequence[str]
    labels: Sequence[str] = ()
    unlabelled: Unlabelled = field(default_factory=lambda: Unlabelled(()))  # records that scorers answer
    scorer: str = "*"  # the name of the one scorer that is meant; by default any
    is_repartitioned: bool = False  # whether hosts repartition records

    def needs(self, role: str) -> tuple[Need, ...]:
        """Return the rights that a role needs here."""
        return tuple(
            Need(row.right, row.kind, name, row.vital)
            for row in ROLES[role]
            if self._holds(row.when)
            for name in self._named(row)
        )

    def _holds(self, when: str) -> bool:
        held = {"[labels]": bool(self.labels), "exactly_once": self.unlabelled.exactly_once}
        return {"": True, REPARTITIONED: self.is_repartitioned, **held}[when]

    def _named(self, row: Row) -> Sequence[str]:
        topics = self.topics
        names: Mapping[str, Sequence[str]] = {
            "records": self.records,
            "labels": self.labels,
            "unlabelled": self.unlabelled.topics,
            "repartitioned": [topics.client_records, *([topics.client_labels] if self.labels else [])],
            "repartition": [topics.repartition_group],
            "coordinator": [topics.coordinator_group],
            "clients": [topics.clients_group],
            "scorers": [topics.scorers_group],
            "each scorer": [f"{topics.scorers_group}.{self.scorer}"],
        }
        return names[row.what] if row.what in names else [getattr(topics, row.what)]

    def require_apart(self) -> None:
        """Check that rights on topics of records are none on the federation's own.

        Raises
        ------
        UsageError
            Kafka grants rights on all topics that begin alike, and some of the federation's own do.
        """
        for name in (*self.records, *self.labels):
            before, starred, _ = name.partition("*")
            taken = sorted(own for own in self.topics.own if own.startswith(before))
            if starred and taken:
                raise UsageError(
                    f"rights on {name} would be rights on {', '.join(taken)}as well: Kafka grants them on all topics "
                    f"that begin with {before!r}; give topics of records a beginning of their own, such as "
                    f"{self.topics.federation}.records.*"
                )
