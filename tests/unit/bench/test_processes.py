"""Processes of a benchmark that is killed end with it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SLEEPS = """
import os, time
from streamfl_benchmarks.processes import pool

if __name__ == "__main__":
    with pool(1) as executor:
        print(executor.submit(os.getpid).result(), flush=True)
        time.sleep(600)
"""


@pytest.mark.process
def test_where_the_parent_was_killed_its_processes_end(tmp_path: Path) -> None:
    script = tmp_path / "sleeps.py"
    script.write_text(SLEEPS)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) != parent.pid
        os.kill(parent.pid, signal.SIGKILL)
        # Its process has the same standard output, which is at its end when the last of them has ended.
        assert parent.communicate(timeout=120)[0] == ""
