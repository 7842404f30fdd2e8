"""Attacks: what hostile members send in place of their updates and scores.

Each is a function of an honest message and a seed, and returns the message that is sent. It passes the checks of
shapes and numbers, since a message that is refused has no influence. `labels_flipped` changes a member's records
instead: the member then tells the truth about wrong ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from streamfl.arrays import FloatArray
from streamfl.learning.fixed_point import MEMBERS, largest_part
from streamfl.online.native.merging.rounding import ROOM
from streamfl.protocol.messages import LabelSums, Scores, SlotLosses, Update
from streamfl.protocol.moments import Moments
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.records import Span
from streamfl.sampling import generator
from streamfl_benchmarks.liars.fields import altered, field_of

Message = Update | Scores
Attack = Callable[[Message, int], Message]

# So many times are the features' squares, and the distance of their means, those of the records. Larger ones may be
# refused.
STRETCHED = 16.0

# The shift of "a little is enough", in standard deviations over clients (Baruch, Baruch and Goldberg 2019).
LITTLE = 1.5


def sign_flip(message: Message, seed: int) -> Message:
    """Return ten times the difference with the sign flipped: steps uphill."""
    return _moved(message, lambda x, name: -10.0 * x)


def scale_10(message: Message, seed: int) -> Message:
    """Return ten times the difference."""
    return _moved(message, lambda x, name: 10.0 * x)


def scale_100(message: Message, seed: int) -> Message:
    """Return a hundred times the difference."""
    return _moved(message, lambda x, name: 100.0 * x)


def random(message: Message, seed: int) -> Message:
    """Return random differences, ten times as large as the honest ones, again for each message."""
    key = ("random", message.client, message.entry)
    return _moved(message, lambda x, name: 10.0 * _like(x, seed, *key, name))


def colluding(message: Message, seed: int) -> Message:
    """Return three times as large differences in a direction that all hostile members share, round after round."""
    return _moved(message, lambda x, name: 3.0 * _like(x, seed, "colluding", name))


def little_is_enough(message: Message, seed: int) -> Message:
    """Return differences shifted by a standard deviation and a half, to the same side in every round.

    A shift that hides in the spread over clients (Baruch, Baruch and Goldberg 2019). The spread is estimated by the
    size of the member's own numbers.
    """
    return _moved(message, lambda x, name: x - LITTLE * np.abs(x))


def largest_allowed(message: Message, seed: int) -> Message:
    """Return steps uphill as large as can be added up; in `learnt` with as many visits as a cell may have."""
    most = 0.99 * largest_part(_trained(message), MEMBERS)
    moved = _moved(message, lambda x, name: _sized(-x, most), of_learnt=ROOM)
    if isinstance(moved, Update) and isinstance(moved.numbers.learnt, NativeLearnt):
        learnt = moved.numbers.learnt
        visits = np.full_like(learnt.visits, np.floor(np.log2(max(1, learnt.records))))
        return altered(moved, learnt=replace(learnt, visits=visits))
    return moved


def weight_1000(message: Message, seed: int) -> Message:
    """Return ten times the difference with the sign flipped, as of a thousand times as many records.

    The positions go as far beyond the true ones, so whoever sends it must move those of later rounds as well.
    """
    losses = {name: _weighed(each, 1000) for name, each in _losses(message).items()}
    moved = altered(_moved(message, lambda x, name: -1e4 * x, of_learnt=1e-3), losses=losses)
    return _with_weight(moved, 1000) if isinstance(moved, Update) else moved


def losses_low(message: Message, seed: int) -> Message:
    """Return losses as if new records were predicted perfectly and old ones never; the worst model looks the best."""
    return _lying(message, new=0.0, old=1.0)


def losses_high(message: Message, seed: int) -> Message:
    """Return losses as if old records were predicted perfectly and new ones never; the worst model looks the best."""
    return _lying(message, new=1.0, old=0.0)


def moments(message: Message, seed: int) -> Message:
    """Return moments of features that vary and lie farther out than the records do."""
    if not isinstance(message, Update):
        return message
    numbers, constant = message.numbers, float(message.records)
    C, learnt = numbers.second_moments, numbers.learnt
    norm = constant + STRETCHED * (numbers.squared_norm - constant)
    if C is not None:
        squares = STRETCHED * np.diag(C)
        squares[-1] = constant
        C, norm = np.diag(squares), float(squares.sum())
    if isinstance(learnt, NativeLearnt):
        learnt = replace(learnt, moments=_far(learnt.moments), norms=STRETCHED * learnt.norms)
    return altered(
        message,
        second_moments=C,
        squared_norm=norm,
        moments=None if numbers.moments is None else _far(numbers.moments),
        learnt=learnt,
    )


def labels_flipped(y: FloatArray, labels: int) -> FloatArray:
    """Return label indices counted from the end: what the records of a hostile producer say.

    >>> labels_flipped(np.array([0.0, 1.0, 6.0]), 7)
    array([6., 5., 0.])
    """
    return labels - 1.0 - y


ATTACKS: Mapping[str, Attack] = {
    "sign-flip": sign_flip,
    "scale-10": scale_10,
    "scale-100": scale_100,
    "random": random,
    "largest-allowed": largest_allowed,
    "weight-1000": weight_1000,
    "losses-low": losses_low,
    "losses-high": losses_high,
    "little-is-enough": little_is_enough,
    "colluding": colluding,
    "moments": moments,
}


def _moved(message: Message, move: Callable[[FloatArray, str], FloatArray], *, of_learnt: float = 1.0) -> Message:
    """Return a message with other differences, also of native models: `of_learnt` times, whole numbers of steps."""
    differences = field_of(message, "differences")
    moved = altered(message, differences={name: move(x, name) for name, x in differences.items()})
    if isinstance(moved, Update) and isinstance(moved.numbers.learnt, NativeLearnt):
        learnt = moved.numbers.learnt
        weights = np.rint(of_learnt * move(learnt.weights, "weights"))
        table = np.rint(of_learnt * move(learnt.table.astype(np.float64), "table"))
        return altered(moved, learnt=replace(learnt, weights=weights, table=table))
    return moved


def _like(x: FloatArray, seed: int, *key: str | int) -> FloatArray:
    """Return a random array of the same shape and norm; the columns of each row add up to 0 if those of x do."""
    drawn = generator(seed, *key).standard_normal(x.shape)
    if x.ndim > 1 and x.shape[-1] > 1:
        drawn -= drawn.mean(axis=-1, keepdims=True)
    norm = float(np.linalg.norm(drawn))
    liked: FloatArray = drawn * (float(np.linalg.norm(x)) / norm if norm > 0.0 else 0.0)
    return liked


def _sized(x: FloatArray, most: float) -> FloatArray:
    """Return an array whose largest number is `most`; zeros stay."""
    largest = float(np.abs(x).max(initial=0.0))
    return x * (most / largest) if largest > 0.0 else x


def _trained(message: Update | Scores) -> int:
    return max(1, message.trained) if isinstance(message, Update) else 10_000


def _weighed(losses: SlotLosses, times: int) -> SlotLosses:
    return replace(losses, loss=times * losses.loss, square=times * losses.square, proper=times * losses.proper)


def _with_weight(update: Update, times: int) -> Update:
    """Return an update as of this many times as many records; none is held out."""
    more = (times - 1) * update.records
    spans = (*(_ending_later(first, more) for first in update.spans[:1]), *update.spans[1:])  # none if it is empty
    numbers = update.numbers
    C, learnt = numbers.second_moments, numbers.learnt
    if isinstance(learnt, NativeLearnt):
        learnt = replace(
            learnt,
            records=times * learnt.records,
            bearing=times * learnt.bearing,
            right=times * learnt.right,
            second=times * learnt.second,
            visits=learnt.visits + np.floor(np.log2(times)),
        )
    return altered(
        update,
        records=times * update.records,
        trained=times * update.records if update.trained else 0,
        spans=spans,
        new=tuple(
            replace(x, count=times * x.count, loss=times * x.loss, square=times * x.square) for x in numbers.new
        ),
        held=(),
        second_moments=None if C is None else times * np.diag(np.diag(C)),
        squared_norm=times * numbers.squared_norm if C is None else times * float(np.trace(C)),
        learnt=learnt,
    )


def _ending_later(span: Span, more: int) -> Span:
    """Return a span that ends this many positions later."""
    return Span(span.partition, span.start, span.end + more)


def _lying(message: Message, *, new: float, old: float) -> Message:
    """Return a message with mean scores of new and of old records, and the losses of all models in reverse order."""
    lied = altered(message, losses=_reversed(_losses(message)))
    if isinstance(lied, Update):
        return altered(lied, new=_scored(lied.numbers.new, new), old=_scored(lied.numbers.old, old))
    return lied


def _losses(message: Message) -> Mapping[str, SlotLosses]:
    return message.losses if isinstance(message, Scores) else message.numbers.losses


def _reversed(losses: Mapping[str, SlotLosses]) -> dict[str, SlotLosses]:
    """Return losses with which the best model has the worst, and the worst the best."""
    if not losses:
        return {}
    loss, proper = [x.loss for x in losses.values()], [x.proper for x in losses.values()]
    most, worst = max(loss) + min(loss), max(proper) + min(proper)
    return {name: replace(x, loss=most - x.loss, proper=worst - x.proper) for name, x in losses.items()}


def _scored(sums: tuple[LabelSums, ...], score: float) -> tuple[LabelSums, ...]:
    return tuple(replace(x, loss=score * x.count, square=score**2 * x.count) for x in sums)


def _far(seen: Moments) -> Moments:
    """Return moments of values that spread, and lie, farther out."""
    deviation = np.sqrt(seen.m2 / np.maximum(1.0, seen.count))
    return replace(seen, mean=seen.mean + STRETCHED * deviation, m2=STRETCHED**2 * seen.m2)
