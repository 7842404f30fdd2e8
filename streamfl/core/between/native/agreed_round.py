"""What all agree on of the models that learn between rounds, after a round and at restarts."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from streamfl.core.arrays import IntArray
from streamfl.core.between.native import merging, renaming
from streamfl.core.protocol.native.learnt import NativeLearnt
from streamfl.core.protocol.native.models import NativeState
from streamfl.core.protocol.native.settings import NativeSettings


def after_round(
    agreed: NativeState,
    learnt: Mapping[str, NativeLearnt],
    labels: tuple[str, ...],
    settings: NativeSettings,
    *,
    apart: AbstractSet[str] = frozenset(),
    renamed: tuple[int, ...] | None = None,
) -> tuple[NativeState, IntArray | None]:
    """Return the models after a round, and the rows of the table of ferns that changed; None for all of them.

    A restart wakes who sleeps. Where it found that labels have other names, so they have in the models that have not
    noticed, and what the alarm's round taught these is dropped.

    Parameters
    ----------
    agreed
        Where the clients began.
    learnt
        What each of them learnt, in the order of their names.
    labels
        All labels by now.
    settings
        How they learn.
    apart
        The clients that learn for themselves: only what they use counts, so that it stays awake.
    renamed
        After a restart, what has become of the labels: label a is to be called what label pi(a) was, and nothing
        where that is not known. None: there was no restart.
    """
    ours = [part for client, part in learnt.items() if client not in apart]
    theirs = [part for client, part in learnt.items() if client in apart]
    if renamed is None:
        return merging.after(agreed, ours, labels, theirs, settings=settings)
    awake = replace(agreed, rests={})
    models = renaming.misnamed(awake, ours, labels, renamed)
    if not models.any():
        return merging.after(awake, ours, labels, theirs, settings=settings)
    kept = [renaming.untaught(part, models, settings) for part in ours]
    merged, _ = merging.after(awake, kept, labels, theirs, settings=settings)
    return renaming.renamed(merged, models, renamed, settings), None
