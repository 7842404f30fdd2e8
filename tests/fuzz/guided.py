"""Fuzzes one decoder guided by coverage: `python -m tests.fuzz.guided json-open -- -runs=100000`; needs atheris.

What follows `--` goes to libFuzzer. Inputs that reach new code are added to a copy of the kept ones, in
`tests/fuzz/found`; one that breaks the law is written there, too, and ends the run.
"""

import shutil
import sys
import tracemalloc
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["streamfl"]):
    from fuzz.decoders import CORPUS, DECODERS
from fuzz.law import Tally, tried


def main() -> None:
    """Run until libFuzzer ends."""
    name, *flags = sys.argv[1:]
    decoder, tally = DECODERS[name], Tally()
    found = CORPUS.parent / "found" / f"{name}-guided"
    shutil.copytree(CORPUS / name, found, dirs_exist_ok=True)
    tracemalloc.start()
    prefix = f"-artifact_prefix={found}/broken-"
    atheris.Setup(
        [sys.argv[0], str(found), prefix, *[one for one in flags if one != "--"]],
        lambda data: tried(decoder, data, tally),
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
