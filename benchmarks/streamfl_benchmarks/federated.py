"""A federation as a method of the benchmark: a replay over a drawn stream."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from streamfl.arrays import FloatArray
from streamfl.errors import BrokenInvariantError
from streamfl.learning.local_round import RoundRecords
from streamfl.machines.client.ledger.published import Published
from streamfl.models.softmax import Softmax
from streamfl.protocol.decisions import PostUpdate, Predicted, Refused
from streamfl.protocol.messages import (
    FromCoordinator,
    ModelPublished,
    ModelsChanged,
    RegistryPublished,
    RoundOpened,
)
from streamfl.run.evaluation.result import Result
from streamfl.run.replay import Replay, ReplaySettings
from streamfl.run.settings import LearningSettings, ProfileSettings
from streamfl_benchmarks.findings import Found
from streamfl_benchmarks.meter import Meter
from streamfl_benchmarks.records import Drawn
from streamfl_benchmarks.run import PENALTY, Finished, finished


@dataclass(frozen=True)
class Federation:
    """How a federation of the benchmark learns and handles drift."""

    profile: ProfileSettings
    learning: LearningSettings = LearningSettings(features="rounds")
    penalty: Literal["l1", "l2"] = "l2"  # what the benchmark's penalty is the weight of
    # The streams that are learnt each by a federation of its own: one; or each client's, which is no federation.
    parts: Callable[[Drawn], Sequence[Drawn]] = Drawn.together

    def run(self, drawn: Drawn, method: str, l2: float = PENALTY, variant: str = "") -> Finished:
        """Replay a drawn stream, the penalty having this weight."""
        learning = self.learning.model_copy(update={self.penalty: l2})
        seed, profile = drawn.stream.seed, self.profile
        settings = ReplaySettings(min_records=1, seed=seed, learning=learning, profile=profile, scaling=False)
        watches = [_Watch(part, Meter.of(part)) for part in self.parts(drawn)]
        results = [watch.replayed(settings) for watch in watches]
        restarts = [
            Found(round=r.round, cause=r.cause, chosen=r.chosen, since=r.since)
            for result in results
            for r in result.restarts
        ]
        return finished(
            drawn,
            method,
            Meter.joined([watch.meter for watch in watches]),
            sorted(restarts, key=lambda found: found.round),
            sum(result.seconds for result in results),
            l2=l2,
            variant=variant,
            local_drifts=[local for result in results for local in result.local_drifts],
        )


@dataclass(frozen=True)
class BestInHindsight:
    """A federation with a constant that, as for the peers, is the best in hindsight.

    Parameters
    ----------
    variants
        The federation with each choice, by its suffix, such as `step=10`.
    """

    variants: Mapping[str, Federation]

    def only(self, variant: str | None) -> "BestInHindsight":
        """Return it with one of its choices; with all if it has no such choice."""
        own = None if variant is None else self.variants.get(variant)
        return self if variant is None or own is None else BestInHindsight({variant: own})

    def run(self, drawn: Drawn, method: str, l2: float = PENALTY) -> Finished:
        """Replay a drawn stream with each choice, and return the run of the best prequential accuracy."""
        runs = (federation.run(drawn, method, l2, name) for name, federation in self.variants.items())
        return max(runs, key=lambda one: one.run.accuracy.prequential or 0.0)


@dataclass
class _Watch:
    """Fills a meter from the events of a replay.

    The losses that the coordinator publishes are scaled by the labels known when the epoch began, and belong to the
    model that serves most clients. To compare methods, they are recomputed from the published models.
    """

    drawn: Drawn
    meter: Meter
    published: Published = field(default_factory=Published)
    opened: RoundOpened | None = None

    def replayed(self, settings: ReplaySettings) -> Result:
        """Replay the stream, and fill the meter."""
        drawn = self.drawn
        return Replay(drawn.table, drawn.logs(), settings, observe=self.take, sizes=drawn.sizes()).run().result

    def take(self, event: FromCoordinator | Refused | Predicted | PostUpdate) -> None:
        match event:
            case Predicted():
                self.meter.add(
                    event.client,
                    event.round,
                    records=len(event.truth),
                    served=int((event.served == event.truth).sum()),
                    at_start=int((event.at_start == event.truth).sum()),
                )
                self.meter.add_losses(event.round, self._losses(event.client))
            case PostUpdate():
                right = int((event.predicted == event.truth).sum())
                self.meter.add(event.client, event.round, post_update=right)
            case ModelPublished() | ModelsChanged() | RegistryPublished():
                self.published.add(event)
            case RoundOpened():
                self.opened = event
            case _:
                pass

    def _losses(self, client: str) -> FloatArray:
        """Return the losses of a client's records of the open round, by the model that serves it."""
        opened = self.opened
        if opened is None:
            raise BrokenInvariantError("records were predicted, but no round is open")
        batch = self.drawn.batch(client, opened.round)
        records = RoundRecords.of((batch,), self.published.registry(opened.registry))
        name = opened.served_by(client)
        W = self.published.weights([slot for slot in opened.slots if slot.name == name])[name]
        softmax = Softmax()
        return softmax.scores(softmax.losses(records.Z @ W, records.y), len(self.drawn.table.labels))
