"""What learns record by record between rounds: what there is to it in the whole federation, and at one client.

There are two: our own models (`core/between/native`), and a model of another library (`core/between/external`). The
machines know this interface only.
"""

import abc
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from streamfl.core.arrays import FloatArray, IntArray
from streamfl.core.bounds import Limits
from streamfl.core.learning.serving import Serving
from streamfl.core.protocol.messages import AgreedState, BetweenPublished, Learnt
from streamfl.core.protocol.records import Batch

S = TypeVar("S", bound=AgreedState)
L = TypeVar("L", bound=Learnt)


@dataclass(frozen=True, slots=True)
class Covered:
    """What an update covers, by which what was learnt of it is judged.

    Parameters
    ----------
    records
        Good records.
    features, labels
        The registered names, and those that its records brought.
    members
        How many clients may be added up.
    limits
        How many names a client may have learnt, and how long they may be.
    """

    records: int
    features: AbstractSet[str]
    labels: AbstractSet[str]
    members: int
    limits: Limits


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a restart means for models that learn between rounds.

    Parameters
    ----------
    goes_on
        Whether the model that served goes on: what was learnt is of the same concept still.
    renamed
        Where that is known, what has become of the labels: label a is to be called what label renamed[a] was.
    """

    goes_on: bool
    renamed: tuple[int, ...] = ()


class BetweenRounds(abc.ABC, Generic[S, L]):
    """A learner of single records: the same at every client and at the coordinator, and never changed.

    Attributes
    ----------
    state
        The class of what clients agree on.
    learnt
        The class of what a client tells of a round.
    pairs_features
        Whether it keeps a number for every pair of features.
    """

    state: ClassVar[type[Any]]
    learnt: ClassVar[type[Any]]
    pairs_features: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def names(self) -> AbstractSet[str]:
        """Return what its models are called where it is told which have a part in predictions."""

    @abc.abstractmethod
    def initial(self, labels: tuple[str, ...]) -> S:
        """Return the state in which nothing has been learnt."""

    @abc.abstractmethod
    def has_made(self, agreed: S) -> bool:
        """Tell whether an agreed state is one of these models, not of others that were federated before."""

    @abc.abstractmethod
    def wrong(self, learnt: L, agreed: S, covered: Covered) -> str | None:
        """Return why what a client has learnt cannot be used, or None.

        Parameters
        ----------
        learnt
            What it says.
        agreed
            Where it began.
        covered
            What its update covers.
        """

    @abc.abstractmethod
    def after(
        self,
        agreed: S,
        learnt: Mapping[str, L],
        labels: tuple[str, ...],
        *,
        apart: AbstractSet[str] = frozenset(),
        renewal: Renewal | None = None,
        limits: Limits,
    ) -> tuple[S, IntArray | None]:
        """Return what is agreed on after a round, and which rows of a table have changed; None for all of it.

        Parameters
        ----------
        agreed
            Where the clients began.
        learnt
            What each of them learnt, in the order of their names.
        labels
            All labels by now.
        apart
            The clients that learn for themselves.
        renewal
            What a restart in this round means; None if there was none.
        limits
            How many names there may be.
        """

    @abc.abstractmethod
    def published(self, agreed: S, version: int, changed: IntArray | None = None) -> BetweenPublished:
        """Return the agreed state as clients are told it: with all of it, or with the rows that changed."""

    @abc.abstractmethod
    def unusable(self, published: BetweenPublished) -> str | None:
        """Return why a client cannot use what was published, or None if it can."""

    @abc.abstractmethod
    def at_client(self) -> "AtClient":
        """Return it at a client that has learnt nothing yet."""

    def refusal(self, learnt: Learnt | None, agreed: AgreedState | None, covered: Covered) -> str | None:
        """Return why what a client says or does not say of what it has learnt cannot be used, or None."""
        if not isinstance(learnt, self.learnt) or not isinstance(agreed, self.state):
            return None if learnt is None and agreed is None else "models between rounds that not all have"
        return self.wrong(learnt, agreed, covered)

    def taken(self, agreed: AgreedState | None) -> S | None:
        """Return an agreed state if it is one of these models; None lets them begin anew."""
        return agreed if isinstance(agreed, self.state) and self.has_made(agreed) else None


class AtClient(abc.ABC):
    """What one client has learnt since the round began, of the records that are pending.

    Attributes
    ----------
    version
        Of the agreed state from which it learns.
    """

    version: int

    @abc.abstractmethod
    def take(self, published: BetweenPublished) -> None:
        """Keep what was published until its round is open; only the versions that arrived last."""

    @abc.abstractmethod
    def has(self, version: int) -> bool:
        """Tell whether it can go on from a version."""

    @abc.abstractmethod
    def begin(self, version: int) -> None:
        """Go on from the agreed state of a version; what is pending is learnt again, from there."""

    @abc.abstractmethod
    def forget(self) -> None:
        """Forget what was learnt of pending records, as they are to be read again."""

    @property
    @abc.abstractmethod
    def records(self) -> int:
        """Count the pending records that it has learnt."""

    @abc.abstractmethod
    def learn_next(self, batch: Batch, serving: Serving | None = None) -> None:
        """Learn the records that follow those it has learnt; `serving` is the model that serves rounds."""

    @abc.abstractmethod
    def answer(self, batch: Batch, serving: Serving | None = None) -> FloatArray:
        """Return what is served of some records now: probabilities by label, or targets; shape (n, columns)."""

    @property
    @abc.abstractmethod
    def labels(self) -> tuple[str, ...]:
        """Return the labels that predictions are of; none for targets."""

    @property
    @abc.abstractmethod
    def served(self) -> FloatArray:
        """Return what was predicted of each record just before it was learnt, shape (records,)."""

    @abc.abstractmethod
    def learnt(self, limits: Limits) -> Learnt:
        """Return what a client tells of what it has learnt: no more names than may be."""

    @abc.abstractmethod
    def shares(self) -> dict[str, float]:
        """Return what part each model has in the predictions served, by name; they sum to 1."""

    def learn(self, batches: Sequence[Batch], serving: Serving | None = None) -> None:
        """Learn those of the pending records that it has not learnt yet."""
        for batch in without_first(batches, self.records):
            self.learn_next(batch, serving)


def without_first(batches: Sequence[Batch], records: int) -> Iterator[Batch]:
    """Return batches without their first records.

    >>> from streamfl.core.protocol.records import Span
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), ("x",), np.array([[1.0], [2.0], [6.0]]), np.zeros(3), ("a",))
    >>> [left.X.ravel().tolist() for left in without_first([batch, batch], 4)]
    [[2.0, 6.0]]
    """
    for batch in batches:
        if records < len(batch):
            yield batch.only(np.arange(records, len(batch))) if records else batch
        records = max(0, records - len(batch))
