"""What an update has learnt online, against what the federation agrees on."""

from streamfl.learning.online_models import Covered
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.machines.coordinator.settings import CoordinatorSettings
from streamfl.protocol.messages import RoundOpened, Update


def wrong_learnt(
    update: Update, opened: RoundOpened, state: CoordinatorState, settings: CoordinatorSettings
) -> str | None:
    """Return what is wrong with `learnt`, or with the names of experts in `served`, or None."""
    online, registry, numbers = settings.learner.online, state.registry, update.numbers
    if online is None:
        wrong = None if numbers.learnt is None else "either the update or the federation has no online models"
        return wrong or ("predictions name models that are unknown" if numbers.served.shares else None)
    covered = Covered(
        records=update.records,
        features={*registry.features, *update.new_features},
        labels={*registry.labels, *update.new_labels},
        members=len(state.members),
        limits=settings.limits,
        measured=opened.asks.of(update.client),
    )
    wrong = online.refusal(numbers.learnt, state.online, covered)
    answering = online.names >= numbers.served.shares.keys()
    return wrong or (None if answering else "predictions name models that are unknown")
