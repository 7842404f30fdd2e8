"""What a client tells of its predictions to whoever evaluates it in the same process; no message carries it."""

from dataclasses import dataclass

from streamfl.core.arrays import FloatArray
from streamfl.core.client.evaluated import natural
from streamfl.core.client.in_flight import Sent
from streamfl.core.client.models import Models
from streamfl.core.learning.local_round import LocalResult, RoundRecords
from streamfl.core.protocol.decisions import PostUpdate, Predicted
from streamfl.core.protocol.messages import RoundOpened, Update


@dataclass
class Measurement:
    """Predictions of a round's records, before they were learnt and after.

    Parameters
    ----------
    wanted
        Whether anything is to be told.
    last
        The update accepted last, until the model that has learnt its records has predicted them.
    """

    wanted: bool
    last: Sent | None = None

    def before(
        self, update: Update, records: RoundRecords, result: LocalResult, repeated: FloatArray
    ) -> list[Predicted]:
        """Tell what was predicted of each record of a round, unless nothing was.

        Parameters
        ----------
        update
            What was sent for the round.
        records
            The round's.
        result
            What came of the work.
        repeated
            What NoChange says, shape (n,).
        """
        if not (self.wanted and len(result.served)):
            return []
        predicted = Predicted(
            client=update.client,
            round=update.round,
            attempt=update.attempt,
            spans=update.spans,
            truth=natural(records.y, records),
            no_change=repeated,
            served=natural(result.served, records),
            at_start=natural(result.at_start, records),
            labels=records.labels,
        )
        return [predicted]

    def accept(self, sent: Sent) -> None:
        """Remember an update that was accepted, until its records have been predicted again."""
        self.last = sent if self.wanted and sent.update.served.records else None

    def after(self, opened: RoundOpened | None, models: Models) -> list[PostUpdate]:
        """Tell what the model after the last round predicts of its records, once that model is here."""
        sent = self.last
        if sent is None or opened is None or opened.round <= sent.update.round:
            return []
        serves = opened.served_by(models.client)
        serving = tuple(slot for slot in opened.slots if slot.name == serves)
        if not models.published.has(opened.registry, serving, models.learner.model.columns):
            return []
        self.last = None
        records = RoundRecords.of(sent.batches, models.published.registry(opened.registry))
        W = models.published.weights(serving)[serves]
        predicted = natural(models.learner.model.predict(records.Z @ W), records)
        return [PostUpdate(models.client, sent.update.round, natural(records.y, records), predicted)]
