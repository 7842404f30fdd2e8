"""Whose turn it is to send moments of their features: a few clients each round, in turn."""

from streamfl.machines.coordinator.saved.state import CoordinatorState

# One client in this many sends moments in a round, in turn; all do in the first rounds after a restart; never more
# than the last number. docs/choices.md, "Grids".
TURNS, ALL_MEASURED, MOST_MEASURED = 8, 4, 16


def is_turn_of_all(state: CoordinatorState, rounds: int) -> bool:
    """Tell whether all clients send second moments in a round in which none may be told from the others.

    A sum over some clients alone would tell more of each, so all take the same turns; and as long as no feature has a
    scale there is nothing to measure.
    """
    known = len(state.registry.unscaled) < max(1, len(state.registry.features))
    return known and (rounds <= ALL_MEASURED or rounds % TURNS == 0)


def next_measured(state: CoordinatorState, *, asks_all: bool = False) -> tuple[str, ...] | None:
    """Return the clients whose turn it is to send moments in the round that begins; None: all.

    All are asked if a feature may have moved (`asks_all`): then it is known at which of them.
    Turns go round among members with accepted records: one that only lies moves nobody's turn.
    """
    names = sorted(name for name in state.active() if state.members[name].accepted)
    several = min(-(-len(names) // TURNS), MOST_MEASURED)
    if several == len(names) or asks_all:
        return None
    first = state.round * several % len(names)
    return tuple([*names, *names][first : first + several])
