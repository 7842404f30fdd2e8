"""A change in one sentence: since when, of which labels, at which clients, and which features moved."""

from collections.abc import Mapping, Sequence

from streamfl.protocol.messages import FeatureMoved
from streamfl.run.evaluation.changes import Moved
from streamfl.run.evaluation.result import DatedInputsMoved, DatedInputsStuck, DatedLocalDrift, DatedRestart
from streamfl.run.report.words import count, counted, listed, quantity, since_time

_NAMED, _FEATURES = 5, 3

DatedDrift = DatedRestart | DatedLocalDrift


def sentence(
    change: DatedDrift,
    *,
    clients: int | None = None,
    moved: Sequence[Moved] | None = None,
) -> str:
    r"""Return what is known of a restart or a local drift as one sentence.

    Parameters
    ----------
    clients
        The number of clients of the federation, if it is known.
    moved
        The features that moved, the one that moved most first; None if it is not known whether any did. Then the
        sentence has those that the announcement names.

    >>> swap = DatedRestart(round=32, epoch=2, cause="excess", statistic=113.8, threshold=9.21, chosen="scratch",
    ...                     since=31, clients=("c0", "c1"), labels=("1", "2"))
    >>> sentence(swap).partition("have ")[2]
    'been predicted worse, for certain at clients c0, c1, perhaps at others (found in round 32).'
    >>> sentence(swap, clients=2, moved=()).partition(" worse")[2]
    ' at all 2 clients (found in round 32); no feature moved, so the labels have probably changed their meaning.'
    >>> live = swap.model_copy(update={"clients": (), "clients_better": (19, 20), "renamed": {"1": "2", "2": "1"}})
    >>> print(*sentence(live).partition(" worse")[2].split("; "), sep="\n")
     over all clients together, and the new model is already better at 19 of the 20 (found in round 32)
    the labels were probably exchanged: 1 with 2.
    >>> height = Moved(feature="height", before=2740.0, since=3011.0, deviations=1.2)
    >>> sentence(swap, clients=9, moved=[height]).partition("others ")[2]
    '(found in round 32); on average, height rose from 2740 to 3011.'
    """
    began, time = since_time(change), change.time
    since = f"Since round {count(change.since)}{f' ({began})' if began else ''}"
    found = f"(found in round {count(change.round)}{f', {time}' if time else ''})"
    if isinstance(change, DatedRestart) and change.cause == "new-label":
        new = "there has been a label" if len(change.labels) == 1 else "there have been labels"
        return f"{since}, {new} not seen before: {listed(change.labels, _NAMED)} {found}."
    of = f" of {_named('label', change.labels)}" if change.labels else ""
    worse = f"records{of} have been predicted worse{_where(change, clients)} {found}"
    names = change.renamed if isinstance(change, DatedRestart) else {}
    if moved is None and change.moved:
        return f"{since}, {worse}; {_readings(change.moved, clients)}."
    if moved is None:
        return f"{since}, {worse}{f'; {_meaning(names)}' if names else ''}."
    is_of_labels = change.labels or names
    otherwise = _meaning(names) if is_of_labels else "what the features mean has probably changed"
    return f"{since}, {worse}{_features(moved, otherwise)}."


def moved_sentence(found: DatedInputsMoved, clients: int | None = None) -> str:
    """Return which features have moved, where and by how much, as one sentence.

    Parameters
    ----------
    clients
        The number of clients of the federation, if it is known.

    >>> moved = (FeatureMoved("heat", 59.8, 46.0, since=68), FeatureMoved("load", 1.0, 3.0, ("m3",), 1, 68))
    >>> found = DatedInputsMoved(round=69, epoch=1, clients=(), since=68, statistic=35.1, threshold=7.6, moved=moved,
    ...                          since_time="2026-11-27T11:19:00Z")
    >>> moved_sentence(found, clients=8).partition("lower")[0]
    'Since round 68 (2026-11-27T11:19:00Z), heat reads 13.8 '
    >>> moved_sentence(found, clients=8).partition("8 clients")[2]
    ', and load 2 higher (3 instead of 1) at least at client m3 (found in round 69).'
    >>> explains = found.model_copy(update={"moved": moved[:1], "cause": "excess", "labels": ("on",)})
    >>> moved_sentence(explains, clients=8).partition("8 clients")[2]
    ', so records of label on have been predicted worse (found in round 69).'
    >>> moved_sentence(explains.model_copy(update={"moved": (), "spread": (2.0, 1.0)})).partition("Z), ")[2]
    'features vary 0.5 times as much as before, so records of label on have been predicted worse (found in round 69).'
    """
    began = since_time(found)
    since = f"Since round {count(found.since)}{f' ({began})' if began else ''}"
    whose = f" of {_named('label', found.labels)}" if found.labels else ""
    worse = f", so records{whose} have been predicted worse" if found.cause else ""
    of = f" after the drift of round {count(found.drift)}" if found.drift else ""
    at = f"(found in round {count(found.round)}{f', {found.time}' if found.time else ''}{of})"
    told = [_readings(found.moved, clients)] if found.moved else []
    if found.spread is not None:
        before, after = found.spread
        times = quantity(float(f"{after / before:.2g}")) if before else ""
        told.append(f"features vary {f'{times} times as much as before' if times else 'now'}")
    return f"{since}, {', and '.join(told)}{worse} {at}."


def stuck_sentence(found: DatedInputsStuck) -> str:
    """Return which sensors are stuck, where and since when, as one sentence.

    >>> from streamfl.protocol.messages import FeatureStuck
    >>> heat = FeatureStuck("heat", "m07", 61.2, since=68)
    >>> found = DatedInputsStuck(round=72, epoch=1, clients=("m07",), since=68, statistic=35.1, threshold=15.2,
    ...                          stuck=(heat,), since_time="2026-11-27T11:19:00Z")
    >>> stuck_sentence(found).partition("Z), ")[2]
    'heat has repeated 61.2 at client m07 (found in round 72); its sensor may be stuck.'
    >>> all_of_it = found.model_copy(update={"stuck": (heat, FeatureStuck("flow", "m07", 14.0, since=69))})
    >>> stuck_sentence(all_of_it).partition("Z), ")[2]
    'heat has repeated 61.2 at client m07, and flow 14 at client m07 (found in round 72); their sensors may be stuck.'
    """
    began = since_time(found)
    since = f"Since round {count(found.since)}{f' ({began})' if began else ''}"
    told = [
        f"{one.feature} {'' if i else 'has repeated '}{quantity(one.value)} at {_named('client', [one.client])}"
        for i, one in enumerate(found.stuck[:_FEATURES])
    ]
    more = len(found.stuck) - _FEATURES
    if more > 0:
        told.append(f"{counted(more, 'other feature')} {'has' if more == 1 else 'have'} repeated one value")
    at = f"(found in round {count(found.round)}{f', {found.time}' if found.time else ''})"
    which = "its sensor" if len(found.stuck) == 1 else "their sensors"
    return f"{since}, {', and '.join(told)} {at}; {which} may be stuck."


def _readings(moved: Sequence[FeatureMoved], clients: int | None) -> str:
    """Return how features read now.

    >>> _readings([FeatureMoved("load", 1.0, 3.0)], None)
    'load reads 2 higher (3 instead of 1) at all clients'
    """
    told = [
        f"{one.feature} {'' if i else 'reads '}{quantity(abs(one.after - one.before))} "
        f"{'higher' if one.after > one.before else 'lower'} ({quantity(one.after)} instead of {quantity(one.before)})"
        f" at {_clients(one, clients)}"
        for i, one in enumerate(moved[:_FEATURES])
    ]
    more = len(moved) - _FEATURES
    if more > 0:
        told.append(f"{counted(more, 'other feature')} {'has' if more == 1 else 'have'} moved")
    return ", and ".join(told)


def _all(clients: int | None) -> str:
    """Return all clients in words.

    >>> _all(None), _all(8), _all(1)
    ('all clients', 'all 8 clients', 'the only client')
    """
    if clients is None:
        return "all clients"
    return "the only client" if clients == 1 else f"all {counted(clients, 'client')}"


def _clients(one: FeatureMoved, clients: int | None) -> str:
    if not one.clients:
        return _all(clients)
    # Records of others may still be from before: an announcement names those that have shown it so far.
    names = _named("client", one.clients)
    who = f"{counted(one.of_clients, 'client')} ({names.partition(' ')[2]})" if one.of_clients > _NAMED else names
    return f"least at {who}"


def _named(noun: str, names: Sequence[str]) -> str:
    """Return names after their noun, which is not said twice: a split by column client names clients client=NAME.

    >>> _named("client", ("client=u11",)), _named("client", ("site=east", "site=west"))
    ('client u11', 'clients site=east, site=west')
    """
    twice = f"{noun}="
    plain = [name.removeprefix(twice) for name in names]
    return f"{noun}{'' if len(names) == 1 else 's'} {listed(plain, _NAMED)}"


def _where(change: DatedDrift, clients: int | None) -> str:
    if isinstance(change, DatedLocalDrift):
        return f", but only at {_named('client', change.clients)}"
    if not change.clients:  # the test of all records together was sure before that of any one client
        better, of = change.clients_better
        at = "each of them" if better == of else f"{count(better)} of the {count(of)}"
        already = f", and the new model is already better at {at}" if better else ""
        return f" over all clients together{already}" if clients != 1 else ""
    if len(change.clients) == clients:
        return f" at {_all(clients)}"
    return f", for certain at {_named('client', change.clients)}, perhaps at others"


def _meaning(names: Mapping[str, str]) -> str:
    """Return what has become of the labels, given what some were called before, if that is sure."""
    changed = "the labels have probably changed their meaning"
    if not names:
        return changed
    if any(names.get(was) != now for now, was in names.items()):
        return f"{changed}: {listed([f'label {now} used to be {was}' for now, was in names.items()], _NAMED)}"
    pairs = sorted({tuple(sorted(pair)) for pair in names.items()})
    return f"the labels were probably exchanged: {listed([f'{one} with {other}' for one, other in pairs], _NAMED)}"


def _features(moved: Sequence[Moved], otherwise: str) -> str:
    """Return which features moved; if none did, what that means."""
    if not moved:
        return f"; no feature moved, so {otherwise}"
    ways = [
        f"{feature.feature} {'rose' if feature.deviations > 0 else 'fell'} from {quantity(feature.before)} to "
        f"{quantity(feature.since)}"
        for feature in moved
    ]
    return f"; on average, {', '.join(ways)}"
