"""A copy of the project in which it may be changed, with an environment of its own, so that every process runs it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

# Times for changed files: Python keeps compiled modules by the seconds and the size of their source, and two changes
# in one second may have the same size.
_TIMES = count(1_000_000_000)

# What the name of a file ends in that holds the text before a change.
BEFORE = ".before"

# What git does not have, and tests use.
BESIDE = (".kafka",)


def make(root: Path, copy: Path) -> None:
    """Copy all files that git has or would add, and link the environment's packages."""
    shutil.rmtree(copy, ignore_errors=True)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (root / name).exists():  # else it was deleted, and git does not know it yet
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name)
    for name in BESIDE:
        if (root / name).exists():
            (copy / name).symlink_to((root / name).resolve())
    if (root / ".numba_cache").exists():
        shutil.copytree(root / ".numba_cache", copy / ".numba_cache")
    _link_environment(root, copy)


def _link_environment(root: Path, copy: Path) -> None:
    """Make an environment of the same packages, in which the project is the copy.

    So a process that a test starts runs the copy, too, whatever it does with the environment's variables.
    """
    before, after = root / ".venv", copy / ".venv"
    packages = next((before / "lib").glob("python*/site-packages"))
    there = after / packages.relative_to(before)
    there.mkdir(parents=True)
    for entry in packages.iterdir():
        if entry.suffix == ".pth":
            (there / entry.name).write_text(entry.read_text().replace(str(root), str(copy)))
        else:
            (there / entry.name).symlink_to(entry.resolve())
    (after / "bin").mkdir()
    for entry in (before / "bin").iterdir():
        if entry.is_symlink():
            (after / "bin" / entry.name).symlink_to(entry.readlink())
        elif not entry.is_dir():
            text = entry.read_bytes().replace(str(root).encode(), str(copy).encode())
            (after / "bin" / entry.name).write_bytes(text)
            shutil.copymode(entry, after / "bin" / entry.name)
    (after / "pyvenv.cfg").write_text((before / "pyvenv.cfg").read_text().replace(str(root), str(copy)))


def python_of(copy: Path) -> Path:
    """Return the interpreter of a copy."""
    return copy / ".venv" / "bin" / "python"


def packages_of(copy: Path) -> Path:
    """Return the folder of a copy's packages."""
    return next((copy / ".venv" / "lib").glob("python*/site-packages"))


@contextmanager
def written(file: Path, text: str) -> Iterator[None]:
    """Let a file of the copy have another text."""
    shutil.copy2(file, _before(file))
    try:
        file.write_text(text, encoding="utf-8")
        now = next(_TIMES)
        os.utime(file, (now, now))
        yield
    finally:
        _before(file).replace(file)


def mend(copy: Path) -> None:
    """Give the files of a copy their own texts again, after a run that was killed."""
    for folder in ("streamfl", "connectors"):
        for before in (copy / folder).rglob(f"*{BEFORE}"):
            before.replace(before.with_suffix(""))


def _before(file: Path) -> Path:
    return file.with_name(file.name + BEFORE)
