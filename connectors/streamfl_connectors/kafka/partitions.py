"""Topics of records and labels with more or fewer partitions than clients need.

Kafka adds partitions and never takes any away. So whoever reads goes on with the partitions that fit, leaves out the
others, and no remedy is to delete a topic: positions in the ledger are offsets in it.
"""

from collections.abc import Mapping

from streamfl.runtime.ports import CheckResult, Placement


def beyond(placement: Placement, number: int) -> str | None:
    """Return why a partition of a topic of records is left out, and what to do; None if it is read.

    >>> beyond(Placement(("a",)), 0), beyond(Placement(("a",), by="partition", partitions=4), 4)
    (None, 'the settings want 4 partitions; raise partitions in [records]')
    """
    if placement.by == "topic" and number > 0:
        return "a client by topic has one partition; have its records written to partition 0"
    if placement.partitions is not None and number >= placement.partitions:
        return f"the settings want {placement.partitions} partitions; raise partitions in [records]"
    return None


def wrong_placement(placement: Placement, partitions: Mapping[str, int]) -> list[CheckResult]:
    """Return findings about record topics with a wrong number of partitions.

    >>> [finding.found for finding in wrong_placement(Placement(("a",)), {"a": 3})]
    ['topic a has 3 partitions, and one client by topic reads one']
    """
    wrong = []
    for topic, has in partitions.items():
        wanted = placement.partitions
        if placement.by == "topic" and has != 1:
            found = f"topic {topic} has {has} partitions, and one client by topic reads one"
            remedy = 'write its records to partition 0, or begin with another clients than "topic" in [records]'
            wrong.append(CheckResult(topic, "error", found, remedy))
        elif wanted is not None and has != wanted and not placement.is_repartitioned:
            found = f"topic {topic} has {has} partitions, but the settings want {wanted}"
            remedy = (
                "raise partitions in [records]" if has > wanted else f"{added(topic, wanted)}, or lower the number"
            )
            wrong.append(CheckResult(topic, "error", found, remedy))
    return wrong


def unequal_partitions(records: Mapping[str, int], labels: Mapping[str, int]) -> list[CheckResult]:
    """Return findings about a topic of labels that has not as many partitions as that of their records.

    >>> [finding.found for finding in unequal_partitions({"a": 3}, {"b": 2})]
    ['topic b of labels has 2 partitions, but topic a of their records has 3']
    """
    return [
        CheckResult(
            name,
            "error",
            f"topic {name} of labels has {has} partitions, but topic {topic} of their records has {wanted}",
            added(name, wanted) if has < wanted else "write each label to the partition of its record",
        )
        for (topic, wanted), (name, has) in zip(records.items(), labels.items(), strict=False)
        if has != wanted
    ]


def added(topic: str, partitions: int) -> str:
    """Return what adds partitions to a topic."""
    command = f"kafka-topics.sh --bootstrap-server B --alter --topic {topic} --partitions {partitions}"
    return f"add partitions ({command})"
