"""Tries every decoder on many inputs: `python -m tests.fuzz --inputs 1000000 --seed 1`.

It goes on where it was stopped, if `--progress` names the same file. What breaks a decoder is written beside the kept
inputs, as `broken-...`, and the run goes on; the exit code is then 1.
"""

import argparse
import hashlib
import json
import sys
import tracemalloc
import warnings
from contextlib import suppress
from dataclasses import asdict
from math import ceil
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from fuzz.decoders import CORPUS, DECODERS, Decoder  # noqa: E402  after the path is set
from fuzz.law import COUNTED, BrokenLawError, Tally, inputs_of, tried  # noqa: E402

# The inputs between two notes of the progress.
AT_ONCE = 250

# So many broken laws of one decoder are told; more are alike.
MOST_BROKEN = 20


def main() -> int:
    """Run, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=28_000, help="of all decoders together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], choices=list(DECODERS), metavar="DECODER")
    parser.add_argument("--progress", type=Path, help="a file that is read first and written as the run goes on")
    asked = parser.parse_args()
    decoders = [DECODERS[name] for name in asked.only or DECODERS]
    each = asked.inputs / sum(decoder.share for decoder in decoders)
    tallies = _noted(asked.progress)
    broken = 0
    for decoder in decoders:
        for data in decoder.corpus():
            with suppress(*decoder.errors):
                decoder.read(data)  # whatever is loaded or compiled at first is none of an input's work
    warnings.simplefilter("error")
    tracemalloc.start()
    for start in range(0, ceil(each), AT_ONCE):
        for decoder in decoders:
            tally, most = tallies.setdefault(decoder.name, Tally()), ceil(each * decoder.share)
            if tally.inputs <= start < most:
                broken += _round(decoder, asked.seed, start, min(start + AT_ONCE, most), tally)
        if asked.progress:
            asked.progress.write_text(json.dumps({name: asdict(tally) for name, tally in tallies.items()}))
    sys.stdout.write(_table({decoder.name: tallies[decoder.name] for decoder in decoders}) + "\n")
    return int(broken > 0)


def _noted(progress: Path | None) -> dict[str, Tally]:
    if progress is None or not progress.exists():
        return {}
    return {name: Tally(**tally) for name, tally in json.loads(progress.read_text()).items()}


def _round(decoder: Decoder, seed: int, start: int, end: int, tally: Tally) -> int:
    """Try some inputs, and return how many broke the law."""
    broken = 0
    for i, data in enumerate(inputs_of(decoder, seed, start, end)):
        try:
            tried(decoder, data, tally, count=i % COUNTED == 0)
        except BrokenLawError as error:
            broken += 1
            if broken <= MOST_BROKEN:
                name = f"broken-{hashlib.sha256(data).hexdigest()[:12]}.bin"
                (CORPUS.parent / "found" / decoder.name).mkdir(parents=True, exist_ok=True)
                (CORPUS.parent / "found" / decoder.name / name).write_bytes(data)
                sys.stderr.write(f"{decoder.name}/{name}: {error}\n")
    return broken


def _table(tallies: dict[str, Tally]) -> str:
    lines = [
        "| decoder | inputs | refused | accepted | most memory, MB | most calls |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    total = Tally()
    for name, tally in tallies.items():
        total.add(tally)
        lines.append(_line(name, tally))
    return "\n".join([*lines, _line("all", total)])


def _line(name: str, tally: Tally) -> str:
    refused = tally.inputs - tally.accepted
    counts = f"{tally.inputs:,} | {refused:,} | {tally.accepted:,}"
    return f"| {name} | {counts} | {tally.largest / 1e6:.1f} | {tally.calls:,} |"


if __name__ == "__main__":
    sys.exit(main())
