"""A client's work on a round: from records and models to the update, and from candidates to their scores."""

from dataclasses import dataclass

import numpy as np

from streamfl.core.client.earlier_rounds import EarlierRounds
from streamfl.core.client.evaluated import counted, natural
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
    """What the work on a round is done with.

    Parameters
    ----------
    settings
        How the client works.
    models
        Those that it has.
    earlier
        What it keeps of earlier rounds.
    measurement
        What is told of predictions.
    read
        Records that the ledger has accounted for before the round.
    """

    settings: ClientSettings
    models: Models
    earlier: EarlierRounds
    measurement: Measurement
    read: int

    def update(self, opened: RoundOpened, batches: tuple[Batch, ...], attempt: str) -> tuple[Sent, list[Predicted]]:
        """Score the round's records, learn them, and return what is to be sent.

        Parameters
        ----------
        opened
            The round.
        batches
            Its records. Without good ones nothing is told of any: neither of those pending nor of those held back.
        attempt
            What tells the update from another one for the same round.
        """
        models, earlier = self.models, self.earlier
        models.published.forget_before(opened.slots)
        earlier.history.retain(opened.sampled)
        mine = self._part(opened, batches, opened.registry)
        if not any(map(len, batches)):
            models.learn(opened, ())
            return Sent(mine.empty_update(attempt), batches, (), earlier.comparison, np.zeros(0), ()), []
        records = mine.records
        result = mine.work(models.weights(opened), earlier.history)
        models.learn(opened, batches)
        result.served = models.served(records, result.served)
        truth = natural(records.y, records)
        repeated = earlier.no_change.predictions(truth, records.labels)
        kept, sample = mine.sample()
        update = mine.update(
            result,
            attempt=attempt,
            served=counted(records, result.served, repeated, models.shares()),
            learnt=models.learnt(opened, self.settings.limits),
            sample=sample,
        )
        predicted = self.measurement.before(update, records, result, repeated)
        return Sent(update, batches, kept, mine.after, truth, records.labels), predicted

    def scores(self, opened: RoundOpened, score: Score, sent: Sent) -> Scores:
        """Score candidates on the records of an update that was sent."""
        mine, attempt = self._part(opened, sent.batches, score.registry), sent.update.attempt
        if not sent.update.records:
            return mine.empty_scores(score, attempt)
        return mine.scores(score, self.models.weights(score), self.earlier.history, attempt)

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
