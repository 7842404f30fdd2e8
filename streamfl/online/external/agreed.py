"""The agreed state of an external model after a round."""

from collections.abc import Sequence
from dataclasses import replace

from streamfl.bounds import NAMED
from streamfl.errors import PeerError
from streamfl.online.external.merging import merged
from streamfl.protocol.external.state import ExternalLearnt, ExternalState
from streamfl.protocol.external.tables import Exported


def agreed_after(
    before: ExternalState,
    parts: Sequence[ExternalLearnt],
    labels: tuple[str, ...],
    *,
    most: int = NAMED.external_names,
) -> ExternalState:
    """Return the agreed state after a round.

    Parameters
    ----------
    parts
        The clients' states, in the order of the clients' names, each weighted by the records that it learnt. A state
        that contradicts earlier ones is left out, since no correct client sends one; so is a state that would make
        too many names.
    most
        The most names that the state may have.

    Examples
    --------
    >>> from streamfl.protocol.external.tables import ExportedTable
    >>> def exported(x):
    ...     return Exported("Linear", {"Linear.weights": ExportedTable.column("mean", "weight", {"x": x})})
    >>> learnt = (exported(1.0), 30, 0), (exported(5.0), 20, 10), (None, 9, 9)
    >>> parts = [ExternalLearnt(*each) for each in learnt]
    >>> agreed = agreed_after(ExternalState(exported(0.0)), parts, ("a", "b"))
    >>> agreed.state.tables["Linear.weights"].single(), agreed.seen
    ({'x': 2.0}, 40)
    """
    weighted = [(part.state, part.records - part.unlearnt) for part in parts if part.state is not None]
    try:
        state = merged(weighted, before.state)
    except PeerError:
        state = None
    if state is None or state.names > most:
        weighted = _without_contradictions(weighted, before.state, most)
        state = merged(weighted, before.state)
    return replace(before, state=state, labels=labels, seen=before.seen + sum(records for _, records in weighted))


def _without_contradictions(
    weighted: Sequence[tuple[Exported, int]], base: Exported, most: int
) -> list[tuple[Exported, int]]:
    kept: list[tuple[Exported, int]] = []
    for part in weighted:
        try:
            names = merged([*kept, part], base).names
        except PeerError:
            continue
        if names <= most:
            kept.append(part)
    return kept
