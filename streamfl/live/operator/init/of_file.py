"""What `streamfl init` sees in a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from streamfl.bounds import is_name
from streamfl.errors import UsageError
from streamfl.live.operator.init.doubted import doubted, has_commas
from streamfl.live.operator.init.layout import RecordsLayout
from streamfl.live.operator.init.roles import Looked, Roles, roles_of
from streamfl.records.assembly import Blocks, RowBlock
from streamfl.records.columns import TextColumn
from streamfl.records.files.known import FILE_FORMATS, ending
from streamfl.records.files.readers import blocks
from streamfl.records.request import Request
from streamfl.records.values.cells import NAMES, Cells, words
from streamfl.run.dealing.dealing import MAX_CLIENTS, USUAL_CLIENTS, usual_size

# Minimum number of records about which a client sends anything, by default.
LEAST = 10


@dataclass
class _Counted:
    """The records of a file, and their clients."""

    column: str | None
    records: int = 0
    clients: set[str] = field(default_factory=set)

    def add(self, block: RowBlock) -> None:
        self.records += block.records
        if self.column is not None and len(self.clients) <= MAX_CLIENTS:
            self.clients.update(words(block.features.get(self.column, ()), NAMES))


def looked_at(
    request: Request, federation: str, clients: int | None, client: str | None
) -> tuple[Request, Roles, RecordsLayout, int]:
    """Return how records are read, the roles of columns, the layout of a federation, and how many records there are.

    Parameters
    ----------
    clients
        The number of clients that records are dealt to; None: 10.
    client
        The column that names the client of a record.

    Raises
    ------
    UsageError
        The file or a column cannot be used, or there are too few records for so many clients.
    """
    if client is not None and clients is not None:
        raise UsageError(
            "give either --clients, which divides the records, or --client, which names the column of their clients"
        )
    with blocks(_whole(request)) as opened:
        first = next(opened.each, None)
        if first is None or not first.records:
            raise request.refusal("it has no records", "give a file with at least one")
        if not len(first.places):
            raise request.refusal(f"none of its first records can be read; {first.rejected[0].reason}", "correct it")
        looked = _looked(opened, first)
        request, roles = _doubted(request, roles_of(request, looked, client), looked.fields, client)
        counted = _Counted(client)
        texts = [TextColumn(name, values, request.reading) for name, values in roles.categories.items()]
        for block in chain([first], opened.each):
            counted.add(block)
            texts = [column.followed(block.features.get(column.name, ())) for column in texts]
    roles = replace(roles, categories={column.name: _declared(column) for column in texts})
    return request, roles, _layout(request, federation, counted, clients), counted.records


def _doubted(
    request: Request, roles: Roles, fields: Mapping[str, Cells], client: str | None
) -> tuple[Request, Roles]:
    """Leave out counters, and add usual codes to the missing values, as `read` does of the file."""
    as_read = replace(request, decimal=",") if has_commas(request, fields) else request
    owners = words(fields[client], NAMES) if client is not None else ()
    found, roles = doubted(as_read, roles, fields, owners)
    return replace(request, missing_values=found.missing_values), roles


def _declared(column: TextColumn) -> tuple[str, ...]:
    """Return the values of a text that can be features, whenever they first came."""
    return tuple(sorted(value for value in column.values if is_name(f"{column.name}={value}")))


def _whole(request: Request) -> Request:
    """Return the request for all columns alike; labels that a file keeps apart from its columns stay labels."""
    own_label = own_label_of(request.source)
    label = request.label or own_label if own_label else None
    return replace(request, label=label, drop=(), time=None, labelled=own_label is not None)


def own_label_of(source: str) -> str | None:
    """Return the name of a file's labels if it keeps them apart from its columns, else None."""
    known = ending(source)
    return None if known is None else FILE_FORMATS[known].label


def _looked(opened: Blocks, block: RowBlock) -> Looked:
    label: Mapping[str, Cells] = {opened.label: block.label} if opened.label else {}
    unusable = {column.name: column.why for column in opened.left_out}
    return Looked({**block.features, **label}, unusable, last=_is_ordered(opened.name))


def _is_ordered(name: str) -> bool:
    """Tell whether the last column of a file may be its label."""
    known = ending(name)
    return known is None or FILE_FORMATS[known].ordered


def _layout(request: Request, federation: str, counted: _Counted, clients: int | None) -> RecordsLayout:
    number = len(counted.clients) if counted.column else clients or min(USUAL_CLIENTS, counted.records // LEAST)
    if number > MAX_CLIENTS:
        raise request.refusal(
            f"column {counted.column!r} has more than {MAX_CLIENTS} values, and each value is a client",
            "name another one",
        )
    if not number or counted.records < LEAST * number:
        what = (
            f"it has {counted.records} records for {max(number, 1)} clients, and a client sends nothing about fewer"
        )
        raise request.refusal(f"{what} than {LEAST}", "give more records, or fewer --clients")
    size = usual_size(counted.records, number, min_records=LEAST)
    rounds = counted.records // (number * size)
    if counted.column:
        return RecordsLayout([f"{federation}.records"], "field", number, size=size, rounds=rounds)
    return RecordsLayout([f"{federation}.records.*"], "topic", number, size=size, rounds=rounds)
