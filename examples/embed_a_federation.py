"""Embed a federation in a program: three pumps learn together, and a test lets time pass.

Run it as it stands: python examples/embed_a_federation.py
"""

import json
import random

import streamfl

SETTINGS = {
    "federation": {"min_clients": 3},
    "rounds": {"clock": "interval", "interval": 60.0},
    "records": {"fields": {"label": "state"}},
}
PUMPS = ("north", "south", "east")


def message(pump: str, minute: int) -> bytes:
    """Return what a pump sends: from minute 30 on, states have each other's name."""
    flow, pressure = random.gauss(50.0, 9.0), random.gauss(4.0, 0.5)
    state = "ok" if (flow > 45.0) == (minute < 30) else "blocked"
    return b"PUMP" + json.dumps([flow, pressure, state]).encode()


def deserialize(message: bytes) -> list:
    """Read a message: this runs in the program, and the same on Kafka."""
    return json.loads(message.removeprefix(b"PUMP"))


def features(measured: list) -> dict:
    """Return the fields of a message."""
    flow, pressure, state = measured
    return {"flow": flow, "pressure": pressure, "work": flow * pressure, "state": state}


def main() -> None:
    """Run an hour in a second."""
    random.seed(1)
    clock, right, asked = streamfl.ManualClock(), 0, 0
    federation = streamfl.Federation(
        SETTINGS,
        deserialize=deserialize,
        features=features,
        on_drift=lambda said, found: print(f"minute {clock.time / 60.0:.0f}: {said}"),
        clock=clock,
    )
    for minute in range(60):
        for pump in PUMPS:
            messages = [message(pump, minute) for _ in range(25)]
            right += sum(
                answer == deserialize(one)[2]
                for answer, one in zip(federation.predict(pump, messages), messages, strict=True)
            )
            asked += len(messages)
            federation.learn(pump, messages)
        clock.time += 60.0
        federation.step()
    print(f"{right / asked:.1%} of {asked} messages were predicted right before they were learnt")
    print(f"{len(federation.rejected)} messages could not be read")
    # On Kafka: streamfl.Federation("federation.toml", deserialize=deserialize, features=features).run()


if __name__ == "__main__":
    main()
