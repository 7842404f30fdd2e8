"""Reads the lines of a text file, which must be UTF-8."""

from collections.abc import Iterator
from typing import Protocol

from streamfl.records.request import Request

# Bytes of a line: the default limit of a message in a log.
LONGEST = 1024 * 1024

# Bytes of lines that are held at a time, and one line more: blocks of long lines have fewer.
MOST_HELD = 32 * LONGEST


class Lines(Protocol):
    """A file that is read line by line."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, of at most so many bytes."""
        ...


def whole_lines(stream: Lines) -> Iterator[bytes | None]:
    r"""Yield the lines of a stream with their line ends; None for a line that is too long, which is skipped.

    >>> import io
    >>> [line and len(line) for line in whole_lines(io.BytesIO(b"a\n" + b"x" * 3_000_000 + b"\nb"))]
    [2, None, 1]
    """
    while line := stream.readline(LONGEST):
        if len(line) < LONGEST or line.endswith(b"\n"):
            yield line
            continue
        while (rest := stream.readline(LONGEST)) and not rest.endswith(b"\n"):
            pass
        yield None


def decoded(request: Request, number: int, raw: bytes) -> str:
    r"""Decode line `number` of a file, without the byte order mark that some programs write.

    Raises
    ------
    UsageError
        If the line is not UTF-8; the message has its number.

    >>> decoded(Request("a.csv"), 1, b"\xef\xbb\xbfwidth,y\n")
    'width,y\n'
    """
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        what = f"line {number}, byte {error.start + 1} is not UTF-8"
        raise request.refusal(what, "save the file as UTF-8") from None
