"""One arithmetic for all machines, which a process has from its start: digests of computed numbers hold for it."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# How OpenBLAS, NumPy and Numba compute is chosen by what a processor can do; here by what all can. NumPy ignores
# names that it does not know: AVX-512 is X86_V4 since 2.4, before AVX512F, AVX512CD and AVX512_SKX.
ARITHMETIC = {
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR",
    "NUMBA_CPU_NAME": "haswell",
}


def begin() -> None:
    """Run this script anew in the one arithmetic, unless it has it."""
    if any(os.environ.get(name) != value for name, value in ARITHMETIC.items()):
        raise SystemExit(subprocess.call([sys.executable, *sys.argv], env=os.environ | ARITHMETIC))


def asked(names: Iterable[str]) -> list[str]:
    """Return those of some names that the command line names; all if it names none, or notes them."""
    named = [] if "--write" in sys.argv else sys.argv[1:]
    return [name for name in names if not named or name in named]


def tell(found: Any, noted: Path) -> None:
    """Print what was found as JSON, or with --write note it."""
    text = json.dumps(found, indent=1) + "\n"
    if "--write" in sys.argv:
        noted.write_text(text)
    else:
        sys.stdout.write(text)


def told_by(script: str, names: Iterable[str] = ()) -> Any:
    """Return what a script prints in the one arithmetic, of all names if none are given."""
    done = subprocess.run(
        [sys.executable, script, *names], env=os.environ | ARITHMETIC, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def digest(data: bytes) -> str:
    """Return the beginning of the SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()[:16]
