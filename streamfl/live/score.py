"""`streamfl score`: one process that answers records without labels by the models of a live federation."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from streamfl.errors import UsageError
from streamfl.live.answering import Answering
from streamfl.live.answers import Predictor
from streamfl.live.metrics.exposure import exposed, unwatched
from streamfl.live.metrics.measures import Durations, Measure, counter, gauge
from streamfl.live.model_out import of_columns
from streamfl.live.settings.addresses import address
from streamfl.live.settings.settings import FederationSettings
from streamfl.live.stopping import Stop
from streamfl.machines.client.follower import Follower
from streamfl.protocol.messages import Ended
from streamfl.run.model_file import ServedModel
from streamfl.runtime.log.tally import Tally
from streamfl.runtime.ports import Connector, RecordFormat, Scorer

if TYPE_CHECKING:
    from streamfl.live.http.saved_models import SavedModel

LOG = structlog.get_logger("streamfl.score")

# Seconds between two log lines of what was answered, and of what it waits for.
TELL_EVERY = 60.0

# Seconds that it waits for the coordinator while there are no models, and between two looks without records.
PAUSE = 0.1


# Why a scorer is not ready.
NO_MODELS = "there are no models yet, because the federation has not learnt its first round"
NO_ROUND = (
    "there are models, but the log no longer says which round is open, because it keeps that for some days only; "
    "start the coordinator again, which writes it again"
)
NOT_FITTING = (
    "rounds are learnt, but not all of their models have arrived, or they do not fit these settings: "
    "use the coordinator's [learning] and [federation] task"
)
BEGUN_AGAIN = (
    "its models are of a later round than the federation has, so the federation has started again; start "
    "this process again as well"
)


@dataclass
class ScoringNode:
    """Reads, follows and answers, step by step."""

    scorer: Scorer  # where it reads and writes
    answers: Predictor  # what it answers
    most_behind: int  # how many rounds its models may be behind those of the federation; beyond that it is not ready
    on_models: Callable[[], None] = lambda: None  # called when the models of another round begin to answer
    seconds: Callable[[], float] = time.monotonic  # returns monotonic seconds
    _durations: Durations = field(default_factory=Durations)
    _unusable: Tally = field(default_factory=lambda: Tally(LOG, "unusable message"))
    _round: int = 0
    _was_ready: bool | None = None
    _without_models: str | None = None  # why, as it was told last
    _tell_at: float = 0.0

    @property
    def follower(self) -> Follower:
        """Return the models that it follows."""
        return self.answers.follower

    @property
    def not_ready(self) -> str | None:
        """Return why it should not be asked; None if it should."""
        follower = self.follower
        if follower.opened is None:
            if follower.newest > 1:
                return NOT_FITTING
            return NO_ROUND if follower.waiting and not follower.newest else NO_MODELS
        if follower.behind > self.most_behind:
            return f"its models are {follower.behind} rounds behind; at most {self.most_behind} are allowed"
        return BEGUN_AGAIN if follower.behind < -self.most_behind else None

    def step(self, now: float) -> None:
        """Follow the models, then answer the next records; without models it waits."""
        for message in self.scorer.poll_models():
            for error in self.follower.take(message):
                self._unusable.note("models", str(error))
            if isinstance(message, Ended):
                LOG.info("the coordinator has ended", entry=message.entry)
        self._follow()
        self._tell(now)
        if self.follower.opened is None:
            self.scorer.listen(PAUSE)
            return
        asked = self.scorer.read()
        if asked:
            began = self.seconds()
            answers = [answer for part in asked for answer in self.answers.to(part)]
            self.scorer.answer(answers)
            self._durations.add(self.seconds() - began, len(answers))

    def _follow(self) -> None:
        opened = self.follower.opened
        if opened is not None and opened.round != self._round:
            self._round = opened.round
            LOG.debug("models", round=opened.round, epoch=opened.epoch, entry=opened.entry - 1)
            self.on_models()
        reason = self.not_ready
        changed = opened is None and reason != self._without_models
        if (reason is None) != self._was_ready or changed:
            self._was_ready = reason is None
            self._without_models = reason if opened is None else None
            if reason is None and opened is not None:
                LOG.info("ready", round=opened.round, epoch=opened.epoch, entry=opened.entry - 1)
            else:
                LOG.warning("not ready", reason=reason)

    def _tell(self, now: float) -> None:
        if now < self._tell_at:
            return
        if self._tell_at:
            self.tell("scored")
            if (reason := self.not_ready) is not None:
                LOG.warning("not ready", reason=reason)
        self._tell_at = now + TELL_EVERY

    def measured(self) -> Iterator[Measure]:
        """Yield its measures."""
        counts = self.scorer.counts
        yield gauge("streamfl_round", "The round whose models predict; 0 before the first.", self._round)
        behind = self.follower.behind
        yield gauge("streamfl_behind_rounds", "How many rounds its models are behind the federation.", behind)
        yield counter("streamfl_answers_total", "Records answered.", counts.answered)
        yield self._durations.measure(
            "streamfl_answer_duration_seconds", "Seconds from the reading of a record to its answer in the log."
        )
        yield counter("streamfl_rejected_records_total", "Bad records.", counts.rejected)
        yield counter("streamfl_dead_letters_total", "Messages written as dead letters.", counts.dead_letters)
        yield counter("streamfl_lost_messages_total", "Messages deleted before they were read.", counts.lost)
        yield counter("streamfl_read_again_total", "Times that records were read again.", counts.again)
        yield counter(
            "streamfl_blind_answers_total", "Predictions for records without any known feature.", self.answers.blind
        )
        yield counter(
            "streamfl_own_answers_total",
            "Predictions by a model that only one or some clients have.",
            self.answers.own,
        )
        yield counter(
            "streamfl_foreign_messages_total",
            "Messages on the federation's topics that do not come from streamfl.",
            counts.foreign,
        )
        yield counter("streamfl_dropped_messages_total", "Messages that could not be used.", self._unusable.total)

    def tell(self, event: str) -> None:
        """Log what was answered so far."""
        counts = self.scorer.counts
        LOG.info(
            event,
            answered=counts.answered,
            rejected=counts.rejected,
            dead_letters=counts.dead_letters,
            lost=counts.lost,
            again=counts.again,
            blind=self.answers.blind,
            own=self.answers.own,
            foreign=counts.foreign,
            unusable=self._unusable.total,
            round=self._round,
            behind=self.follower.behind,
        )


def serve_scores(
    settings: FederationSettings, connector: Connector, stop: Stop, records: RecordFormat | None = None
) -> None:
    """Answer records until stopped.

    Parameters
    ----------
    records
        How messages hold records, if not as the settings say.

    Raises
    ------
    PeerError
        Another scorer of the same name has taken over, or the log does not answer.
    UsageError
        Nothing is to be answered, the address for HTTP cannot be had, or topics do not fit.
    """
    score = settings.score
    if not score.topics and not score.http:
        raise UsageError("there is nothing to answer; set topics in [score], or give --http")
    if score.topics and settings.past is not None:
        examples = ", ".join(settings.past.names(("x",)))
        LOG.info(
            "records bring lags and means themselves", fields=examples, otherwise="a missing one counts as its mean"
        )
    follower = Follower(settings.learner)  # loads or compiles its loops: a group would not wait for that
    form = records or settings.unlabelled_format
    over_http = _OverHTTP(settings, follower) if score.http else None
    scorer = connector.scorer(score.name, settings.unlabelled, form)
    answers = Predictor(follower, form.stride, score.probabilities)
    node = ScoringNode(scorer, answers, score.most_behind, over_http.renew if over_http else unwatched)
    try:
        with (
            over_http.served(lambda: node.not_ready) if over_http else nullcontext(),
            exposed(settings, "score", node.measured, lambda: node.not_ready) as turned,
        ):
            gc.freeze()  # what was imported stays; to look through it again and again would take a third of the time
            while not stop.requested:
                node.step(time.monotonic())
                turned()
    finally:
        node.tell("ended")
        scorer.close()


@dataclass
class _OverHTTP:
    """The agreed model as it is served over HTTP."""

    settings: FederationSettings  # the settings of the process
    # The models. They change in the thread that reads the log; over HTTP a copy answers.
    follower: Follower
    answering: Answering | None = None  # the copy
    candidate: "SavedModel | None" = None  # to be compared with it

    def __post_init__(self) -> None:
        if (path := self.settings.score.candidate) is not None:
            from streamfl.live.http.saved_models import SavedModel  # noqa: PLC0415  needs the extra http

            self.candidate = SavedModel(path, "candidate")
            self.candidate.renew()
        external = self.settings.learning.external_model(self.settings.federation.task)
        if external is not None:
            raise UsageError(f"--http cannot serve {external.name}, a model that is not streamfl's own; leave it out")

    def renew(self) -> None:
        """Answer with the models that the follower has now."""
        settings, opened = self.settings, self.follower.serving().opened
        model = ServedModel.followed(
            self.follower,
            settings.learning.resolved_with(settings.profile, settings.privacy),
            settings.federation.task,
            **of_columns(settings),
        )
        self.answering = Answering(model, opened.round, opened.epoch, opened.entry - 1)
        if self.candidate is not None:
            self.candidate.renew_or_keep()

    @contextmanager
    def served(self, not_ready: Callable[[], str | None]) -> Iterator[None]:
        """Serve until the block ends."""
        from streamfl.live.http.app import Counts, app  # noqa: PLC0415  needs the extra http
        from streamfl.live.http.serving import serving  # noqa: PLC0415

        host, port = address(self.settings.score.http)
        counts = Counts()
        made = app(
            self.settings.federation.name,
            lambda: self.answering,
            not_ready,
            candidate=lambda: None if self.candidate is None else self.candidate.answering,
            counts=counts,
        )
        with serving(made, host, port, self.settings.score.host_names) as taken:
            LOG.info("answers over HTTP", host=host, port=taken, model=self.settings.federation.name)
            yield
        LOG.info("ended over HTTP", **counts.figures)
