"""The connector for Kafka: makes the links, hosts and record writers of a federation."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import ClassVar

import structlog
from pydantic import BaseModel

from streamfl.errors import PeerError, UsageError
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.protocol.messages import Command, RoundOpened
from streamfl.runtime.log import commands
from streamfl.runtime.log.placement import places_of, read_by_clients, topic_of
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import (
    Access,
    CheckResult,
    LabelTopics,
    Placement,
    RecordFormat,
    TopicSample,
    Unlabelled,
    WrongState,
)
from streamfl.wire import state_bytes
from streamfl.wire.signing import OPEN, Signatures
from streamfl_connectors.kafka.access.acls import access
from streamfl_connectors.kafka.access.granted import LogInRights
from streamfl_connectors.kafka.access.rights import Federated
from streamfl_connectors.kafka.access.strimzi import users
from streamfl_connectors.kafka.administration import (
    configs_of,
    make_missing,
    partition_counts,
    require,
    visible,
    wrong_with,
)
from streamfl_connectors.kafka.connection import Connection, explained
from streamfl_connectors.kafka.coordinator.ends import Ends
from streamfl_connectors.kafka.coordinator.heartbeats import KafkaHeartbeat
from streamfl_connectors.kafka.coordinator.link import KafkaCoordinatorLink
from streamfl_connectors.kafka.coordinator.standby import KafkaStandby
from streamfl_connectors.kafka.coordinator.state_topic import last_state
from streamfl_connectors.kafka.hosts.host import KafkaHost
from streamfl_connectors.kafka.hosts.scorer import KafkaScorer
from streamfl_connectors.kafka.last_round import last_opened
from streamfl_connectors.kafka.partitions import wrong_placement
from streamfl_connectors.kafka.reach import KafkaPartitionEnds
from streamfl_connectors.kafka.settings import KafkaSettings
from streamfl_connectors.kafka.topics import WEEK, TopicPlan, plans, repartitioned
from streamfl_connectors.kafka.watcher import KafkaWatcher
from streamfl_connectors.kafka.writer import KafkaRecordWriter

# Seconds within which a command is in the log.
WRITTEN_WITHIN = 30.0

LOG = structlog.get_logger("streamfl.kafka")


@contextmanager
def closed_if_it_fails(link: KafkaCoordinatorLink | KafkaHost) -> Iterator[None]:
    """Close a link if the block fails; otherwise its threads would try to connect for ever."""
    try:
        yield
    except BaseException:
        link.close()
        raise


class KafkaConnector:
    """`streamfl.runtime.ports.Connector` for Apache Kafka."""

    Settings: ClassVar[type[BaseModel]] = KafkaSettings
    connection: ClassVar[type[Connection]] = Connection
    carries_signatures: ClassVar[bool] = True

    def __init__(self, federation: str, settings: KafkaSettings, signatures: Signatures = OPEN) -> None:
        self._connection = self.connection(settings, signatures)
        self._topics = Topics(federation)

    def prepare(self) -> None:
        """Make the federation's missing topics, check the others; wait for brokers for `patience` seconds."""
        self._connection.patiently("the federation's topics", self._prepared)

    def _require_rights(self, role: str, federated: Federated) -> None:
        """Check that the log-in may do the work of a role, unless the brokers ask for none."""
        if self._connection.settings.asks_for_log_in:
            self._connection.patiently("the rights of this log-in", lambda: self._rights_are_there(role, federated))

    def _rights_are_there(self, role: str, federated: Federated) -> bool:
        with self._connection.administered() as admin:
            LogInRights(admin, federated).require(role)
        return True

    def _federated(self, placement: Placement, delayed_labels: LabelTopics | None) -> Federated:
        labels = delayed_labels.placement.topics if delayed_labels is not None else ()
        return Federated(self._topics, placement.topics, labels, is_repartitioned=placement.is_repartitioned)

    def _prepared(self) -> bool | None:
        settings = self._connection.settings
        with self._connection.administered() as admin:
            seen = visible(admin, plans(self._topics))
            if not seen:
                own = ", ".join(plan.name for plan in plans(self._topics))
                remedy = "grant it READ and WRITE as docs/kafka.md lists them, or correct [federation] name"
                raise UsageError(f"this log-in may see none of {own}; {remedy}")
            made = make_missing(admin, seen, settings.replication_factor)
            if made:
                LOG.info("topics made", topics=made)
            names = [plan.name for plan in seen]
            there = partition_counts(admin, names)
            if len(there) < len(names):
                return None  # another process makes them, and not every broker knows them yet
            wrong = wrong_with(seen, there, configs_of(admin, names), settings.part_bytes)
        require(wrong)
        return True

    def coordinator(
        self,
        placement: Placement,
        records: RecordFormat,
        delayed_labels: LabelTopics | None = None,
        wrong: WrongState = CoordinatorState.wrong,
    ) -> KafkaCoordinatorLink:
        """Return the coordinator's link, which fences any other one."""
        link = self._coordinator_link(placement, records, delayed_labels, wrong)
        with closed_if_it_fails(link):
            link.begin()
        return link

    def _coordinator_link(
        self, placement: Placement, records: RecordFormat, delayed_labels: LabelTopics | None, wrong: WrongState
    ) -> KafkaCoordinatorLink:
        self._require_rights("coordinator", self._federated(placement, delayed_labels))
        read = self._read_placement(placement, delayed_labels)
        ends = Ends(self._connection, self._topics, read, records.stride)
        return KafkaCoordinatorLink(self._connection, self._topics, ends, wrong)

    def heartbeat(self, silence: float) -> KafkaHeartbeat:
        """Begin to send heartbeats, several in `silence` seconds."""
        return KafkaHeartbeat(self._connection, self._topics.heartbeats, silence)

    def standby(
        self,
        placement: Placement,
        records: RecordFormat,
        delayed_labels: LabelTopics | None = None,
        wrong: WrongState = CoordinatorState.wrong,
    ) -> KafkaStandby:
        """Return what stands by, ready to take over; wait for brokers for `patience` seconds."""

        def ready() -> KafkaCoordinatorLink:
            link = self._coordinator_link(placement, records, delayed_labels, wrong)
            with closed_if_it_fails(link):
                link.get_ready()
            return link

        link = self._connection.patiently("what a coordinator reads", ready)
        return KafkaStandby(self._connection, self._topics.heartbeats, link)

    def host(
        self, name: str, placement: Placement, records: RecordFormat, delayed_labels: LabelTopics | None = None
    ) -> KafkaHost:
        """Join the group of hosts, once the topics of records and labels exist; make those that hosts write."""
        self._require_rights("host", self._federated(placement, delayed_labels))
        there = self._connection.patiently("the topics of the records", lambda: self._records_there(placement))
        if delayed_labels is not None:
            self._connection.patiently(
                "the topics of the labels", lambda: self._records_there(delayed_labels.placement)
            )
            self._make_predictions(max(there.values(), default=1))
        if placement.is_repartitioned:
            made = repartitioned(self._topics, max(there.values()), with_labels=delayed_labels is not None)
            self._connection.patiently("the topics of repartitioned records", lambda: self._records_made(made))
        host = KafkaHost(self._connection, self._topics, name, placement, records, delayed_labels)
        with closed_if_it_fails(host):
            self._connection.patiently("the topics of the records", host.subscribe)
        return host

    def _records_there(self, placement: Placement) -> dict[str, int]:
        """Return the number of partitions of each topic that is named without a *."""
        names = [name for name in placement.topics if "*" not in name]
        return self._counted(names) if names else {}

    def _make_predictions(self, partitions: int) -> None:
        plan = TopicPlan(self._topics.predictions, None, partitions, WEEK)
        self._connection.patiently("the topic of predictions", lambda: self._records_made([plan]))

    def scorer(self, name: str, unlabelled: Unlabelled, records: RecordFormat) -> KafkaScorer:
        """Join the group of scorers, once the topics exist; make the topic of their answers."""
        self._require_rights("scorer", Federated(self._topics, (), (), unlabelled, name))
        own = (self._topics.control, self._topics.models)
        what = "the federation's topics, which its coordinator makes"
        self._connection.patiently(what, lambda: self._federation_is_there(*own))
        there = self._connection.patiently(
            "the topics of records without labels", lambda: self._counted(unlabelled.topics)
        )
        self._make_predictions(max(there.values(), default=1))
        return KafkaScorer(self._connection, self._topics, name, unlabelled, records)

    def _federation_is_there(self, *topics: str) -> bool:
        try:
            self._counted(topics)
        except PeerError as error:
            raise PeerError(f"{error}; start the coordinator, or correct [federation] name") from None
        return True

    def _counted(self, names: Sequence[str]) -> dict[str, int]:
        """Return the number of partitions of each topic; all must be there."""
        with self._connection.administered() as admin:
            there = partition_counts(admin, names)
        if missing := [name for name in names if name not in there]:
            raise PeerError(f"no topic {', '.join(missing)}")
        return there

    def writer(self, placement: Placement, clients: Sequence[str]) -> KafkaRecordWriter:
        """Return a writer of records, after making missing topics; wait for brokers for `patience` seconds."""
        topics = {client: topic_of(placement, client) for client in clients}
        self._require_rights("producer", Federated(self._topics, sorted(set(topics.values()))))
        partitions = {"topic": 1, "partition": len(clients)}.get(placement.by, placement.partitions or 4)
        plans = [TopicPlan(topic, None, partitions, {}) for topic in sorted(set(topics.values()))]
        there = self._connection.patiently("the topics of the records", lambda: self._records_made(plans))
        require(wrong_placement(placement, there))
        if placement.by == "partition" and min(there.values()) < len(clients):
            raise UsageError(f"{len(clients)} clients, but topics have {there} partitions; produce for fewer clients")
        return KafkaRecordWriter(self._connection, places_of(placement, clients, topics), there)

    def _records_made(self, plans: Sequence[TopicPlan]) -> dict[str, int] | None:
        """Make missing topics; return how many partitions each has, None while one is not known yet."""
        with self._connection.administered() as admin:
            make_missing(admin, plans, self._connection.settings.replication_factor)
            there = partition_counts(admin, [plan.name for plan in plans])
        return there if len(there) == len(plans) else None

    def open_round(self) -> RoundOpened | None:
        """Return the round that was opened last, if the control topic still has it."""
        self._require_rights("watch", Federated(self._topics, ()))
        settings, verifier = self._connection.settings, self._connection.signatures.coordinator
        with closing(self._connection.consumer()) as reader, explained(settings):
            is_there = reader.partitions_for_topic(self._topics.control)
            found = last_opened(reader, self._topics.control, verifier) if is_there else ()
        return found[-1] if found else None

    def watcher(self, *, last: int | None, letters: bool = True) -> KafkaWatcher:
        """Return a reader of the coordinator's messages and of dead letters, if they can be read already."""
        self._require_rights("page" if letters else "watch", Federated(self._topics, ()))
        self._federation_is_there(self._topics.control)
        return KafkaWatcher(self._connection, self._topics, last=last, letters=letters)

    def reach(
        self, placement: Placement, records: RecordFormat, delayed_labels: LabelTopics | None = None
    ) -> KafkaPartitionEnds:
        """Return what tells how far the partitions go that clients read."""
        self._require_rights("page", self._federated(placement, delayed_labels))
        return KafkaPartitionEnds(
            self._connection, self._topics, self._read_placement(placement, delayed_labels), records.stride
        )

    def _read_placement(self, placement: Placement, delayed_labels: LabelTopics | None) -> Placement:
        """Return the topics of records and of delayed labels that clients read."""
        placement, delayed_labels = read_by_clients(self._topics, placement, delayed_labels)
        if delayed_labels is None:
            return placement
        return replace(placement, topics=(*placement.topics, *delayed_labels.placement.topics))

    def state(self) -> CoordinatorState | None:
        """Return the state that a coordinator committed last, if any."""
        settings, signatures = self._connection.settings, self._connection.signatures
        with closing(self._connection.consumer()) as reader, explained(settings):
            last = last_state(reader, self._topics.state, settings.largest_update, signatures.coordinator)
        if last.data is None and last.skipped:
            raise UsageError(
                f"{self._topics.state} holds no state that this process can use; see [federation] members"
            )
        return None if last.data is None else state_bytes.decode(last.data)

    def order(self, command: Command) -> None:
        """Write an operator's command for the coordinator; return when it is in the log."""
        value, headers = commands.written(command, self._connection.signatures.own)
        with closing(self._connection.producer()) as producer, explained(self._connection.settings):
            producer.send(self._topics.commands, value, headers=list(headers), partition=0).get(
                timeout=WRITTEN_WITHIN
            )

    def findings(
        self,
        placement: Placement,
        records: RecordFormat,
        asked: tuple[Unlabelled, RecordFormat] | None = None,
        delayed_labels: LabelTopics | None = None,
    ) -> Sequence[CheckResult]:
        """Check everything that a federation needs, and decode real records."""
        from streamfl_connectors.kafka.access.checks import findings  # noqa: PLC0415  only `check` needs it

        return findings(self._connection, self._topics, placement, records, asked, delayed_labels)

    def sample(self, topics: Sequence[str]) -> TopicSample:
        """Return the newest messages of some partitions of topics."""
        from streamfl_connectors.kafka.access.sample import matching, sample  # noqa: PLC0415  only `init` needs it

        with self._connection.administered() as admin:
            there = matching(admin, topics, self._topics.own)
        with explained(self._connection.settings):
            return sample(self._connection, there)

    def sample_ends(self, topics: Sequence[str], most: int) -> tuple[TopicSample, TopicSample]:
        """Return the newest and the oldest messages of all partitions, in all about so many of each, with keys."""
        from streamfl_connectors.kafka.access.sample import ends_of, matching  # noqa: PLC0415  only `init` needs it

        with self._connection.administered() as admin:
            there = matching(admin, topics, self._topics.own)
        with explained(self._connection.settings):
            return ends_of(self._connection, there, most)

    def access(
        self,
        placement: Placement,
        unlabelled: Unlabelled,
        delayed_labels: LabelTopics | None = None,
        *,
        role: str | None = None,
        principal: str | None = None,
        config: str | None = None,
    ) -> Sequence[Access]:
        """Return what each role may do, as ACLs and as commands that grant them; no broker is asked."""
        labels = delayed_labels.placement.topics if delayed_labels is not None else ()
        servers = self._connection.settings.bootstrap_servers
        connect = ["--bootstrap-server", servers if isinstance(servers, str) else ",".join(servers)]
        connect += ["--command-config", config] if config is not None else []
        federated = Federated(
            self._topics, placement.topics, labels, unlabelled, is_repartitioned=placement.is_repartitioned
        )
        return access(federated, role, principal, connect)

    def users(self, accesses: Sequence[Access], cluster: str) -> str:
        """Return what makes a log-in with these rights for each role in Kubernetes, for Strimzi's operator."""
        return users(accesses, cluster)
