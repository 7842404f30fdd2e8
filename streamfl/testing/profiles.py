"""What any profile must do: hold yours against it.

It is played in a small federation, the same in every call: eight clients with 40 records a round of two labels, which
change places in round 25; in round 40 they change places again at one client alone. Another client has no records in
every fifth round.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

import numpy as np

from streamfl import codec
from streamfl.core.arrays import FloatArray
from streamfl.core.bounds import is_name
from streamfl.core.coordinator.state import CoordinatorState
from streamfl.core.drift.evidence import ClientPart, LiveModel, Observed, Played
from streamfl.core.errors import PeerError
from streamfl.core.learning.model import gradient, score_bound
from streamfl.core.learning.second_moments import SecondMoments
from streamfl.core.profiles.base import Answer, Ask, Master, Restart, RoundPlan
from streamfl.core.protocol.alarm import Alarm
from streamfl.core.protocol.messages import LabelSums, LocalDrift
from streamfl.core.protocol.registry import widened
from streamfl.core.sampling import generator
from streamfl.models import Softmax
from streamfl.testing.audit import Violation

CLIENTS, LABELS, RECORDS, FEATURES = tuple(f"c{i}" for i in range(8)), ("a", "b"), 40, 3

# Rounds that are played, those from which on labels have changed places, and those of a long run.
ROUNDS, SWAPPED, APART, LONG = 60, 25, 40, 400

# What a profile that learns scores at most; even one that plays an untrained model in most rounds does.
LEARNT = 0.49

# Clients keep so many models at a time; one round may ask for so many scores after an alarm.
MOST_LIVE, MOST_ASKED = 64, 10

# What is remembered after a long run may be so many bytes.
MOST_BYTES = 131_072

MODEL = Softmax()

# Features of shape (n, d), and labels by number.
Records = tuple[FloatArray, FloatArray]


def check_profile(make: Callable[[], Master]) -> None:
    """Hold a profile against everything that a coordinator relies on.

    Parameters
    ----------
    make
        Makes a profile in its first state, the same one each time; called for every check.

    Raises
    ------
    Violation
        Names the first check that fails.

    Examples
    --------
    >>> from streamfl.core.profiles.experts import Experts
    >>> check_profile(Experts)
    """
    for check in CHECKS:
        check(make)


def opens_rounds_that_clients_can_play(make: Callable[[], Master]) -> None:
    """Live models have names, shapes and steps; one that is live serves; history is asked for where it is kept."""
    Play(make()).through(ROUNDS)


def opens_a_round_again_as_it_was(make: Callable[[], Master]) -> None:
    """A coordinator that starts again opens the open round once more: nothing depends on how often."""
    master, other = Play(make()), Play(make(), opens=2)
    _expect(master.through(ROUNDS) == other.through(ROUNDS), "another course of events if rounds are opened twice")


def gives_the_same_answers_again(make: Callable[[], Master]) -> None:
    """Two of them do the same in the same rounds, to the last bit."""
    same = Play(make()).through(ROUNDS) == Play(make()).through(ROUNDS)
    _expect(same, "another course of events in the same rounds")


def counts_epochs(make: Callable[[], Master]) -> None:
    """Epochs count from 1, and grow by one with every restart, which tells the next; nothing else changes them."""
    play = Play(make())
    _expect(play.master.epoch == 1, f"the first epoch is {play.master.epoch}")
    for t in range(1, ROUNDS + 1):
        before = play.master.epoch
        play.round(t)
        restarts = [said for said in play.told[-1] if isinstance(said, Restart)]
        _expect(play.master.epoch == before + len(restarts), f"epoch {play.master.epoch} after {before} in round {t}")
        for said in restarts:
            _expect(
                (said.round, said.epoch) == (t, before + 1), f"a restart that tells another round or epoch: {said}"
            )


def ends_a_deliberation_that_nobody_answers(make: Callable[[], Master]) -> None:
    """Where no client answers, an alarm is settled all the same, and it goes on."""
    Play(make(), answers=False).through(ROUNDS)


def goes_on_from_what_is_saved(make: Callable[[], Master]) -> None:
    """Saved with a coordinator and read again in every round, it goes on as if nothing had happened."""
    play, saved = Play(make()), Play(make())
    for t in range(1, ROUNDS + 1):
        saved.master = _saved(saved.master, t)
        _expect(
            play.round(t) == saved.round(t), f"another course of events, saved and read again after round {t - 1}"
        )


def re_expresses_every_model(make: Callable[[], Master]) -> None:
    """After a new label every model that it kept has a column for it, and it goes on."""
    play = Play(make())
    for t in range(1, ROUNDS + 1):
        if t in {10, SWAPPED + 5, APART + 5}:
            play.columns += 1
            play.master.transform(lambda W: widened(W, play.columns))
        play.round(t)


def learns(make: Callable[[], Master]) -> None:
    """Of rounds without drift the second half is lost less in than an untrained model loses, which scores 0.5."""
    play = Play(make())
    play.through(SWAPPED - 1)
    later = play.losses[len(play.losses) // 2 :]
    mean = sum(later) / len(later)
    _expect(mean < LEARNT, f"a mean score of {mean:.3f} in rounds without drift: an untrained model has 0.5")


def remembers_a_bounded_amount(make: Callable[[], Master]) -> None:
    """What it remembers does not grow without end."""
    play = Play(make())
    play.through(LONG)
    size = len(codec.encode(CoordinatorState(play.master)))
    _expect(size <= MOST_BYTES, f"{size} bytes after {LONG} rounds: at most {MOST_BYTES}")


CHECKS: tuple[Callable[[Callable[[], Master]], None], ...] = (
    opens_rounds_that_clients_can_play,
    gives_the_same_answers_again,
    opens_a_round_again_as_it_was,
    counts_epochs,
    ends_a_deliberation_that_nobody_answers,
    goes_on_from_what_is_saved,
    re_expresses_every_model,
    learns,
    remembers_a_bounded_amount,
)


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Violation(otherwise)


def _saved(master: Master, t: int) -> Master:
    """Return a profile as it comes back from a coordinator's state."""
    try:
        return codec.decode(CoordinatorState, codec.encode(CoordinatorState(master))).master
    except PeerError as error:
        raise Violation(f"what was saved before round {t} cannot be read again: {error}") from error


@dataclass
class Play:
    """A profile in the federation; every array that it is given can only be read.

    Parameters
    ----------
    master
        The profile.
    opens
        How often each round is opened.
    answers
        Whether clients answer when candidates are to be scored.
    columns
        Columns of today's models.
    told, losses
        By round: what was decided, and the score of what served.
    """

    master: Master
    opens: int = 1
    answers: bool = True
    columns: int = len(LABELS)
    told: list[tuple[Restart | LocalDrift, ...]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    _kept: set[int] = field(default_factory=set)
    _held: dict[str, dict[int, Records]] = field(default_factory=dict)

    def through(self, rounds: int) -> list[list[bytes]]:
        """Play rounds from the first on, and return what happened in each."""
        return [self.round(t) for t in range(1, rounds + 1)]

    def round(self, t: int) -> list[bytes]:
        """Play a round, and return what happened: every number of it."""
        try:
            return self._round(t)
        except Violation:
            raise
        except Exception as error:  # whatever a profile raises, a coordinator cannot go on
            if "read-only" in str(error):
                raise Violation(f"an array that it was given is changed in round {t}") from error
            raise Violation(f"round {t} raises {error!r}") from error

    def _round(self, t: int) -> list[bytes]:
        scratch = _fixed(np.zeros((FEATURES, self.columns)))
        for _ in range(self.opens):
            opening = self.master.open(t, scratch, float(FEATURES))
        self._check(opening, t)
        records = {client: _records(client, t) for client in CLIENTS if client != "c3" or t % 5}
        played, parts = self._measured(opening.live, records, opening)
        size = sum(part.records for part in parts.values())
        observed = Observed(
            t, size, played, 3.0, score_bound(len(LABELS)), LABELS, parts, opening.live, opening.serves
        )
        alarm = self.master.close(observed)
        self.told.append(self._settled(alarm, observed, records, scratch))
        self._hold(opening, records, t)
        self.losses.append(observed.loss)
        return [*_bytes(opening), repr((alarm, self.told[-1], self.master.epoch, self.master.noticed)).encode()]

    def _settled(
        self, alarm: Alarm | None, observed: Observed, records: Mapping[str, Records], scratch: FloatArray
    ) -> tuple[Restart | LocalDrift, ...]:
        """Go on after a round, or deliberate its alarm to the end."""
        if alarm is None:
            return self.master.advance(observed.round)
        _expect(isfinite(alarm.statistic) and alarm.since <= observed.round, f"no alarm that can be told: {alarm}")
        deliberation = self.master.deliberate(alarm, observed, scratch)
        for _ in range(MOST_ASKED):
            asked = deliberation.ask()
            if asked is None:
                return (self.master.conclude(deliberation),)
            deliberation.answer(self._answer(asked, records))
        raise Violation(f"an alarm for which candidates are scored more than {MOST_ASKED} times")

    def _answer(self, asked: Ask, records: Mapping[str, Records]) -> Answer:
        if not self.answers:
            return Answer({}, {})
        played, parts = self._measured(asked.models, records)
        models = {model.name: model.W for model in asked.models}
        fits = {
            client: {name: _fits(Z @ models[name], y) for name in asked.relabel} for client, (Z, y) in records.items()
        }
        return Answer(played, parts, fits if asked.relabel else {})

    def _check(self, opening: RoundPlan, t: int) -> None:
        names = [live.name for live in opening.live]
        _expect(0 < len(names) <= MOST_LIVE, f"{len(names)} live models in round {t}: at most {MOST_LIVE}")
        _expect(len(set(names)) == len(names), f"two live models of one name in round {t}")
        _expect(all(name and is_name(name) for name in names), f"a live model without a name in round {t}")
        for live in opening.live:
            where = f"model {live.name} in round {t}"
            shape = (FEATURES, self.columns)
            _expect(live.W.shape == shape, f"{where} has shape {live.W.shape}, and models have {shape} today")
            _expect(bool(np.isfinite(live.W).all()), f"{where} has what is no number")
            _expect(isfinite(live.eta) and live.eta >= 0.0, f"{where} has the step {live.eta}")
            _expect(set(live.history) <= self._kept, f"{where} asks for rounds that no client has kept")
        served = {opening.serves, *(group.serves for group in opening.apart)}
        _expect(served <= set(names), f"what serves in round {t} is not live: {sorted(served - set(names))}")
        apart = [client for group in opening.apart for client in group.clients]
        _expect(len(set(apart)) == len(apart), f"a client in two groups apart in round {t}")
        _expect(
            set(opening.sampled) <= self._kept, f"rounds are to stay sampled in round {t} that no client has kept"
        )
        self._kept = {*opening.sampled, *([t] if opening.keep else [])}

    def _measured(
        self,
        live: Sequence[LiveModel],
        records: Mapping[str, Records],
        opening: RoundPlan | None = None,
    ) -> tuple[dict[str, Played], dict[str, ClientPart]]:
        """Return what clients measure of models: those that nobody scores are not there."""
        apart = {client for group in opening.apart for client in group.clients} if opening else set()
        played, sums = {}, {client: dict[str, float]() for client in records}
        for model in live:
            heard = [client for client in records if model.clients is None or client in model.clients]
            if not heard:
                continue
            for client in heard:
                sums[client][model.name] = float(_scores(model.W, records[client])[0].sum())
            trained = [client for client in heard if model.clients is not None or client not in apart]
            played[model.name] = self._played(model, [records[c] for c in heard], [records[c] for c in trained])
        return played, {
            client: self._part(client, Z_y, sums[client], live, opening) for client, Z_y in records.items()
        }

    def _played(self, model: LiveModel, scored: list[Records], trained: list[Records]) -> Played:
        scores, proper = _scores(model.W, _pooled(scored))
        stepped = model.W
        if model.trained and trained:
            Z, y = _pooled(trained)
            slope = gradient(MODEL, model.W, Z, y)
            moments = SecondMoments(Z.T @ Z, float(len(Z)))
            stepped = model.W - model.eta * (moments.whitened(slope) if model.whitened else slope)
        past = [float(_scores(model.W, _records("c0", t))[0].mean()) for t in model.history]
        return Played(
            float(scores.mean()),
            float(proper.mean()),
            _fixed(stepped),
            float(scores.var()),
            sum(past) / len(past) if past else None,
            RECORDS * len(past),
        )

    def _part(
        self,
        client: str,
        records: Records,
        sums: Mapping[str, float],
        live: Sequence[LiveModel],
        opening: RoundPlan | None,
    ) -> ClientPart:
        if opening is None:
            return ClientPart(RECORDS, sums)
        W = next(model.W for model in live if model.name == opening.served_by(client))
        held = list(self._held.get(client, {}).values())
        old = _by_label(W, _pooled(held)) if held else ()
        return ClientPart(RECORDS, sums, _by_label(W, records), old)

    def _hold(self, opening: RoundPlan, records: Mapping[str, Records], t: int) -> None:
        """Hold five records of a round back, of the last twelve rounds since it was told to."""
        if opening.held is None:
            return
        for client, (Z, y) in records.items():
            since = max(opening.held.since, opening.held.renewed.get(client, 0))
            kept = {r: rows for r, rows in self._held.get(client, {}).items() if r >= since}
            self._held[client] = dict(list((kept | ({t: (Z[:5], y[:5])} if t >= since else {})).items())[-12:])


def _records(client: str, t: int) -> Records:
    """Return the records of a client's round: which of two labels, from two features and a constant."""
    random = generator(0, "check_profile", client, t)
    Z = np.hstack([random.normal(size=(RECORDS, FEATURES - 1)), np.ones((RECORDS, 1))])
    y = (Z @ np.array([1.0, -2.0, 0.3]) + 0.3 * random.normal(size=RECORDS) > 0.0).astype(np.float64)
    swapped = (t >= SWAPPED) != (client == "c1" and t >= APART)
    return _fixed(Z), _fixed(1.0 - y if swapped else y)


def _pooled(parts: list[Records]) -> Records:
    return np.concatenate([Z for Z, _ in parts]), np.concatenate([y for _, y in parts])


def _scores(W: FloatArray, records: Records) -> Records:
    """Return what tests look at and what models compete by, of each record."""
    Z, y = records
    outputs = Z @ W
    losses = MODEL.losses(outputs, y)
    return MODEL.scores(losses, len(LABELS)), MODEL.proper_scores(outputs, y, losses, len(LABELS))


def _by_label(W: FloatArray, records: Records) -> tuple[LabelSums, ...]:
    scores, y = _scores(W, records)[0], records[1]
    found = ((label, scores[y == code]) for code, label in enumerate(LABELS))
    return tuple(
        LabelSums(label=label, count=len(own), loss=float(own.sum()), square=float(own @ own))
        for label, own in found
        if len(own)
    )


def _fits(outputs: FloatArray, y: FloatArray) -> FloatArray:
    """Return S[a, b]: see `Answer`."""
    logs = np.maximum(MODEL.log_likelihoods(outputs), -score_bound(len(LABELS)))
    return np.array([logs[y == code].sum(axis=0) for code in range(logs.shape[1])])


def _fixed(array: FloatArray) -> FloatArray:
    array.flags.writeable = False
    return array


def _bytes(opening: RoundPlan) -> list[bytes]:
    plain = [(m.name, m.eta, m.trained, m.clients, m.history, m.whitened) for m in opening.live]
    told = (opening.serves, opening.block, opening.keep, opening.sampled, opening.held, opening.apart)
    return [repr((plain, told)).encode(), *(model.W.tobytes() for model in opening.live)]
