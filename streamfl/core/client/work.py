"""A client's work on a round: from records and models to the update, and from candidates to their scores."""

from dataclasses import dataclass

import numpy as np

from streamfl.core.client.earlier_rounds import EarlierRounds
from streamfl.core.client.evaluated import natural, served_counts
from streamfl.core.client.in_flight import Sent
from streamfl.core.client.measurement import Measurement
from streamfl.core.client.models import Models
from streamfl.core.client.round import ClientRound
from streamfl.core.client.settings import ClientSettings
from streamfl.core.protocol.decisions import Predicted
from streamfl.core.protocol.messages import RoundOpened, Score, Scores
from streamfl.core.protocol.records import Batch


@dataclass(frozen=True)
class Work:
    """A client's work on one round.

    Parameters
    ----------
    settings
        How the client works.
    models
        The client's models.
    earlier
        Records kept from earlier rounds.
    measurement
        Predictions that are reported locally.
    read
        How many records the ledger has accounted for before the round.
    """

    settings: ClientSettings
    models: Models
    earlier: EarlierRounds
    measurement: Measurement
    read: int

    def update(self, opened: RoundOpened, batches: tuple[Batch, ...], attempt: str) -> tuple[Sent, list[Predicted]]:
        """Score the round's records, learn them, and return the update and the predictions.

        Parameters
        ----------
        opened
            The open round.
        batches
            Its records. Without good ones the update says nothing about any records, pending or held out.
        attempt
            The name of this attempt: it differs from any other for the same round.
        """
        models, earlier = self.models, self.earlier
        models.published.forget_before(opened.slots)
        earlier.history.retain(opened.sampled)
        part = self._part(opened, batches, opened.registry)
        if not any(map(len, batches)):
            models.learn(opened, ())
            return Sent(part.empty_update(attempt), batches, (), earlier.comparison, np.zeros(0), ()), []
        records = part.records
        result = part.work(models.weights(opened), earlier.history)
        models.learn(opened, batches)
        result.served = models.served(records, result.served)
        truth = natural(records.y, records)
        repeated = earlier.no_change.predictions(truth, records.labels)
        kept, sample = part.sample()
        update = part.update(
            result,
            attempt=attempt,
            served=served_counts(records, result.served, repeated, models.shares()),
            learnt=models.learnt(opened, self.settings.limits),
            sample=sample,
        )
        predicted = self.measurement.before(update, records, result, repeated)
        return Sent(update, batches, kept, part.after, truth, records.labels), predicted

    def scores(self, opened: RoundOpened, score: Score, sent: Sent) -> Scores:
        """Score candidates on the records of the update in flight."""
        part, attempt = self._part(opened, sent.batches, score.registry), sent.update.attempt
        if not sent.update.records:
            return part.empty_scores(score, attempt)
        return part.scores(score, self.models.weights(score), self.earlier.history, attempt)

    def _part(self, opened: RoundOpened, batches: tuple[Batch, ...], registry: int) -> ClientRound:
        return ClientRound(
            self.models.client,
            self.settings.learner,
            opened,
            self.models.published.registry(registry),
            batches,
            first=self.read,
            before=self.earlier.comparison,
        )
