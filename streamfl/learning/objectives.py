"""What answers are to be good at, and the rule of decision that follows from the records of earlier rounds.

The rule is agreed on: it is a function of what the ledger has accepted, and every round names it. Nothing that is
learnt, scored or tested depends on it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from streamfl.protocol.digits import significant
from streamfl.protocol.messages import Update
from streamfl.protocol.messages.base import FieldGroup
from streamfl.protocol.messages.decision_rule import LARGEST, LIKELIEST, DecisionRule, Tried

# Counts decay by 1 / 2,000 a record, and the powers that are tried. docs/choices.md, "Decisions from probabilities".
MEMORY = 2000.0
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)

# More than members can claim: such counts have finite sums and products. docs/choices.md, "Bounds and rounding".
MOST_COUNTED = 1e30

# Kappas that are equal to so many digits are equal. docs/choices.md, "Bounds and rounding".
DIGITS = 9


@dataclass(frozen=True, kw_only=True)
class TriedSums:
    """What a power of the weights would have answered to the records of earlier rounds; counts decay."""

    correct: float = 0.0
    answers: Mapping[str, float] = field(default_factory=dict)  # by label

    def after(self, tried: Sequence[Tried], kept: float, labels: Sequence[str]) -> "TriedSums":
        """Return the sums after a round with these counts of clients; a share `kept` of those before is left."""
        return TriedSums(
            correct=kept * self.correct + sum(one.correct for one in tried),
            answers=_sums(self.answers, [one.answers for one in tried], kept, labels),
        )

    def kappa(self, labels: Mapping[str, float]) -> float:
        """Return Cohen's kappa where labels have some counts; 0 where chance is always right.

        >>> TriedSums(correct=3.0, answers={"no": 3.0, "yes": 1.0}).kappa({"no": 2.0, "yes": 2.0})
        0.5
        """
        records, answered = math.fsum(labels.values()), math.fsum(self.answers.values())
        if not records or not answered:
            return 0.0
        by_chance = math.fsum(count * self.answers.get(label, 0.0) for label, count in labels.items())
        by_chance /= records * answered
        return (self.correct / answered - by_chance) / (1.0 - by_chance) if by_chance < 1.0 else 0.0


@dataclass(frozen=True, kw_only=True)
class SeenLabels(FieldGroup):
    """What a coordinator remembers of the labels of earlier rounds, and of answers that were tried; counts decay."""

    labels: Mapping[str, float] = field(default_factory=dict)  # records by label
    tried: tuple[TriedSums, ...] = ()  # by power

    def after(self, updates: Sequence[Update], labels: Sequence[str]) -> "SeenLabels":
        """Return what is remembered after a round with these updates, of the labels that are registered by now."""
        counts = [{one.label: one.count} for update in updates for one in update.numbers.new]
        kept = math.exp(-sum(sum(part.values()) for part in counts) / MEMORY)
        tried = [update.numbers.tried for update in updates if update.numbers.tried]
        before = self.tried or (TriedSums(),) * len(POWERS)
        after = tuple(sums.after([one[i] for one in tried], kept, labels) for i, sums in enumerate(before))
        return SeenLabels(labels=_sums(self.labels, counts, kept, labels), tried=after)

    def weights(self, labels: Sequence[str]) -> dict[str, float]:
        """Return 1 over the share of each label that was seen, times a number that makes it 1 if shares are equal.

        A label counts as one record at least. Whatever members claim, no weight is larger than a rule may have.

        >>> SeenLabels(labels={"no": 30.0, "yes": 10.0}).weights(("no", "yes", "new"))
        {'no': 0.666667, 'yes': 2.0}
        """
        counts = {label: max(1.0, self.labels[label]) for label in labels if self.labels.get(label)}
        records = math.fsum(counts.values())
        return {label: min(LARGEST, significant(records / (len(counts) * count))) for label, count in counts.items()}

    @property
    def is_possible(self) -> bool:
        """Tell whether a coordinator can remember this: a saved state may be damaged.

        >>> SeenLabels().is_possible, SeenLabels(labels={"a": float("nan")}).is_possible
        (True, False)
        """
        counts = [*self.labels.values(), *(n for one in self.tried for n in (one.correct, *one.answers.values()))]
        return len(self.tried) in {0, len(POWERS)} and all(0.0 <= count <= MOST_COUNTED for count in counts)

    @property
    def best(self) -> float:
        """Return the power with the largest kappa, of equal ones the least."""
        kappas = [round(sums.kappa(self.labels), DIGITS) for sums in self.tried] or [0.0]
        return POWERS[kappas.index(max(kappas))]


class Objective(Protocol):
    """What answers are to be good at; immutable."""

    def rule(self, seen: SeenLabels, labels: Sequence[str]) -> DecisionRule:
        """Return the rule of the next round, by the records of earlier ones and the registered labels."""
        ...

    def after(self, seen: SeenLabels, updates: Sequence[Update], labels: Sequence[str]) -> SeenLabels:
        """Return what is remembered after a round."""
        ...


@dataclass(frozen=True)
class Accuracy:
    """As many right answers as possible: the likeliest label answers."""

    def rule(self, seen: SeenLabels, labels: Sequence[str]) -> DecisionRule:
        """Return the rule without weights."""
        return LIKELIEST

    def after(self, seen: SeenLabels, updates: Sequence[Update], labels: Sequence[str]) -> SeenLabels:
        """Remember nothing."""
        return SeenLabels()


ACCURACY = Accuracy()


@dataclass(frozen=True)
class Cost(Accuracy):
    """The least expected cost, where missing a record of a label has a price: of any label without one it is 1.

    A wrong answer costs the price of the true label, whatever the answer. So the expected cost of an answer is that
    of all labels less price times probability of its own.
    """

    costs: Mapping[str, float]

    def rule(self, seen: SeenLabels, labels: Sequence[str]) -> DecisionRule:
        """Return the rule whose weights are the prices, also of labels that nobody has seen."""
        return DecisionRule(weights=self.costs)


@dataclass(frozen=True)
class Balanced:
    """As many right answers of each label as possible: the mean of the labels' recalls.

    Over all records it is largest if the probability over the label's share decides.
    """

    def rule(self, seen: SeenLabels, labels: Sequence[str]) -> DecisionRule:
        """Return the rule whose weights are 1 over shares."""
        return DecisionRule(weights=seen.weights(labels))

    def after(self, seen: SeenLabels, updates: Sequence[Update], labels: Sequence[str]) -> SeenLabels:
        """Remember the labels of records."""
        return replace(seen.after(updates, labels), tried=())


@dataclass(frozen=True)
class BestKappa(Balanced):
    """More agreement than by chance: by the power of 1 over shares that had the largest kappa so far."""

    def rule(self, seen: SeenLabels, labels: Sequence[str]) -> DecisionRule:
        """Return the rule with the best power, and all powers to be tried."""
        weights = seen.weights(labels)
        return DecisionRule(weights=weights, power=seen.best, tried=POWERS) if weights else LIKELIEST

    def after(self, seen: SeenLabels, updates: Sequence[Update], labels: Sequence[str]) -> SeenLabels:
        """Also remember what each power would have answered."""
        return seen.after(updates, labels)


def _sums(
    before: Mapping[str, float], counts: Sequence[Mapping[str, int]], kept: float, labels: Sequence[str]
) -> dict[str, float]:
    """Return counts by label: a share `kept` of those before, and those of clients."""
    return {label: kept * before.get(label, 0.0) + sum(part.get(label, 0) for part in counts) for label in labels}
