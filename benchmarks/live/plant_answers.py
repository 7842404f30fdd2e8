"""How late a plant's readings are answered, by the hosts that learn their results: from one topic to the other.

    PYTHONPATH=benchmarks python -m live.plant_answers BOOTSTRAP --rates 20,200,2000 --repeats 2 --json answers.json

The plant of `live.plant` with its hosts and its coordinator, results 5 to 20 seconds late, rounds of ten seconds; no
process is killed. Readings count from the second closed round on: before that, processes start. Times are those of
the messages: when a reading was written, and when its answer was.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from live.federation import Federation, World, delete, everything, federation, fresh, logged
from live.plant import COMMANDS, MACHINES, Course, Nobody, Plant, tables
from streamfl.protocol.messages import RoundClosed
from streamfl_benchmarks import run_file
from streamfl_benchmarks.origin import Origin
from streamfl_benchmarks.run_file import Kept

DELAYS = 5.0, 20.0  # of results, in seconds
READY = 180.0  # seconds within which hosts start
LATEST = 15.0  # seconds after the last result, within which the last answers come


def measured(world: World, rate: float, seconds: float, features: str) -> dict[str, Any]:
    """Run a plant that writes so many readings a second, and return how late they were answered."""
    readings, results = fresh("readings"), fresh("results")
    course = Course(seconds / 60.0, rate, features=features, alone=False)
    plant = Plant(world.bootstrap, readings, results, seconds, rate, DELAYS, Nobody(features), MACHINES)
    try:
        with federation(world, tables(plant, course)) as live:
            hosts = [live.start(*words) for words in COMMANDS.values()]
            until = time.monotonic() + READY
            while time.monotonic() < until and not all(logged(one.log, "partition taken") for one in hosts[1:]):
                time.sleep(1.0)
            loads = [os.getloadavg()[0] for _ in plant.run()]
            time.sleep(LATEST)
            used = [round(process.usage().seconds / (seconds + DELAYS[1] + LATEST), 3) for process in hosts]
            return {
                "rate": rate,
                **delays(live, readings),
                "cores": used,
                "load": round(float(np.mean(loads)), 1),
            }
    finally:
        delete(world.bootstrap, lambda topic: topic in (readings, results))


def delays(live: Federation, readings: str) -> dict[str, Any]:
    """Return quantiles of the seconds from a reading to its first answer, after the second closed round."""
    written: dict[str, int] = {}
    for message in everything(live.world.bootstrap, readings):
        if message.value.startswith(b"{"):  # not one that is no JSON
            written[json.loads(message.value)["part"]] = message.timestamp
    answered: dict[str, int] = {}
    for message in everything(live.world.bootstrap, live.topics.predictions):
        part = message.key.decode()
        answered[part] = min(message.timestamp, answered.get(part, message.timestamp))
    _, second, *_ = (one.at for one in live.messages() if isinstance(one.message, RoundClosed))
    counted = {part: at for part, at in written.items() if at >= 1000.0 * second}
    late = np.array([answered[part] - at for part, at in counted.items() if part in answered]) / 1000.0
    p50, p90, p99, most = np.quantile(late, [0.5, 0.9, 0.99, 1.0]).round(3).tolist()
    return {"readings": len(counted), "answers": len(late), "p50": p50, "p90": p90, "p99": p99, "most": most}


def main() -> None:
    """Measure, and write a file of runs."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("bootstrap")
    words.add_argument("--rates", default="20,200,2000", help="readings a second, of all machines")
    words.add_argument("--repeats", type=int, default=2)
    words.add_argument("--seconds", type=float, default=90.0)
    words.add_argument("--features", default="auto")
    words.add_argument("--json", type=Path, required=True)
    words.add_argument("--folder", type=Path, default=Path("results"))
    given = words.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    world = World(given.bootstrap, given.folder, tenth=False, minutes=given.seconds / 60.0)
    found: list[Kept] = []
    for seed in range(1, given.repeats + 1):
        for rate in map(float, given.rates.split(",")):
            run = measured(world, rate, given.seconds, given.features)
            found.append(Kept(Origin.now("plant_answers"), {"seed": seed, "features": given.features, **run}))
            print(json.dumps(found[-1].run), flush=True)
            run_file.write(given.json, found)


if __name__ == "__main__":
    main()
