"""The new names in clients' messages: how many a federation registers, and how updates lose the others.

Every name makes all models larger, for ever, so names cost the client that brings them: see `affordable`. If the new
names of a round exceed a limit, they are granted in the order of the clients' names, and within a client in the order
of its message, which is alphabetical. What belongs to the other names is removed from the updates before aggregation;
the updates themselves count.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import median_low
from typing import Literal, NamedTuple

from streamfl.arrays import FloatArray
from streamfl.bounds import Limits
from streamfl.learning.influence import FEWEST
from streamfl.protocol.messages import Scores, Update
from streamfl.protocol.registry import Registry

# What a client may bring alone: at first, and one more in this many rounds; or this many times as much as the middle
# client. A label costs as much as this many features. docs/choices.md, "Names of one client".
AT_FIRST, ONE_MORE_IN, TIMES, LABEL = 64, 20, 2, 4

# Names that more than one client in this many brings in the same round cost nobody.
ONE_IN = 5


class Name(NamedTuple):
    """A name that a client brings.

    >>> Name("label", "a").cost, Name("feature", "x").cost
    (4, 1)
    """

    kind: Literal["label", "feature"]
    text: str

    @property
    def cost(self) -> int:
        """Return what it costs a client that brings it alone."""
        return LABEL if self.kind == "label" else 1


def with_room(names: Iterable[str], known: Collection[str], most: int) -> tuple[str, ...]:
    """Return the new names that are registered next to the known ones: the first, as many as there is room for.

    >>> with_room(["d", "b", "d", "c", "a"], ("a",), 3)
    ('d', 'b')
    """
    new = [name for name in dict.fromkeys(names) if name not in known]
    return tuple(new[: max(0, most - len(known))])


def own_names(labels: Mapping[str, Sequence[str]], features: Mapping[str, Sequence[str]]) -> dict[str, list[Name]]:
    """Return, by client, the names that few others bring: labels first, else in its order.

    >>> own_names({"c0": ("a",), "c1": ("a", "b")}, {"c0": (), "c1": ("x",)})["c1"]
    [Name(kind='label', text='b'), Name(kind='feature', text='x')]
    """
    own = {client: list[Name]() for client in labels}
    kinds: tuple[tuple[Literal["label", "feature"], Mapping[str, Sequence[str]]], ...]
    kinds = ("label", labels), ("feature", features)
    for kind, brought in kinds:
        by_name = Counter(name for names in brought.values() for name in names)
        few = {name for name, clients in by_name.items() if clients < 2 or ONE_IN * clients <= len(brought)}
        for client, names in brought.items():
            own[client] += [Name(kind, name) for name in names if name in few]
    return own


def are_free(members: int, t: int) -> bool:
    """Tell whether names cost nothing: in round 1, and among few members, where none can be told from the others."""
    return t == 1 or members < FEWEST


def affordable(own: Mapping[str, Sequence[Name]], spent: Mapping[str, int], t: int) -> dict[str, list[Name]]:
    """Return, by client, those of its own names that it can pay for. The others have to wait.

    A client may have spent `AT_FIRST`, and one more in `ONE_MORE_IN` rounds; or `TIMES` as much as the middle client
    would have if it got all: where each client has columns of its own, all get theirs.

    Parameters
    ----------
    own
        By client with records, its own names.
    spent
        By client that is there, also without records, what its names have cost so far.

    Examples
    --------
    >>> many = [Name("feature", f"f{i:02}") for i in range(70)]
    >>> len(affordable({"c0": many}, {"c0": 10, "c1": 0, "c2": 0, "c3": 0}, t=7)["c0"])
    54
    """
    would = {**spent, **{client: spent[client] + sum([name.cost for name in own[client]]) for client in own}}
    most = max(AT_FIRST + t // ONE_MORE_IN, TIMES * median_low(would.values()))
    taken, by_client = set[Name](), {client: list[Name]() for client in own}
    for client, names in own.items():
        left = most - spent[client]
        for name in names:
            if name not in taken and name.cost <= left:
                taken.add(name)
                by_client[client].append(name)
                left -= name.cost
    return by_client


def named_by(messages: Iterable[Iterable[str]], fewest: int) -> tuple[str, ...]:
    """Return the names that at least this many messages name, in the order in which they are named first.

    What a total holds of a feature or label that one client alone names is about that client.

    >>> named_by([("b", "a"), ("c", "b"), ("b",)], 1), named_by([("b", "a"), ("c", "b"), ("b",)], 2)
    (('b', 'a', 'c'), ('b',))
    """
    counts = Counter(name for names in messages for name in dict.fromkeys(names))
    return tuple(name for name, count in counts.items() if count >= fewest)


@dataclass(frozen=True, slots=True)
class Grant:
    """The names that a round may register.

    Examples
    --------
    >>> import numpy as np
    >>> registry = Registry(1, ("x",), ("a",), np.zeros(1), np.ones(1))
    >>> Grant(registry, frozenset({"x"}), frozenset({"a", "c"})).kept_columns(("b", "c"))
    [0, 2]
    """

    registry: Registry  # in force for the round
    # The registered ones, and those of the round's that are granted.
    features: frozenset[str]
    labels: frozenset[str]
    # By client, what the names cost that it has brought alone; empty where names cost nothing.
    cost: Mapping[str, int] = field(default_factory=dict)
    # By client, how many of its names have to wait, because it has spent too much.
    waiting: Mapping[str, int] = field(default_factory=dict)

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
        """Return what is granted to updates, in the order of their clients: see `affordable` and `named_by`."""
        senders = [update for update in updates if update.records]
        if not any(update.new_labels or update.new_features for update in updates):
            return cls(registry, registry.feature_names, registry.label_names)
        own = own_names({u.client: u.new_labels for u in senders}, {u.client: u.new_features for u in senders})
        spent = dict.fromkeys(own, 0) if spent is None else spent
        bought = {} if are_free(len(spent), t) else affordable(own, spent, t)
        waiting = set(chain(*own.values())).difference(*bought.values()) if bought else set[Name]()
        named = named_by((u.new_features for u in updates), fewest), named_by((u.new_labels for u in updates), fewest)
        features = (name for name in named[0] if Name("feature", name) not in waiting)
        names = (name for name in named[1] if Name("label", name) not in waiting)
        most = limits.most_labels(len(registry.features))
        labels = frozenset((*registry.labels, *with_room(names, registry.labels, most)))
        new = with_room(features, registry.features, limits.most_features(len(labels)))
        made = cls(registry, frozenset((*registry.features, *new)), labels)
        return replace(
            made,
            cost={client: made._cost(names) for client, names in bought.items()},
            waiting={client: n for client, names in own.items() if (n := len(waiting.intersection(names)))},
        )

    def _cost(self, names: Iterable[Name]) -> int:
        """Return what the names cost that are granted."""
        there = {"label": self.labels, "feature": self.features}
        return sum([name.cost for name in names if name.text in there[name.kind]])

    def kept_columns(self, new_labels: Sequence[str]) -> list[int]:
        """Return which columns of a client's weights are kept, given its new labels."""
        labels = (*self.registry.labels, *new_labels)
        return [column for column, label in enumerate(labels) if label in self.labels]

    def update(self, update: Update) -> Update:
        """Return an update without the names that are not granted."""
        if self.features.issuperset(update.new_features) and self.labels.issuperset(update.new_labels):
            return update
        numbers = update.numbers
        moments, learnt = numbers.moments, numbers.learnt
        return replace(
            update,
            new_features=tuple(name for name in update.new_features if name in self.features),
            new_labels=tuple(name for name in update.new_labels if name in self.labels),
            numbers=replace(
                numbers,
                differences=self._cut(numbers.differences, update),
                new=tuple(sums for sums in numbers.new if sums.label in self.labels),
                moments=None if moments is None else moments.among(self.features),
                learnt=None if learnt is None else learnt.only(self.features, self.labels),
            ),
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
