"""A child process that ends with this process, even if this process is killed."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

# Reads until its input closes, which also happens when this process is killed; then it ends the child. The system's
# own signal for this (PDEATHSIG) comes when the *thread* that started the child ends, and only on Linux.
GUARD = 'read -r _; kill -TERM "$1"'


class Child:
    """A running process in a session of its own: Ctrl-C reaches only this process, which then ends it in order.

    Parameters
    ----------
    command
        The command.
    folder
        Its working directory.
    log
        The file to which its output is appended.
    """

    def __init__(self, command: Sequence[str], *, folder: Path, log: Path) -> None:
        with log.open("ab") as output:
            self.process = subprocess.Popen(  # noqa: S603  the caller's command, no shell
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard = subprocess.Popen(  # noqa: S603  a constant script and a process id
            ["/bin/sh", "-c", GUARD, "sh", str(self.process.pid)], stdin=subprocess.PIPE, start_new_session=True
        )

    def is_alive(self) -> bool:
        """Tell whether it still runs."""
        return self.process.poll() is None

    def stop(self, patience: float = 15.0) -> None:
        """Ask it to end; kill it if it has not ended after so many seconds."""
        self.process.terminate()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # Last: if this process is killed while it waits, the guard still ends the child.
        self._guard.kill()
        self._guard.communicate()
