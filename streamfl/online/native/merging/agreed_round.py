"""The agreed state of native models after a round, and at restarts."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from streamfl.online.native.merging import merging, renaming
from streamfl.online.native.merging.on_grids import ON_GRIDS
from streamfl.online.native.merging.way import Way
from streamfl.protocol.native.change import NativeChange
from streamfl.protocol.native.learnt import NativeLearnt
from streamfl.protocol.native.models import NativeState
from streamfl.protocol.native.pairs import over
from streamfl.protocol.native.settings import NativeSettings


def after_round(
    agreed: NativeState,
    learnt: Mapping[str, NativeLearnt],
    labels: tuple[str, ...],
    settings: NativeSettings,
    *,
    apart: AbstractSet[str] = frozenset(),
    renamed: tuple[int, ...] | None = None,
    way: Way = ON_GRIDS,
) -> tuple[NativeState, NativeChange | None]:
    """Return the agreed state after a round, and its change; None if the whole state changed, or nothing.

    A restart wakes all experts. If it found that labels were swapped, the models that have not followed the swap get
    it, and lose what the round of the alarm taught them.

    Parameters
    ----------
    learnt
        What each client learnt, by name, in the order of names.
    apart
        The clients that drifted alone: they add nothing, but the experts that they use stay awake.
    renamed
        After a restart, the permutation pi: label a is to be called what label pi(a) was; empty if none is known.
        None: there was no restart.
    """
    parts = [part for client, part in learnt.items() if client not in apart]
    parts_apart = [part for client, part in learnt.items() if client in apart]
    if renamed is None:
        return merging.after(agreed, parts, labels, parts_apart, settings=settings, way=way)
    awake = replace(agreed, rests={})
    models = renaming.misnamed(awake, parts, labels, renamed)
    if not models.any():
        return merging.after(awake, parts, labels, parts_apart, settings=settings, way=way)
    before = np.arange(len(labels))
    before[list(renamed)] = np.arange(len(renamed))
    awake = replace(awake, pairs=over(awake.pairs, before))
    kept = [renaming.untaught(part, models, settings) for part in parts]
    merged, _ = merging.after(awake, kept, labels, parts_apart, settings=settings, way=way)
    return renaming.renamed(merged, models, renamed, settings), None
