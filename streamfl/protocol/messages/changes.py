"""Announced changes: restarts, local drifts, notices."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from streamfl.protocol.messages.base import Message

# The states of a local drift (`LocalDrift.state`): while its clients are apart, once they learn with all others
# again, and one that says that they did not drift alone.
Apart = Literal["latched", "branched"]
TogetherAgain = Literal["released", "merged", "returned"]
LocalState = Apart | TogetherAgain | Literal["corrected"]
APART: tuple[Apart, ...] = get_args(Apart)
TOGETHER_AGAIN: tuple[TogetherAgain, ...] = get_args(TogetherAgain)
LOCAL_STATES: tuple[str, ...] = (*APART, *TOGETHER_AGAIN, "corrected")


@dataclass(frozen=True)
class FeatureMoved:
    """A feature whose mean moved."""

    feature: str
    # Its mean at the clients concerned before and after, in its own unit; in six digits.
    before: float
    after: float
    # The clients concerned, of those whose means were known, at most 20 of `of_clients`; empty if all of them.
    clients: tuple[str, ...] = ()
    of_clients: int = 0
    since: int = 0  # the round of the first means that showed it
    evidence: float = 0.0  # the logarithm of the evidence; see `streamfl.learning.drift.inputs`


@dataclass(frozen=True)
class FeatureStuck:
    """A feature that used to vary at a client, and stands still there."""

    feature: str
    client: str
    value: float  # the one that it repeats, in its own unit; in six digits
    since: int = 0  # the round of the first description in which all its values were equal
    evidence: float = 0.0  # the logarithm of the evidence; see `streamfl.learning.drift.stuck_sensors`


@dataclass(frozen=True, kw_only=True)
class Finding(Message):
    """What every announcement of a change has: `Restarted`, `LocalDrift`, `InputsMoved`, `InputsStuck`, `Noticed`.

    `positions` and `times` are for people; nothing is decided by them. The clients concerned are those in `clients`,
    all if it is empty. A time is the median over them, so that a client whose records have wrong times does not
    change it alone.
    """

    # When it was found.
    round: int
    epoch: int
    # The detector's statistic, and the threshold that it reached.
    statistic: float
    threshold: float
    since: int  # the round in which the change began, as the detector estimates it
    labels: tuple[str, ...] = ()  # the labels that changed; empty if the detector sees only the total

    # By partition, the position with which round `known_since` began, and the one after the last record of `round`.
    # Only partitions with records between them: those of `clients` first, of a restart and of a change of the mix
    # then those of the other clients by name, at most 100 partitions.
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    # When the first record of round `known_since` and the last one of `round` were measured, in milliseconds since
    # 1970; None if the records have no times. In a replay of a file without times record n of the file counts as
    # measured n seconds after 1970.
    times: tuple[int, int] | None = None

    # The round `since`, or if it is longer ago the first of the last 32 rounds, the only ones whose beginnings the
    # coordinator keeps.
    known_since: int = 0

    # The round in which the same drift was first announced. It is earlier than `round` if the drift, which began at
    # one time, reached these clients in later rounds than others, because they have more records or fewer. 0 if it is
    # not drift, or a branch whose drift is no longer among the last 16.
    drift: int = 0

    # The features that moved, so far as it is known, the surest first, at most 20.
    moved: tuple[FeatureMoved, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Restarted(Finding):
    """Coordinator: a new epoch begins. Published next to the entry of the round that raised the alarm.

    Parameters
    ----------
    cause
        The detector's name, `new-label`, `operator`, or `answers`: online models predicted worse than untrained ones.
    chosen
        The model that the epoch begins with: `scratch`, `incumbent`, or a candidate.
    clients
        The clients that surely changed; empty if the detector sees only the total.
    scores
        By candidate, its mean score on the records of `round`; in six digits, for people. The least is chosen, unless
        an operator has asked for another. Empty where an epoch begins without a choice. The means are over the
        clients that scored all candidates in time and do not stand out, which may be a single one. Some 25 bytes a
        candidate.
    clients_better
        At how many clients the chosen model scored better than the one that had served, and of how many; (0, 0) if
        nobody compared them, or if the coordinator sees only sums of all clients. Some 16 bytes.
    renamed
        By label, the label that its records had before, where it is sure that labels were exchanged; at most 20. Some
        30 bytes for two labels.
    online_models_begin_again
        Whether online models begin again untrained, because such models predicted the round better. 33 bytes if they
        do, else none.
    """

    cause: str
    chosen: str
    clients: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    clients_better: tuple[int, int] = (0, 0)
    renamed: Mapping[str, str] = field(default_factory=dict)
    online_models_begin_again: bool = False


@dataclass(frozen=True, kw_only=True)
class LocalDrift(Finding):
    """Coordinator: some clients drifted and the others did not. Published at every change of `state`.

    Parameters
    ----------
    clients
        The clients that drifted.
    labels, since, statistic, threshold
        Those of the alarm that named these clients, as in `Restarted`.
    state
        `latched`: they no longer train the models of all clients, while candidates are tried on their records alone.
        `branched`: they are served by, and train, a model of their own. `released`: no candidate gained enough, so
        there is no branch. `merged`: their branch ended, because it gained next to nothing. `returned`: it ended,
        because the model of all clients is better for them again. `corrected`: they did not drift alone; the drift of
        this number came to others when these had records of its time. What serves them does not change with it.
    behind
        In `latched`, how many other clients have no records yet of the time of the change, so far as times are known:
        the drift may still come to them.
    chosen
        In `branched`, the candidate that serves these clients.
    gains
        In `branched` and `released`, by candidate how much less its mean score was than that of the model of all, on
        the records of these clients since they were latched; in six digits, for people.
    """

    clients: tuple[str, ...]
    state: str
    behind: int = 0
    chosen: str = ""
    gains: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Noticed(Finding):
    """Coordinator: a change that is not drift of the concept, and no reason to restart.

    Parameters
    ----------
    cause
        `class-mix`: the shares of the labels changed.
    """

    cause: str


@dataclass(frozen=True, kw_only=True)
class InputsMoved(Finding):
    """Coordinator: features have moved. No epoch begins.

    Parameters
    ----------
    statistic, threshold
        The logarithm of the evidence for the surest feature, and that of the rounds between false findings. With a
        cause those of its detector.
    cause
        The detector whose alarm these features explain. Predictions became worse, and no untrained, relabelled or
        earlier epoch's model was better than those of this epoch. Empty if no detector alarmed.
    drift
        The round of a drift of at most eight rounds ago, of which it tells more; 0 if there was none.
    clients
        The clients at which a feature moved; empty if one moved at all of them.
    spread
        With a cause, the deviation over all features before and after, in the deviations by which they are scaled, if
        it surely differs; in six digits. Some 25 bytes.
    """

    clients: tuple[str, ...] = ()
    cause: str = ""
    spread: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class InputsStuck(Finding):
    """Coordinator: features that used to vary stand still at some clients. No epoch begins.

    Parameters
    ----------
    statistic, threshold
        The logarithm of the evidence for the surest feature, and that which it had to reach.
    stuck
        Which feature stands still at which client, the surest first, at most 20. Some 70 bytes each.
    """

    clients: tuple[str, ...]
    stuck: tuple[FeatureStuck, ...]
