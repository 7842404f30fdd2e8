"""What a change of names and places must not change: digests of small runs, and of what goes on from saved states.

    python tests/golden/runs.py --write     notes the digests of this version in digests.json

The digests hold for one arithmetic, which every x86-64 machine of the last ten years has: see `arithmetic.py`.
"""

import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.arithmetic import asked, begin, digest, tell

HERE = Path(__file__).parent
NOTED = HERE / "digests.json"

CLASSES = "classes.csv --clients 5 --round-size 20"
TARGETS = "targets.csv --clients 4 --round-size 20"
ROUNDS = f"{CLASSES} --features rounds"
RUNS = {
    "demo": "demo --features rounds",
    "demo auto": "demo",
    "adaptive": f"replay {CLASSES}",
    "adaptive linear": f"replay {CLASSES} --features linear",
    "adaptive ferns": f"replay {CLASSES} --features ferns",
    "adaptive rounds": f"replay {ROUNDS}",
    "adaptive regression": f"replay {TARGETS}",
    "adaptive regression rounds": f"replay {TARGETS} --features rounds",
    "glr": f"replay {ROUNDS} --detector glr",
    "e-detector": f"replay {ROUNDS} --detector e-detector",
    "river:ADWIN": f"replay {ROUNDS} --detector river:ADWIN",
    "experts": f"replay {CLASSES} --profile experts",
    "paper history": f"replay {CLASSES} --profile paper",
    "paper regret warm": f"replay {CLASSES} --profile paper --optimistic regret --start warm --max-order 4",
    "fedomd": f"replay {CLASSES} --profile paper --algorithm fedomd --mirror hypentropic --average dual --step 10",
    "p-norm": f"replay {CLASSES} --algorithm fedomd --l1 0.001",
    "local steps": f"replay {CLASSES} --local-batch 8 --gamma 0.5 --l2 0.01",
    "huber": f"replay {TARGETS} --model huber",
    "squared": f"replay {TARGETS} --model squared --profile paper",
    "river model": f"replay {CLASSES} --model river:naive_bayes.GaussianNB",
    "dirichlet": f"replay {CLASSES} --split dirichlet:0.3 --seed 7",
}


def main() -> None:
    """Print the digests of this version as JSON, or note them."""
    begin()
    tell(dict(digests()), NOTED)


def digests() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the digests of every run by its name."""
    with tempfile.TemporaryDirectory() as folder:
        _write_streams(Path(folder))
        for name in asked(RUNS):
            yield name, _digests_of(RUNS[name].split(), Path(folder))


def _digests_of(options: list[str], folder: Path) -> dict[str, str]:
    """Run a command, and return the fingerprint of its model and the digests of what it wrote."""
    from streamfl.cli.main import cli

    command, *rest = [str(folder / word) if word.endswith(".csv") else word for word in options]
    predictions = ["--predictions", str(folder / "predictions.csv")] if command == "replay" else []
    told = folder / "told.json"
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        cli([command, *rest, "--json", str(told), "--per-round", *predictions], standalone_mode=False)
    result = json.loads(told.read_text())
    found = {"model": result["model_sha256"], "json": digest(_as_before(json.dumps(_without_times(result))).encode())}
    return found | ({"predictions": digest((folder / "predictions.csv").read_bytes())} if predictions else {})


# What users call a model now, and the two words for it before.
LADDER = re.compile(r"(average of )?\bstep ([0-9.]+)( with momentum)?\b")


def _as_before(text: str) -> str:
    """Return a result with the names of models of before: orders k of a step s / sqrt(2^k), in place of the steps."""
    largest = max((float(found.group(2)) for found in LADDER.finditer(text)), default=1.0)

    def before(found: re.Match[str]) -> str:
        average, step, momentum = found.groups()
        order = round(2.0 * math.log2(largest / float(step)))
        return f"{'heavy' if momentum else 'rung'}-{order}{'-average' if average else ''}"

    return LADDER.sub(before, text)


# The fields of findings before they had positions, in the order of then.
FINDINGS = {
    "restarts": "round time epoch cause statistic threshold chosen since clients labels",
    "local_drifts": "round epoch clients labels since state statistic threshold",
    "notices": "round epoch cause statistic threshold since labels",
}


# Keys that differ from run to run, and those that came later.
LATER = {
    *("seconds", "records_per_second", "source", "missing", "r2", "answered", "ahead"),
    *("inputs_moved", "inputs_stuck", "interval"),
}


def _without_times(result: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in result.items() if key not in LATER}
    kept["per_round"] = [{key: value for key, value in line.items() if key != "time"} for line in result["per_round"]]
    for moved in (one for change in kept["changes"] for one in change["moved"] or ()):
        del moved["span"], moved["counts"]
    kept["streamfl"] = "0.1.0"  # the version by which digests were first noted: another one is no other result
    for key, names in FINDINGS.items():
        kept[key] = [{name: finding[name] for name in names.split()} for finding in result[key]]
    return kept


def _write_streams(folder: Path) -> None:
    """Write 2,000 records of three classes whose concept changes in the middle, and as many targets."""
    import numpy as np

    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 100.0, 0.0, 5.0]
    W = rng.normal(size=(4, 3))
    outputs = (X - X.mean(axis=0)) / X.std(axis=0) @ W + 0.3 * rng.normal(size=(2000, 3))
    outputs[1000:] = outputs[1000:, [1, 2, 0]]
    y, late = outputs.argmax(axis=1), np.arange(2000) >= 1200
    cells = [[f"{x:.5f}" for x in row] for row in X]
    for i in range(0, 2000, 37):
        cells[i][1] = ""
    classes = [",".join([*row, "uvw"[c]]) for row, c in zip(cells, y, strict=True)]
    targets = [
        ",".join([*row, f"{50.0 + 3.0 * z[0] - 8.0 * is_late:.4f}"])
        for row, z, is_late in zip(cells, outputs, late, strict=True)
    ]
    (folder / "classes.csv").write_text("\n".join(["a,b,c,d,label", *classes]) + "\n")
    (folder / "targets.csv").write_text("\n".join(["a,b,c,d,target", *targets]) + "\n")


if __name__ == "__main__":
    main()
