"""Where and when a change began, as fields of a log line."""

from collections.abc import Collection

from streamfl.protocol.messages import Finding
from streamfl.run.evaluation.result import DatedFinding

# The most partitions named in one log line.
MOST_PARTITIONS = 10


def whereabouts(announced: Finding, partitions: Collection[str] | None = None) -> dict[str, object]:
    """Return when and with which positions a change began, and those of the alarm; no time if none is known.

    Parameters
    ----------
    partitions
        The partitions that are told; None: the first ten.

    >>> from streamfl.protocol.messages import Noticed
    >>> noticed = Noticed(round=70, epoch=1, cause="class-mix", since=66, statistic=30.0, threshold=20.0,
    ...                   positions={"a/0": (660, 710), "a/1": (50, 60)}, times=(1700000000000, 1700000060000),
    ...                   known_since=66)
    >>> told = whereabouts(noticed, ["a/0"])
    >>> told["since_time"], told["time"], told["positions"]
    ('2023-11-14T22:13:20Z', '2023-11-14T22:14:20Z', {'a/0': [660, 710]})
    """
    finding = DatedFinding.of(announced)
    told: dict[str, object] = {"since": finding.since}
    if finding.drift:
        told["drift"] = finding.drift
    if finding.known_since > finding.since:
        told["known_since"] = finding.known_since
    if finding.time is not None:
        told |= {"since_time": finding.since_time, "time": finding.time}
    chosen = finding.positions if partitions is None else finding.positions.keys() & set(partitions)
    names = [name for name in finding.positions if name in chosen][:MOST_PARTITIONS]
    return told | {"positions": {name: list(finding.positions[name]) for name in names}}
