"""Labels that come later, next to River's trees: prequential accuracy on one stream, by delay in records.

    python benchmarks/late_answers.py --data DIR --json F [--records 15000]

One client; DIR holds elec2.npz. `river.stream.simulate_qa` delays the labels; a record without an answer counts as
wrong. Runs that are in the file are skipped.
"""

import argparse
from itertools import product
from pathlib import Path
from typing import Any

from river.stream import simulate_qa

from river_peers.methods import ONE, Task, make
from river_peers.streams import stream
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Row, continued

DELAYS = (0, 10, 100, 1000)
METHODS = ("no-change", "streamfl", "river-hat", "river-arf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--records", type=int, default=15_000)
    options = parser.parse_args()
    found = stream("elec2", options.data).first(options.records)

    def run(wanted: Row) -> Row:
        """Return the accuracy of one method."""
        learner = make(wanted["method"], ONE, Task(found.features, found.labels, wanted["seed"]))
        labels: list[int] = found.y.tolist()
        predicted: list[Any] = [None] * len(labels)
        records = zip(learner.ready(found.X, labels, 0), labels, strict=True)
        for i, x, y in simulate_qa(records, None, wanted["delay"] or None, copy=False):
            if y is None:
                predicted[i] = learner.predict(x)
            else:
                learner.learn(x, y)
        right = sum(told == truth for told, truth in zip(predicted, labels, strict=True))
        return {"accuracy": right / len(labels), "unanswered": predicted.count(None) / len(labels)}

    wanted = (
        {"method": method, "delay": delay, "records": len(found), "seed": 1}
        for method, delay in product(METHODS, DELAYS)
    )
    for row in continued(options.json, Origin.now("late_answers"), wanted, run):
        print(row, flush=True)


if __name__ == "__main__":
    main()
