"""The interface of online models, which learn record by record: in the federation, and at one client.

It has two implementations: native models (`online/native`), and an external model of another library
(`online/external`). The machines know this interface only.
"""

import abc
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import Limits
from streamfl.learning.influence import Contributions
from streamfl.learning.serving import Serving
from streamfl.protocol.messages import AgreedState, Learnt, OnlinePublished
from streamfl.protocol.records import Batch

S = TypeVar("S", bound=AgreedState)
L = TypeVar("L", bound=Learnt)

NO_BRANCHES: Mapping[str, Collection[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Covered:
    """What an update covers, and so what its client may have learnt."""

    records: int  # the number of good records
    # The registered names, and those that its records brought.
    features: AbstractSet[str]
    labels: AbstractSet[str]
    members: int  # the largest number of clients whose results are added
    limits: Limits  # bounds on the number and length of names
    measured: bool = True  # whether it was the client's turn to send moments


@dataclass(frozen=True, slots=True)
class Renewal:
    """The effect of a restart on online models."""

    goes_on: bool  # whether the incumbent serves on: the models have learnt the same concept
    # How labels have changed, if that is known: label a takes the name that label renamed[a] had. Empty otherwise.
    renamed: tuple[int, ...] = ()
    begins_again: bool = False  # whether models that know nothing are better: then all is forgotten


class OnlineModels(abc.ABC, Generic[S, L]):
    """An immutable learner of single records, the same at every client and at the coordinator.

    Attributes
    ----------
    state
        The class of its agreed state.
    learnt
        The class of what a client has learnt in a round, as sent in updates.
    pairs_features
        Whether it keeps a number for every pair of features.
    """

    state: ClassVar[type[Any]]
    learnt: ClassVar[type[Any]]
    pairs_features: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def names(self) -> AbstractSet[str]:
        """Return the names of its models, as in `AtClient.shares`."""

    @abc.abstractmethod
    def initial(self, labels: tuple[str, ...]) -> S:
        """Return the state in which nothing has been learnt."""

    @abc.abstractmethod
    def has_made(self, agreed: S) -> bool:
        """Return whether an agreed state is of these models, not of others that were federated before."""

    @abc.abstractmethod
    def wrong(self, learnt: L, agreed: S, covered: Covered) -> str | None:
        """Return why the result of a client cannot be used, or None."""

    @abc.abstractmethod
    def after(
        self,
        agreed: S,
        learnt: Mapping[str, L],
        labels: tuple[str, ...],
        *,
        apart: AbstractSet[str] = frozenset(),
        branches: Mapping[str, Collection[str]] = NO_BRANCHES,
        renewal: Renewal | None = None,
        limits: Limits,
    ) -> tuple[S, Any]:
        """Return the agreed state after a round, and its change as `published` takes it; None: it is published whole.

        Parameters
        ----------
        learnt
            Each client's result, with all names, in the order of the clients' names.
        labels
            All labels by now.
        apart
            The clients apart, whose results are not added.
        branches
            Those of them that have a branch, by its name: they may agree on how they mix what all have learnt.
        renewal
            The effect of a restart in this round; None if there was none.
        """

    @abc.abstractmethod
    def published(self, agreed: S, version: int, change: Any = None) -> OnlinePublished:
        """Return the agreed state as it is published: all of it, or its change in the last round."""

    @abc.abstractmethod
    def unusable(self, published: OnlinePublished) -> str | None:
        """Return why a client cannot use a published state, or None if it can."""

    @abc.abstractmethod
    def at_client(self) -> "AtClient":
        """Return the client's side of it, which has learnt nothing yet."""

    def contributions(self, learnt: Mapping[str, L], agreed: S, seed: int) -> Mapping[str, Contributions]:
        """Return what clients learnt as numbers to be compared, by kind; nothing if they cannot be compared.

        Parameters
        ----------
        learnt
            Each client's result, in the order of the clients' names.
        seed
            The seed of the signs of sketches.
        """
        return {}

    def times(self, learnt: L, share: float) -> L:
        """Return a client's result of which a share counts, between 0 and 1."""
        return learnt

    def of_fewer(self, learnt: L, records: int) -> L:
        """Return a client's result as if it were about fewer records."""
        return learnt

    def in_one_process(self) -> Self:
        """Return the same for clients that are driven by one thread: they may keep once what is the same at all."""
        return self

    def alone(self) -> Self:
        """Return the same for a client that is alone, for good: what it learns need not be fit to be sent."""
        return self

    def agreed_only(self) -> Self:
        """Return the same without models that are a client's own and never agreed on."""
        return self

    def named(self, learnt: L, agreed: S) -> L:
        """Return the result of a client with the names that its update leaves out, because all processes know them.

        It comes before all checks, so any content of any length is possible.
        """
        return learnt

    def completed(self, learnt: Learnt | None, agreed: AgreedState | None) -> Learnt | None:
        """Return the result of a client as `named` does, if it is one of these models."""
        if not isinstance(learnt, self.learnt) or not isinstance(agreed, self.state):
            return learnt
        complete: Learnt = self.named(learnt, agreed)
        return complete

    def refusal(self, learnt: Learnt | None, agreed: AgreedState | None, covered: Covered) -> str | None:
        """Return why the result of a client, or its absence, cannot be used, or None."""
        if not isinstance(learnt, self.learnt) or not isinstance(agreed, self.state):
            return (
                None
                if learnt is None and agreed is None
                else "either the update or the federation has no online models"
            )
        return self.wrong(learnt, agreed, covered)

    def recognised(self, agreed: AgreedState | None) -> S | None:
        """Return an agreed state if it is of these models; otherwise None, and they begin again."""
        return agreed if isinstance(agreed, self.state) and self.has_made(agreed) else None


class AtClient(abc.ABC):
    """What one client has learnt from its pending records since the round began.

    Attributes
    ----------
    version
        The version of the agreed state from which it learns.
    coarsest
        The most times that its results can be made coarser; 0 if they cannot.
    """

    coarsest: ClassVar[int] = 0

    version: int

    @abc.abstractmethod
    def take(self, published: OnlinePublished) -> None:
        """Keep a published state until its round is open; only the last versions to arrive are kept."""

    @abc.abstractmethod
    def has(self, version: int) -> bool:
        """Return whether it can learn from a version of the agreed state."""

    @abc.abstractmethod
    def begin(self, version: int, epoch: int, branch: str = "") -> None:
        """Learn from a version of the agreed state; pending records are learnt again from there.

        Parameters
        ----------
        branch
            The name of the client's branch, empty without one.
        """

    def follow(self, version: int) -> None:
        """Predict by a version of the agreed state, without anything of a client's own; it has learnt nothing."""
        self.begin(version, 0)

    def mix_as(self, branch: str) -> bool:
        """Predict by what has been followed as the clients of a branch do, or as all others: see `begin`.

        Returns
        -------
        Whether it can. If not, the model of rounds of the branch answers alone.
        """
        return not branch

    @abc.abstractmethod
    def forget(self) -> None:
        """Forget what was learnt from pending records, since they will be read again."""

    def hold(self) -> None:  # noqa: B027  some have nothing of a client's own
        """Keep what is the client's own as it is now: the records learnt next are learnt again from there.

        They are too few to be sent, and wait for more. `begin` and `forget` go back to it, `release` lets it go.
        """

    def release(self) -> None:  # noqa: B027  as `hold`
        """Let go of what `hold` has kept: the records learnt since are in the ledger."""

    @property
    @abc.abstractmethod
    def records(self) -> int:
        """The number of pending records that it has learnt."""

    @abc.abstractmethod
    def learn_next(self, batch: Batch, serving: Serving | None = None) -> FloatArray:
        """Learn the next records after those already learnt; `serving` is the model that serves rounds.

        Returns
        -------
        The prediction of each just before it was learnt, as of `answer`.
        """

    @abc.abstractmethod
    def answer(self, batch: Batch, serving: Serving | None = None) -> FloatArray:
        """Return current predictions for some records: probabilities by label, or targets; shape (n, columns)."""

    def answer_late(self, batch: Batch, serving: Serving | None = None) -> FloatArray:
        """Return current predictions for some records that are learnt only when their labels come: see `answer`."""
        return self.answer(batch, serving)

    @property
    @abc.abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The labels of the predictions' columns; none in regression."""

    @property
    @abc.abstractmethod
    def served(self) -> FloatArray:
        """The prediction of each record just before it was learnt, as of `answer`, with the labels known by now."""

    @abc.abstractmethod
    def learnt(self, limits: Limits, client: str, *, measured: bool = True, coarser: int = 0) -> Learnt:
        """Return the client's result for its update.

        Parameters
        ----------
        client
            The client's name: numbers may be rounded by draws of its own.
        measured
            Whether it is the client's turn to send moments.
        coarser
            How much more coarsely numbers are rounded, by the same draws, to take fewer bytes: at most `coarsest`.
        """

    def untrained_loss(self, batches: Sequence[Batch]) -> float | None:
        """Return the mean log-loss of untrained models over some records, each predicted and then learnt, in nats.

        It is compared with the mean of `loss` of what is learnt. None: these models are not compared.
        """
        return None

    @abc.abstractmethod
    def shares(self) -> dict[str, float]:
        """Return each model's share of the served predictions, by name; they sum to 1."""

    def learn(self, batches: Sequence[Batch], serving: Serving | None = None) -> None:
        """Learn the pending records that it has not learnt yet."""
        for batch in without_first(batches, self.records):
            self.learn_next(batch, serving)


def without_first(batches: Sequence[Batch], records: int) -> Iterator[Batch]:
    """Yield batches without their first `records` records.

    >>> from streamfl.protocol.records import Span
    >>> batch = Batch(Span("p", 0, 3), np.arange(3), ("x",), np.array([[1.0], [2.0], [6.0]]), np.zeros(3), ("a",))
    >>> [left.X.ravel().tolist() for left in without_first([batch, batch], 4)]
    [[2.0, 6.0]]
    """
    for batch in batches:
        if records < len(batch):
            yield batch.only(np.arange(records, len(batch))) if records else batch
        records = max(0, records - len(batch))
