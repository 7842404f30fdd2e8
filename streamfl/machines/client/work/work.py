"""A client's work on a round: from records and models to the update, and from candidates to their scores."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.local_round import RoundRecords
from streamfl.machines.client.budget import FIRST, Budget, SentSizes
from streamfl.machines.client.intake.intake import Intake
from streamfl.machines.client.ledger.evaluated import encode, in_original_units, served_counts
from streamfl.machines.client.ledger.models import ClientModels
from streamfl.machines.client.settings import ClientSettings
from streamfl.machines.client.work.earlier_rounds import EarlierRounds
from streamfl.machines.client.work.in_flight import SentUpdate
from streamfl.machines.client.work.measurement import Measurement, unanswered
from streamfl.machines.client.work.round import ClientRound
from streamfl.machines.client.work.sending import PlainNumbers
from streamfl.protocol.decisions import OverBudget, Predicted
from streamfl.protocol.delayed import Answers
from streamfl.protocol.messages import RoundOpened, Score, Scores, Update
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import Batch, spans


@dataclass(frozen=True)
class Work:
    """A client's work on one round."""

    settings: ClientSettings  # how the client works
    models: ClientModels  # the client's models
    earlier: EarlierRounds  # records kept from earlier rounds
    measurement: Measurement  # predictions that are reported locally
    read: int  # how many records the ledger has accounted for before the round
    taken: SentSizes  # the bytes of its latest updates; this round's update is added
    intake: Intake  # how records come in
    sending: PlainNumbers  # what is sent of its numbers

    def update(
        self, opened: RoundOpened, batches: tuple[Batch, ...], attempt: str, *, period: int | None = None
    ) -> tuple[SentUpdate, list[Predicted | OverBudget]]:
        """Score the round's records, learn them, and return the update, and what is to be told of it.

        Parameters
        ----------
        batches
            Its records. Without good ones the update says nothing about any records, pending or held out.
        attempt
            The name of this attempt: it differs from any other for the same round.
        period
            With rounds by event time, the period of the next record, if it is known.
        """
        models, earlier, disclosed = self.models, self.earlier, self.sending.disclosed
        models.published.forget_before(opened.slots)
        earlier.history.retain(opened.earlier.sampled)
        part = self._part(opened, batches, opened.registry)
        if not any(map(len, batches)):
            models.learn(opened, ())
            empty = part.empty_update(attempt, self.intake.watermark(batches), period)
            return SentUpdate(empty, batches, (), earlier.comparison, np.zeros(0), (), disclosed=disclosed), []
        records = part.records
        weights = models.weights(opened)
        result = part.work(weights, earlier.history)
        models.learn(opened, batches)
        truth = in_original_units(records.y, records)
        repeated = earlier.no_change.predictions(truth, records.labels)
        if self._knows_nothing(opened, records, weights):
            result.at_start = result.served = _told(repeated, records)
        result.served = models.served(opened, records, result.served)
        result.served, repeated = self.intake.predictions(batches, records, result.served, repeated)
        kept, sample = part.sample()
        update = part.update(
            result,
            attempt=attempt,
            served=served_counts(records, result.served, repeated, models.shares()),
            tried=models.tried(opened, records),
            learnt=models.learnt(opened, self.settings.limits),
            sample=sample,
            arrived=None if self.sending.are_sums else self._arrived(part),
            watermark=self.intake.watermark(batches),
            period=period,
        )
        update = self.sending.update(update, opened, self.models.published.registry(opened.registry))
        over: list[OverBudget] = []
        if self.settings.budget is not None and update.round >= FIRST:
            update, over = self._within(self.settings.budget, update, opened)
        predicted = self.measurement.before(update, batches, records, result, repeated)
        sent = SentUpdate(update, batches, kept, part.after, truth, records.labels, disclosed=disclosed)
        return sent, [*predicted, *over]

    def answer(self, opened: RoundOpened, batches: tuple[Batch, ...]) -> tuple[Answers, list[Predicted]]:
        """Answer a round's records that are too few to be sent, and learn them: at this client only, until they are.

        Parameters
        ----------
        batches
            The records; the first ones may have been answered in earlier rounds.

        Returns
        -------
        The answers to the others, and what is to be told of these.
        """
        models, records = self.models, self._part(opened, batches, opened.registry).records
        models.hold()
        models.learn(opened, batches)
        truth = in_original_units(records.y, records)
        repeated = self.earlier.no_change.predictions(truth, records.labels)
        unknown = self._knows_nothing(opened, records, models.weights(opened))
        at_start = _told(repeated, records) if unknown else models.by_rounds(opened, records)
        served = models.served(opened, records, at_start)
        n = sum(len(batch) for batch in batches if batch.answered_early)
        told = Predicted(
            client=models.client,
            round=opened.round,
            attempt="",
            spans=spans(unanswered(batches)),
            truth=truth[n:],
            no_change=repeated[n:],
            served=in_original_units(served, records)[n:],
            at_start=in_original_units(at_start, records)[n:],
            labels=records.labels,
        )
        answers = Answers(told.served, told.no_change, records.labels)
        return answers, [told] if self.measurement.wanted else []

    def _knows_nothing(self, opened: RoundOpened, records: RoundRecords, weights: Mapping[str, FloatArray]) -> bool:
        """Tell whether the model of rounds has learnt nothing: then NoChange stands for it.

        Of labels it would predict the first one that was registered. Targets it predicts in a unit that in round 1
        comes from the Joins, which are about the same records.
        """
        if not records.labels:
            return opened.round == 1
        W = weights.get(opened.served_by(self.models.client))
        return W is not None and not W.any()

    def _arrived(self, part: ClientRound) -> Moments | None:
        """Return the moments of records as they came; sums have no room for them."""
        return self.intake.arrived(part.registry.features, self.settings.min_records)

    def _within(self, budget: Budget, update: Update, opened: RoundOpened) -> tuple[Update, list[OverBudget]]:
        """Return the update with what was learnt rounded as coarsely as the budget demands; what to report of it."""

        def coarser(update: Update, times: int) -> Update:
            learnt = self.models.learnt(opened, self.settings.limits, coarser=times)
            return replace(update, numbers=replace(update.numbers, learnt=learnt))

        features = len(self.models.published.registry(opened.registry).features)
        fitting = budget.fit(update, features, coarser, self.models.coarsest)
        self.taken.coarser += fitting is not update
        self.taken.add(update.round, budget.size_of(fitting), budget.of(update.records, features), update.records)
        if not self.taken.exceeds:
            return fitting, []
        sent = self.taken.total
        return fitting, [
            OverBudget(update.client, update.round, sent.size / sent.records, sent.budget / sent.records)
        ]

    def scores(self, opened: RoundOpened, score: Score, sent: SentUpdate) -> Scores:
        """Score candidates on the records of the update in flight."""
        part, attempt = self._part(opened, sent.batches, score.registry), sent.update.attempt
        if not sent.update.records:
            return part.empty_scores(score, attempt)
        scores = part.scores(score, self.models.weights(score), self.earlier.history, attempt)
        if score.wants_untrained_loss:
            scores = replace(scores, untrained_loss=self.models.untrained_loss(sent.batches))
        return self.sending.scores(scores, score, sent.update, part.registry)

    def _part(self, opened: RoundOpened, batches: tuple[Batch, ...], registry: int) -> ClientRound:
        return ClientRound(
            self.models.client,
            self.settings.learner,
            opened,
            self.models.published.registry(registry),
            batches,
            first=self.read,
            before=self.earlier.comparison,
            radius=None if self.settings.noise is None else self.settings.noise.radius,
        )


def _told(repeated: FloatArray, records: RoundRecords) -> FloatArray:
    """Return the predictions of NoChange, coded like the records."""
    return repeated if records.labels else encode(repeated, (), records)
