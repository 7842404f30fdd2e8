"""Records as River's models take them, drawn with some features missing, and what models say of them."""

from typing import Any

from river import base

from streamfl.sampling import generator

Stream = list[tuple[dict[str, Any], Any]]

NAMES = ("a", "b", "c")


def drawn(seed: int, n: int = 160) -> list[dict[str, float]]:
    """Return n records; each feature is missing from some, and far from standardised."""
    rng = generator(seed, "river")
    return [
        {name: float(rng.normal(3 * j, j + 0.5)) for j, name in enumerate(NAMES) if rng.uniform() > 0.1} or {"a": 0.5}
        for _ in range(n)
    ]


def score(x: dict[str, float]) -> float:
    return x.get("a", 0.0) - 0.5 * (x.get("b", 3.0) - 3.0)


def label(x: dict[str, float]) -> str:
    return "low" if score(x) < -0.7 else "middle" if score(x) < 0.7 else "high"


BINARY: Stream = [(x, score(x) > 0.0) for x in drawn(1)]
MANY: Stream = [(x, label(x)) for x in drawn(2)]
TARGETS: Stream = [(x, 2.0 * score(x) + 1.0) for x in drawn(3)]
COUNTS: Stream = [({name: int(abs(value)) for name, value in x.items()}, label(x)) for x in drawn(4)]


def outputs(model: Any, stream: Stream) -> list[str]:
    """Return what a model predicts for records, to the last bit; probabilities where it gives them."""
    last = model[-1] if hasattr(model, "steps") else model
    asked = model.predict_proba_one if isinstance(last, base.Classifier) else model.predict_one
    return [str(asked(dict(x))) for x, _ in stream]
