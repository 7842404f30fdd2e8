"""Whose a label is, which names only the id of its record."""

import zlib
from collections import defaultdict


def partition_of_client(client: str, partitions: int) -> int:
    """Return the partition to which a client's records and labels are written.

    >>> partition_of_client("m07", 12), partition_of_client("m08", 12)
    (5, 4)
    """
    return zlib.crc32(client.encode()) % partitions


class Ids:
    """The clients of the newest records, by id.

    Parameters
    ----------
    window
        The records of each that are kept.

    Examples
    --------
    >>> ids = Ids(partitions=1, window=2)
    >>> for number in "123":
    ...     ids.add(f"P{number}", "m07")
    >>> ids.client("P1"), ids.client("P3")
    (None, 'm07')
    """

    def __init__(self, partitions: int, window: int) -> None:
        self.partitions, self._window = partitions, window
        self._clients: dict[str, str] = {}
        self._newest: defaultdict[int, dict[str, None]] = defaultdict(dict)  # by partition, the oldest first

    def add(self, record: str, client: str) -> None:
        """Take the id of the next record, which is this client's."""
        before = self._clients.get(record)
        if before is not None:
            del self._newest[partition_of_client(before, self.partitions)][record]
        newest = self._newest[partition_of_client(client, self.partitions)]
        self._clients[record], newest[record] = client, None
        if len(newest) > self._window:
            oldest = next(iter(newest))
            del newest[oldest], self._clients[oldest]

    def client(self, record: str) -> str | None:
        """Return the client of the record with this id."""
        return self._clients.get(record)
