"""States of earlier versions, whose fields and kinds had other names, are read, and written with the new ones."""

import json
from typing import Any

from streamfl.learning.profiles.adaptive.branch import Branch, Latch
from streamfl.learning.profiles.adaptive.ladder import Ladder
from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.machines.coordinator.saved.state import CoordinatorState
from streamfl.models.river_drift import RiverDetector
from streamfl.protocol.alarm import Alarm
from streamfl.wire import codec

OLD = {
    "profile": "master", "announced": "told", "last_records": "heard", "released": "odd",
}  # fmt: skip
ALARM = Alarm("excess", 10.0, 9.2, since=3)


def state() -> CoordinatorState:
    return CoordinatorState(
        Promotion(
            detector=RiverDetector("ADWIN", losses=[0.25, 0.5]),
            released=("c3",),
            latch=Latch(("c1",), ALARM, 9, {}, announced=("c1",)),
            branches=[Branch(("c2",), ALARM, Ladder(), 4, last_records=8)],
        )
    )


def renamed(value: Any, *, top: bool = True) -> Any:
    """Return the value as an earlier version wrote it."""
    if isinstance(value, list):
        return [renamed(part, top=False) for part in value]
    if not isinstance(value, dict):
        return value
    kept = {key if key == "profile" and not top else OLD.get(key, key): part for key, part in value.items()}
    old = {key: renamed(part, top=False) for key, part in kept.items()}
    return old | {"kind": "foreign", "library": "river"} if old.get("kind") == "river" else old


def test_a_state_of_earlier_names_is_read_and_written_with_the_new_ones() -> None:
    new = codec.encode(state())
    old = renamed(json.loads(new))
    text = json.dumps(old)
    assert all(f'"{name}"' in text for name in (*OLD.values(), "foreign")) and '"announced"' not in text
    assert codec.encode(codec.decode(CoordinatorState, text.encode())) == new
