"""Where the records of an update lie: in the client's own partition, and in a log that the ledger is about."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from streamfl.machines.coordinator.saved.ledger import Member
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.messages import Update

# By name of a partition, the position after its last record.
LogEnds = Callable[[Collection[str]], Mapping[str, int | None]]

# By name of a partition, what tells its log from one that is made in its place later.
LogIds = Callable[[Collection[str]], Mapping[str, str | None]]


def wrong_places(
    update: Update, member: Member, logs: "PartitionLogs", state: CoordinatorState, settings: CoordinatorSettings
) -> str | None:
    """Return why an update's positions are impossible, or None: another client's partition, or another log."""
    wrong = wrong_partitions(update, member, settings.partitions, settings.features)
    return wrong or logs.wrong(update, state.logs)


@dataclass
class PartitionLogs:
    """The logs of records, as far as is known."""

    # Returns the position after the last record of each of some partitions, None where it is unknown. It is called
    # only for positions beyond its earlier answers. Without it every position is accepted.
    ends: LogEnds | None = None

    # Returns the identity of the log of each of some partitions, None where it is unknown. An update about another
    # log than that of the ledger is refused: positions in one mean nothing in the other.
    ids: LogIds | None = None
    _ends: dict[str, int] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)

    def wrong(self, update: Update, of_ledger: Mapping[str, str]) -> str | None:
        """Return why an update's positions are impossible, or None: of another log, or beyond its end.

        `of_ledger` are the identities of the logs of the ledger, by partition.
        """
        if self.ends is None and self.ids is None:
            return None
        reached = update.reached
        farther = {name: end for name, end in reached.items() if end > self._ends.get(name, 0)}
        wrong = self._made_again(reached.keys(), of_ledger)
        if wrong is not None or self.ends is None or not farther:
            return wrong
        ends = {name: end for name, end in self.ends(farther.keys()).items() if end is not None}
        self._ends |= ends
        beyond = sorted(name for name, end in farther.items() if end > ends.get(name, end))
        return f"positions of {beyond[0]} beyond the end of its log" if beyond else None

    def knows_ends_of(self, update: Update) -> bool:
        """Tell whether the end of each log of an update is known, where ends can be asked for."""
        return self.ends is None or all(span.partition in self._ends for span in update.spans)

    def ids_of(self, update: Update) -> dict[str, str]:
        """Return the identities of the logs that an update is about, where they are known."""
        return {name: self._ids[name] for name in update.reached if name in self._ids}

    def _made_again(self, partitions: Collection[str], of_ledger: Mapping[str, str]) -> str | None:
        """Return why an update is refused if the log of one of its partitions is not the one of the ledger."""
        if self.ids is None or not partitions:
            return None
        ids = {name: found for name, found in self.ids(partitions).items() if found is not None}
        self._ids |= ids
        other = sorted(name for name, found in ids.items() if of_ledger.get(name, found) != found)
        if not other:
            return None
        what = f"the topic of {other[0]} was deleted and made again: the ledger is about another one of this name"
        remedy = "write the records to a topic of another name, or take another [federation] name"
        return f"{what}, and its first records would be lost; {remedy}"


def wrong_partitions(update: Update, member: Member, own: Sequence[str], features: Sequence[str] = ()) -> str | None:
    """Return why an update's records are not in the client's own partition, or None.

    Parameters
    ----------
    member
        Its account: the partition of its first records stays its own.
    own
        Patterns of a client's partition: `*` stands for the client's name, `#` at the end for any number. Without
        patterns every partition is allowed.
    features
        Patterns of the partition of its features, if labels come later.

    Examples
    --------
    >>> is_own("c7", "forest.c7/0", ["forest.*/0"]), is_own("c7", "forest.c8/0", ["forest.*/0"])
    (True, False)
    >>> is_own("c7", "forest/3", ["forest/#"]), is_own("forest/3", "forest/3", ["*"])
    (True, True)
    """
    if not own:
        return None
    partitions = {span.partition for span in update.spans}
    wrong = _wrong_features(update, features)
    if wrong is not None or not partitions:
        return wrong
    if len(partitions | member.positions.keys()) > 1:
        return "records are of another partition than before"
    (partition,) = partitions
    return None if is_own(update.client, partition, own) else f"records of {partition}, which is not its partition"


def _wrong_features(update: Update, own: Sequence[str]) -> str | None:
    """Return why a watermark is not in the client's partition of features, whose number is that of labels."""
    watermark = update.watermark
    if watermark is None:
        return "the update has no watermark, but labels come later here" if own and update.records else None
    if not own:
        return "the update has a watermark, but labels come with their records here"
    numbers = {span.partition.rpartition("/")[2] for span in update.spans}
    if not is_own(update.client, watermark.partition, own) or not numbers <= {watermark.partition.rpartition("/")[2]}:
        return f"features of {watermark.partition}, which is not its partition"
    return None


def is_own(client: str, partition: str, own: Sequence[str]) -> bool:
    """Tell whether a partition may belong to a client; see `wrong_partitions`."""
    topic, _, number = partition.rpartition("/")
    whole = number.isdecimal() and number.isascii() and (number == "0" or number[0] != "0")
    return any(
        (whole and topic == name.removesuffix("/#"))
        if name.endswith("/#")
        else partition == name.replace("*", client)
        for name in own
    )
