"""The new names in clients' messages: how many a federation registers, and how updates lose the others.

If the new names of a round exceed a limit, they are granted in the order of the clients' names, and within a client
in the order of its message, which is alphabetical. What belongs to the other names is removed from the updates before
aggregation; the updates themselves count.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from streamfl.core.arrays import FloatArray
from streamfl.core.bounds import NAME_BYTES, Limits, is_name
from streamfl.core.protocol.messages import Join, Scores, Update
from streamfl.core.protocol.registry import Registry


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

    @classmethod
    def of(cls, updates: Sequence[Update], registry: Registry, limits: Limits, fewest: int = 1) -> "Grant":
        """Return what is granted to updates, which are in the order of their clients: what so many of them name."""
        features = named_by((update.new_features for update in updates), fewest)
        names = named_by((update.new_labels for update in updates), fewest)
        most = limits.most_labels(len(registry.features))
        labels = frozenset((*registry.labels, *granted(names, registry.labels, most)))
        new = granted(features, registry.features, limits.most_features(len(labels)))
        return cls(registry, frozenset((*registry.features, *new)), labels)

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
