"""Reads the lines of a text file, which must be UTF-8."""

import codecs
import io
import re
from collections.abc import Iterator
from typing import Protocol

from streamfl.records.request import Request
from streamfl.records.values.cells import quoted

# Bytes of a line: the default limit of a message in a log.
LONGEST = 1024 * 1024

# Bytes of lines that are held at a time, and one line more: blocks of long lines have fewer.
MOST_HELD = 32 * LONGEST


class Lines(Protocol):
    """A file that is read line by line."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, of at most this many bytes."""
        ...


def whole_lines(stream: Lines) -> Iterator[bytes | None]:
    r"""Yield the lines of a stream with their line ends; None for a line that is too long, which is skipped.

    >>> import io
    >>> [line and len(line) for line in whole_lines(io.BytesIO(b"a\n" + b"x" * 3_000_000 + b"\nb"))]
    [2, None, 1]
    """
    while line := stream.readline(LONGEST):
        if len(line) < LONGEST or line.endswith(b"\n"):
            yield line.removeprefix(codecs.BOM_UTF8)  # of a file that others were appended to
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
        return raw.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        what = f"line {number}, byte {error.start + 1} is not UTF-8"
        found = _in_windows(raw)
        remedy = f", or add --encoding cp1252, which reads {quoted(found)} there" if found else ""
        raise request.refusal(what, f"save the file as UTF-8{remedy}") from None


def _in_windows(raw: bytes) -> str:
    """Return the word around the first byte that is not ASCII, as Windows writes it in Western languages."""
    try:
        text = raw.decode("cp1252")
    except UnicodeDecodeError:
        return ""
    found = re.search(r"\w*[^\x00-\x7f]\w*", text)
    return found[0] if found else ""


def recoded(request: Request, stream: Lines) -> "Begun":
    r"""Return a text file as UTF-8: by the encoding that the user named, or by its byte order mark.

    Raises
    ------
    UsageError
        There is no such encoding, or the file looks like UTF-16 and does not say which.

    >>> import io
    >>> recoded(Request("a.csv"), io.BytesIO("größe\n1\n".encode("utf-16"))).readline().decode()
    'größe\n'
    >>> recoded(Request("a.csv", encoding="cp1252"), io.BytesIO(b"gr\xf6\xdfe\n")).readline().decode()
    'größe\n'
    """
    begin = stream.readline(4)
    whole = Begun(begin, stream)
    encoding = request.encoding
    if encoding is None:
        if not begin.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            if b"\0" in begin[:2]:
                is_big = begin.startswith(b"\0")
                raise request.refusal("it looks like UTF-16", f"add --encoding utf-16-{'be' if is_big else 'le'}")
            return whole
        encoding = "utf-16"
    try:
        info = codecs.lookup(encoding)
        "".encode(encoding)
    except LookupError:
        remedy = "name one such as utf-8, cp1252, iso-8859-15 or utf-16"
        raise request.refusal(f"there is no encoding {encoding!r}", remedy) from None
    return whole if info.name in {"utf-8", "utf-8-sig"} else Begun(b"", _Recoded(request, whole, info))


class Begun:
    r"""A file whose first bytes have been read, and can be given back.

    >>> import io
    >>> file = Begun(b"a\nb", io.BytesIO(b"c\nd\n"))
    >>> file.readline(), file.read(2), file.unread(b"bc"), file.readline(), file.read(9), file.read(9)
    (b'a\n', b'bc', None, b'bc\n', b'd\n', b'')
    """

    def __init__(self, begin: bytes, rest: Lines) -> None:
        self._begin, self._rest = io.BytesIO(begin), rest

    def unread(self, data: bytes) -> None:
        """Give bytes back, to be read again."""
        self._begin = io.BytesIO(data + self._begin.read())

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, of at most this many bytes."""
        begin = self._begin.readline(size)
        if begin.endswith(b"\n") or len(begin) == size:
            return begin
        return begin + self._rest.readline(size if size < 0 else size - len(begin))

    def read(self, size: int) -> bytes:
        """Return this many bytes or a little more, fewer at the end of the file."""
        parts, missing = [self._begin.read(size)], size
        while (missing := missing - len(parts[-1])) > 0:
            more = self._more(missing)
            if not more:
                break
            parts.append(more)
        return b"".join(parts)

    def _more(self, size: int) -> bytes:
        read = getattr(self._rest, "read", None)
        return self._rest.readline(LONGEST) if read is None else read(size)


class _Recoded:
    """A file in another encoding, line by line as UTF-8."""

    def __init__(self, request: Request, stream: Lines, info: codecs.CodecInfo) -> None:
        self._request, self._stream, self._name = request, stream, info.name
        self._decoder = info.incrementaldecoder() if info.incrementaldecoder else None
        self._held, self._number, self._ended = b"", 1, False

    def readline(self, size: int = -1, /) -> bytes:
        while not self._ended and b"\n" not in self._held and not 0 <= size <= len(self._held):
            self._held += self._more()
        end = self._held.find(b"\n") + 1 or len(self._held)
        end = end if size < 0 else min(end, size)
        line, self._held = self._held[:end], self._held[end:]
        self._number += line.endswith(b"\n")
        return line.removeprefix(codecs.BOM_UTF8)

    def _more(self) -> bytes:
        raw = self._stream.readline(LONGEST)
        self._ended = not raw
        try:
            text = raw.decode(self._name) if self._decoder is None else self._decoder.decode(raw, final=self._ended)
            return text.encode()
        except UnicodeError as error:
            what = f"near line {self._number} it is not {self._name}: {error}"
            raise self._request.refusal(what, "correct --encoding, or save the file as UTF-8") from None
