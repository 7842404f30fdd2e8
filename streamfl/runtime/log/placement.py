"""Which topics and partitions hold the records of which clients, by the names of topics in the settings."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from streamfl.bounds import is_name
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import LabelTopics, Placement


def pattern(name: str) -> str:
    """Return the regular expression of the topics that a name stands for; its group matches the `*`.

    >>> re.fullmatch(pattern("records.*"), "records.c1")[1], re.fullmatch(pattern("records.*"), "records.")
    ('c1', None)
    """
    return re.escape(name).replace(r"\*", "(.+)")


def may_hold_records(placement: Placement, own: Container[str], topic: str) -> bool:
    """Tell whether a topic is in the placement, and not one of the federation's own.

    >>> [may_hold_records(Placement(("r.*",)), {"r.control"}, topic) for topic in ("r.c1", "r.control", "s")]
    [True, False, False]
    """
    return topic not in own and any(re.fullmatch(pattern(name), topic) for name in placement.topics)


def client_of(placement: Placement, topic: str) -> str:
    """Return the client of a topic: the text that matches the `*` of the placement's name, else the topic's name.

    >>> client_of(Placement(("forest.records.*",)), "forest.records.c07")
    'c07'
    """
    for name in placement.topics:
        match = re.fullmatch(pattern(name), topic)
        if match:
            return match[1] if match.groups() else topic
    return topic


def topic_of(placement: Placement, client: str) -> str:
    """Return the topic of a client: the inverse of `client_of`.

    >>> topic_of(Placement(("forest.records.*",)), "c07")
    'forest.records.c07'
    """
    if placement.by == "topic":
        starred = [name for name in placement.topics if "*" in name]
        return starred[0].replace("*", client) if starred else client
    return placement.topics[0]


def labels_of(labels: Placement, records: Placement, topic: str) -> str:
    """Return the topic of the delayed labels of a topic.

    >>> labels_of(Placement(("forest.labels.*",)), Placement(("forest.records.*",)), "forest.records.c07")
    'forest.labels.c07'
    """
    return labels.topics[0].replace("*", client_of(records, topic))


def owner(placement: Placement, topic: str, number: int) -> str | None:
    """Return the only client of a partition, None if messages name their clients.

    >>> owner(Placement(("a",), by="partition"), "a", 3)
    'a/3'
    """
    match placement.by:
        case "topic":
            return client_of(placement, topic)
        case "partition":
            return f"{topic}/{number}"
    return None


def partition_of(placement: Placement, own: Container[str], name: str) -> tuple[str, int] | None:
    """Return the topic and the number of a partition by its name in the ledger; None if it cannot hold records.

    Parameters
    ----------
    own
        The federation's own topics, which hold none.
    name
        The name in a client's message; it may be anything.

    Examples
    --------
    >>> partition_of(Placement(("r.*",)), (), "r.c1/0"), partition_of(Placement(("r.*",)), (), "r.c1/-1")
    (('r.c1', 0), None)
    """
    topic, _, number = name.rpartition("/")
    if not is_name(name) or not re.fullmatch("0|[1-9][0-9]{0,6}", number):
        return None
    return (topic, int(number)) if may_hold_records(placement, own, topic) else None


def places_of(
    placement: Placement, clients: Sequence[str], topic_of_client: Mapping[str, str]
) -> dict[str, tuple[str, int | None]]:
    """Return the topic and partition of each client's records.

    By topic: the only partition of its topic. By partition: partition i for client i. Else None: the partition
    depends on the hash of its name.
    """
    places: dict[str, tuple[str, int | None]] = {}
    for i, client in enumerate(clients):
        number = {"topic": 0, "partition": i}.get(placement.by)
        places[client] = (topic_of_client[client], number)
    return places


def read_by_clients(
    topics: Topics, placement: Placement, labels: LabelTopics | None = None
) -> tuple[Placement, LabelTopics | None]:
    """Return where clients read records and delayed labels: where they are, or where they are repartitioned.

    >>> read_by_clients(Topics("f"), Placement(("readings",), "field"))[0].topics
    ('f.client-records',)
    """
    if not placement.is_repartitioned:
        return placement, labels

    def repartitioned(one: Placement, topic: str) -> Placement:
        return replace(one, topics=(topic,), by="message-key", partitions=None, start="earliest")

    of_labels = None
    if labels is not None:
        of_labels = replace(labels, placement=repartitioned(labels.placement, topics.client_labels))
    return repartitioned(placement, topics.client_records), of_labels
