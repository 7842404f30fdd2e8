"""A client of a Schema Registry as Confluent's: the schema of an id, fetched once."""

import base64
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from streamfl.errors import UsageError
from streamfl.runtime.no_redirects import open_directly

KEPT = 1000  # schemas, good and bad
LARGEST = 1024 * 1024  # bytes of an answer
PATIENCE = 30.0  # seconds until a registry that does not answer stops the process
_ONE_ANSWER = 10.0  # seconds
_T = TypeVar("_T")


class NoSchemaError(Exception):
    """There is no schema of an id that can be used: messages with it cannot be read."""


class Schema(msgspec.Struct, frozen=True):
    """What a registry answers."""

    schema: str
    schemaType: str = "AVRO"  # noqa: N815  the registry's name
    references: list[Any] = []


@dataclass(slots=True)
class SchemaRegistry:
    """The schemas of a registry.

    Raises
    ------
    UsageError
        The address is none.
    """

    url: str  # where it is; a name and a password before the host are sent as basic authentication
    _open: Any = field(init=False)
    _headers: dict[str, str] = field(init=False)
    _place: str = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError("registry: give an address such as http://registry:8081")
        self._place = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self._open = open_directly

    def fetched(self, number: int, form: str = "") -> Schema:
        """Return the schema of an id, in a form that the registry may know.

        Raises
        ------
        NoSchemaError
            There is none, or the answer cannot be used.
        UsageError
            The registry has not answered for `PATIENCE` seconds, or asks for another log-in. No record is lost.
        """
        address = f"{self._place}/schemas/ids/{number}{f'?format={form}' if form else ''}"
        end, wait = time.monotonic() + PATIENCE, 0.1
        while True:
            try:
                return self._answer(address, number)
            except urllib.error.HTTPError as error:
                if error.code in {401, 403}:
                    what = f"the registry {self._place} refuses the log-in ({error.code})"
                    raise UsageError(f"{what}; correct it in records.registry") from None
                if error.code < 500 and error.code not in {408, 429}:
                    raise NoSchemaError(f"the registry has no schema {number} ({error.code})") from None
                why = str(error.code)
            except OSError as error:  # also of a connection that ends too early
                why = str(getattr(error, "reason", error))
            if time.monotonic() + wait > end:
                what = f"the registry {self._place} has not answered for {PATIENCE:.0f} seconds ({why})"
                raise UsageError(f"{what}; start it, or correct records.registry")
            time.sleep(wait)
            wait = min(2 * wait, 5.0)

    def _answer(self, address: str, number: int) -> Schema:
        request = urllib.request.Request(address, headers=self._headers)  # noqa: S310  http or https, as checked
        end, data = time.monotonic() + _ONE_ANSWER, b""
        with self._open(request, timeout=_ONE_ANSWER) as answer:
            while more := answer.read1(65_536):
                data += more
                if len(data) > LARGEST or time.monotonic() > end:
                    raise NoSchemaError(f"the answer for schema {number} is too large, or takes too long")
        try:
            schema = msgspec.json.decode(data, type=Schema)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise NoSchemaError(
                f"the answer for schema {number} does not come from a Schema Registry ({error})"
            ) from None
        if schema.references:
            raise NoSchemaError(f"schema {number} refers to other schemas, which is not supported")
        return schema


@dataclass(slots=True)
class KeptSchemas(Generic[_T]):
    """The newest `KEPT` values by number.

    >>> kept = KeptSchemas()
    >>> for number in range(KEPT + 1): kept.put(number, str(number))
    >>> kept.get(0), kept.get(1000)
    (None, '1000')
    """

    _values: OrderedDict[int, _T] = field(default_factory=OrderedDict)

    def get(self, number: int) -> _T | None:
        """Return a value, None if there is none."""
        return self._values.get(number)

    def put(self, number: int, value: _T) -> None:
        """Keep a value, and forget the oldest if there are too many."""
        self._values[number] = value
        if len(self._values) > KEPT:
            self._values.popitem(last=False)
