"""The lines of a text file, which must be UTF-8."""

from collections.abc import Iterable, Iterator

from streamfl.streams.request import Request


def lines(request: Request, stream: Iterable[bytes]) -> Iterator[str]:
    r"""Yield the lines of a stream with their ends, without the byte order mark that some programs write first.

    Raises
    ------
    UsageError
        At the first line that is not UTF-8; it is named by its number.

    >>> import io
    >>> list(lines(Request("a.csv"), io.BytesIO(b"\xef\xbb\xbfwidth,y\n1,0\n")))
    ['width,y\n', '1,0\n']
    """
    for number, raw in enumerate(stream, start=1):
        yield decoded(request, number, raw)


def decoded(request: Request, number: int, raw: bytes) -> str:
    """Return one line, the `number`-th of its file, as text: see `lines`."""
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        what = f"line {number}, byte {error.start + 1} is not UTF-8"
        raise request.refusal(what, "save the file as UTF-8") from None
