"""A process of ours that ends when we end, whatever ends us."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

# Reads until its input closes, as it does when we are gone, even killed; then it ends the child. The system's own
# signal for this (PDEATHSIG) comes when the *thread* that started the child ends, and on Linux only.
GUARD = 'read -r _; kill -TERM "$1"'


class Child:
    """A running process, in a session of its own: Ctrl-C in the terminal reaches us only, and we end it in order.

    Parameters
    ----------
    command
        What to run.
    folder
        Where to run it.
    log
        The file to which what it says is added.
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
        """Return whether it still runs."""
        return self.process.poll() is None

    def stop(self, patience: float = 15.0) -> None:
        """Ask it to end; kill it when it has not after so many seconds."""
        self.process.terminate()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # Last: if we are killed while we wait, the guard is still there.
        self._guard.kill()
        self._guard.communicate()
