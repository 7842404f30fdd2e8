"""How the clients of each branch mix what all have learnt: agreed over these clients alone."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from streamfl.online.native.merging.merging import mixed
from streamfl.protocol.native.change import NativeChange, chained
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.mixed import AgreedMixture
from streamfl.protocol.native.models import NativeState


def with_branches(
    before: NativeState,
    learnt: Mapping[str, NativeLearnt],
    branches: Mapping[str, Collection[str]],
    after: NativeState,
    change: NativeChange | None,
) -> tuple[NativeState, NativeChange | None]:
    """Return the agreed state after a round, and its change, with the mixtures of the branches.

    Parameters
    ----------
    learnt
        What each client learnt, by name, in the order of names.
    after, change
        The agreed state after the round, and its change, as all other clients have made them.
    """
    mixtures = {name: _mixed(before.mixture_of(name), learnt, clients) for name, clients in branches.items()}
    if not mixtures:
        return replace(after, branches={}), change
    weights = (part for each in mixtures.values() for part in each.weights)
    chain = chained(after.chain, *weights)
    changed = None if change is None else replace(change, branches=mixtures, chain=chain)
    return replace(after, branches=mixtures, chain=chain), changed


def _mixed(before: AgreedMixture, learnt: Mapping[str, NativeLearnt], clients: Collection[str]) -> AgreedMixture:
    return mixed(before, [part for client, part in learnt.items() if client in clients])
