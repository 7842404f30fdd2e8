"""Arguments of `streamfl bench`: lists, and places of files."""

from pathlib import Path

from streamfl.errors import UsageError


def names(flag: str, text: str) -> tuple[str, ...]:
    """Return a list of names, each once.

    >>> names("--method", "paper, adaptive,paper")
    ('paper', 'adaptive')
    """
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not found:
        raise UsageError(f"{flag} is empty; give at least one name")
    return found


def numbers(flag: str, text: str) -> tuple[int, ...]:
    """Return a list of whole numbers, at least 0.

    >>> numbers("--seeds", "1,2,3")
    (1, 2, 3)
    """
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{flag} {text}: not a list of whole numbers; write 1,2,3") from None
    if min(found) < 0:
        raise UsageError(f"{flag} {text}: a negative number; give 0 or more")
    return found


def check_place(path: Path | None) -> None:
    """Check before a long run that its output file can be written."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise UsageError(f"{path}: cannot be written there; name a file in a directory that exists")


def write(path: Path | None, text: str | None) -> None:
    """Write a text, if there is one and a place for it."""
    if path is None or text is None:
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
