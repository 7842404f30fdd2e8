"""The new names in clients' messages: how many a federation registers, and how updates lose the others.

Every name makes all models larger, for ever, so names cost the client that brings them: see `paid`. If the new names
of a round exceed a limit, they are granted in the order of the clients' names, and within a client in the order of
its message, which is alphabetical. What belongs to the other names is removed from the updates before aggregation;
the updates themselves count.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median_low

from streamfl.core.arrays import FloatArray
from streamfl.core.bounds import NAME_BYTES, Limits, is_name
from streamfl.core.learning.influence import FEWEST
from streamfl.core.protocol.messages import Join, Scores, Update
from streamfl.core.protocol.registry import Registry

# What a client may bring alone: at first, and one more in so many rounds; or so many times as much as the middle
# client. A label costs as much as so many features. docs/choices.md, "Names of one client".
AT_FIRST, ONE_MORE_IN, TIMES, LABEL = 16, 100, 2, 4

# Names that more than one client in so many brings in the same round cost nobody.
ONE_IN = 5

Cost = tuple[int, str]
"""What a name costs, which also tells labels from features; and the name."""


def wrong_names(names: Sequence[str], known: Collection[str], most: int, name_bytes: int = NAME_BYTES) -> str | None:
    """Return why the new names of a message are refused, or None.

    Parameters
    ----------
    names
        The new names.
    known
        The names that are registered.
    most
        How many names a federation registers.
    name_bytes
        The most bytes of a name.

    >>> wrong_names(("a", "b"), ("b",), 4), wrong_names(("a", "b"), (), 1)
    ('a new name that is known, or comes twice', '2 new names, where 1 are the most')
    >>> wrong_names(("x" * 257,), (), 4)
    'a name of more than 256 bytes, or not in UTF-8'
    """
    if len(names) > most:
        return f"{len(names)} new names, where {most} are the most"
    if len(set(names) - set(known)) != len(names):
        return "a new name that is known, or comes twice"
    if all(is_name(name, name_bytes) for name in names):
        return None
    return f"a name of more than {name_bytes} bytes, or not in UTF-8"


def wrong_update_names(update: Update, registry: Registry, limits: Limits) -> str | None:
    """Return why the new names of an update are refused, or None."""
    reason = wrong_names(update.new_labels, registry.labels, limits.labels, limits.name_bytes) or wrong_names(
        update.new_features, registry.features, limits.features, limits.name_bytes
    )
    if reason is not None:
        return reason
    named = {*registry.features, *update.new_features}
    if update.moments is not None and not named.issuperset(update.moments.features):
        return "moments of a feature that no record has"
    return None


def wrong_join_names(join: Join, limits: Limits) -> str | None:
    """Return why the names in a Join are refused, or None."""
    return wrong_names(join.labels, (), limits.labels, limits.name_bytes) or wrong_names(
        join.moments.features, (), limits.features, limits.name_bytes
    )


def granted(names: Iterable[str], known: Collection[str], most: int) -> tuple[str, ...]:
    """Return the new names that are registered beside the known ones: the first, as many as there is room for.

    >>> granted(["d", "b", "d", "c", "a"], ("a",), 3)
    ('d', 'b')
    """
    new = [name for name in dict.fromkeys(names) if name not in known]
    return tuple(new[: max(0, most - len(known))])


def own_names(labels: Mapping[str, Sequence[str]], features: Mapping[str, Sequence[str]]) -> dict[str, list[Cost]]:
    """Return, by client, the names that few others bring, with what each costs: labels first, else in its order.

    Parameters
    ----------
    labels, features
        The names that each client brings.

    >>> own_names({"c0": ("a",), "c1": ("a", "b")}, {"c0": ("x",), "c1": ()})
    {'c0': [(1, 'x')], 'c1': [(4, 'b')]}
    """
    kinds, own = ((LABEL, labels), (1, features)), {client: list[Cost]() for client in labels}
    for cost, brought in kinds:
        by_name = Counter(name for names in brought.values() for name in names)
        few = {name for name, clients in by_name.items() if clients < 2 or ONE_IN * clients <= len(brought)}
        for client, names in brought.items():
            own[client] += [(cost, name) for name in names if name in few]
    return own


def paid(own: Mapping[str, Sequence[Cost]], spent: Mapping[str, int], t: int) -> dict[str, list[Cost]]:
    """Return, by client, those of its own names that it pays for. The others have to wait.

    A client may have spent `AT_FIRST`, and one more in `ONE_MORE_IN` rounds; or `TIMES` as much as the middle client
    would have if it got all: where each client has columns of its own, all get theirs. In round 1, and among few
    clients, of which none can be told from the others, all is granted.

    Parameters
    ----------
    own
        By client with records, its own names.
    spent
        By client that is there, also without records, what its names have cost so far.
    t
        The round.

    Examples
    --------
    >>> many = [(1, f"f{i:02}") for i in range(70)]
    >>> len(paid({"c0": many}, {"c0": 10, "c1": 0, "c2": 0, "c3": 0}, t=7)["c0"])
    6
    """
    would = {**spent, **{client: spent[client] + sum([cost for cost, _ in own[client]]) for client in own}}.values()
    unlimited = t == 1 or len(spent) < FEWEST
    most = sum(would) if unlimited else max(AT_FIRST + t // ONE_MORE_IN, TIMES * median_low(would))
    granted_, paying = set[Cost](), {client: list[Cost]() for client in own}
    for client, names in own.items():
        left = most - spent[client]
        for one in names:
            if one not in granted_ and one[0] <= left:
                granted_.add(one)
                paying[client].append(one)
                left -= one[0]
    return paying


def named_by(messages: Iterable[Iterable[str]], fewest: int) -> tuple[str, ...]:
    """Return the names that at least so many messages name, in the order in which they are named first.

    What a total holds of a feature or label that one client alone names is about that client.

    >>> named_by([("b", "a"), ("c", "b"), ("b",)], 1), named_by([("b", "a"), ("c", "b"), ("b",)], 2)
    (('b', 'a', 'c'), ('b',))
    """
    counts = Counter(name for names in messages for name in dict.fromkeys(names))
    return tuple(name for name, count in counts.items() if count >= fewest)


@dataclass(frozen=True, slots=True)
class Grant:
    """The names that a round may register.

    Parameters
    ----------
    registry
        In force for the round.
    features, labels
        The registered ones, and those of the round's that are granted.
    cost
        By client, what the names cost that it has brought alone.

    Examples
    --------
    >>> import numpy as np
    >>> registry = Registry(1, ("x",), ("a",), np.zeros(1), np.ones(1))
    >>> Grant(registry, frozenset({"x"}), frozenset({"a", "c"})).kept_columns(("b", "c"))
    [0, 2]
    """

    registry: Registry
    features: frozenset[str]
    labels: frozenset[str]
    cost: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        updates: Sequence[Update],
        registry: Registry,
        limits: Limits,
        *,
        spent: Mapping[str, int] | None = None,
        t: int = 1,
        fewest: int = 1,
    ) -> "Grant":
        """Return what is granted to updates, which are in the order of their clients: see `paid` and `named_by`."""
        senders = [update for update in updates if update.records]
        own = own_names({u.client: u.new_labels for u in senders}, {u.client: u.new_features for u in senders})
        paying = paid(own, dict.fromkeys(own, 0) if spent is None else spent, t)
        waiting = set(chain(*own.values())).difference(*paying.values())
        named = named_by((u.new_features for u in updates), fewest), named_by((u.new_labels for u in updates), fewest)
        features = (name for name in named[0] if (1, name) not in waiting)
        names = (name for name in named[1] if (LABEL, name) not in waiting)
        most = limits.most_labels(len(registry.features))
        labels = frozenset((*registry.labels, *granted(names, registry.labels, most)))
        new = granted(features, registry.features, limits.most_features(len(labels)))
        made = cls(registry, frozenset((*registry.features, *new)), labels)
        return replace(made, cost={client: made._cost(names) for client, names in paying.items()})

    def _cost(self, names: Iterable[Cost]) -> int:
        """Return what the names cost that are granted."""
        return sum([cost for cost, name in names if name in (self.features if cost == 1 else self.labels)])

    def kept_columns(self, new_labels: Sequence[str]) -> list[int]:
        """Return which columns of a client's weights are kept, given its new labels."""
        labels = (*self.registry.labels, *new_labels)
        return [column for column, label in enumerate(labels) if label in self.labels]

    def update(self, update: Update) -> Update:
        """Return an update without the names that are not granted."""
        if self.features.issuperset(update.new_features) and self.labels.issuperset(update.new_labels):
            return update
        moments, learnt = update.moments, update.learnt
        return replace(
            update,
            new_features=tuple(name for name in update.new_features if name in self.features),
            new_labels=tuple(name for name in update.new_labels if name in self.labels),
            differences=self._cut(update.differences, update),
            new=tuple(sums for sums in update.new if sums.label in self.labels),
            moments=None if moments is None else moments.among(self.features),
            learnt=None if learnt is None else learnt.only(self.features, self.labels),
        )

    def scores(self, scores: Scores, update: Update) -> Scores:
        """Return the scores that a client sent for its update, without the labels that are not granted."""
        if self.labels.issuperset(update.new_labels):
            return scores
        return replace(scores, differences=self._cut(scores.differences, update))

    def _cut(self, differences: Mapping[str, FloatArray], update: Update) -> dict[str, FloatArray]:
        """Return differences without the columns of labels that are not granted, where labels have columns."""
        columns = self.kept_columns(update.new_labels)
        all_columns = len(self.registry.labels) + len(update.new_labels)
        return {name: x[:, columns] if x.shape[1] == all_columns else x for name, x in differences.items()}
