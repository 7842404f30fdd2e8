"""Starts, watches and ends processes by their ids, and measures their CPU time."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streamfl.errors import PeerError

TICKS = os.sysconf("SC_CLK_TCK")
LINES_OF_LOG = 8  # in an error


@dataclass(frozen=True)
class Usage:
    """CPU seconds of a process since it began."""

    seconds: float


class Process:
    """A running command with its output in a file.

    Parameters
    ----------
    command
        Words, the first one a file of this environment's or a path.
    log
        The file that takes both of its outputs.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        # With the usual compilation cache; else every start would read all sources.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        program = Path(sys.executable).parent / command[0]  # an absolute path stays what it is
        self.log = log
        self.began = time.time()
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [str(program) if program.exists() else command[0], *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        self.cpu = 0.0  # seconds in all, once it has ended

    @property
    def pid(self) -> int:
        return self._child.pid

    def require_alive(self) -> None:
        if self.has_ended():
            raise PeerError(f"{self.log.stem} has ended ({self._child.returncode}):\n{self.last_words()}")

    def has_ended(self) -> bool:
        """Tell whether it has ended, by itself or not."""
        if self._child.returncode is None:
            pid, status, used = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self._child.returncode = os.waitstatus_to_exitcode(status)
                self.cpu = used.ru_utime + used.ru_stime
        return self._child.returncode is not None

    def wait(self, seconds: float) -> None:
        """Wait until it has ended by itself, as it should: with exit code 0."""
        until = time.monotonic() + seconds
        while not self.has_ended():
            if time.monotonic() > until:
                raise PeerError(f"{self.log.stem} has not ended within {seconds:.0f} s:\n{self.last_words()}")
            time.sleep(0.01)
        if self._child.returncode:
            raise PeerError(f"{self.log.stem} has failed ({self._child.returncode}):\n{self.last_words()}")

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        if not self.has_ended():
            self._child.kill()
            self._reap(10.0)

    def stop(self) -> None:
        """Ask it to end, and kill it if it does not."""
        if not self.has_ended():
            self._child.terminate()
            self._reap(15.0)
        self.kill()

    def _reap(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.has_ended() and time.monotonic() < until:
            time.sleep(0.005)

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LINES_OF_LOG:])

    def usage(self) -> Usage:
        """Return its CPU time so far."""
        return Usage(self.cpu if self.has_ended() else _seconds(Path(f"/proc/{self.pid}/stat")))


def _seconds(stat: Path) -> float:
    """Return the user and system time of a process, its children not counted."""
    after_name = stat.read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS
