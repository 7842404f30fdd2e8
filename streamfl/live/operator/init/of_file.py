"""What `streamfl init` sees in a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from streamfl.errors import UsageError
from streamfl.live.operator.init.layout import Layout
from streamfl.live.operator.init.roles import Looked, Roles, roles_of
from streamfl.records.assembly import Blocks, RowBlock
from streamfl.records.cells import Cells, text
from streamfl.records.files.readers import blocks
from streamfl.records.request import Request
from streamfl.run.dealing.dealing import MAX_CLIENTS, USUAL_CLIENTS, usual_size

# The fewest records that a client sends anything about, by default.
LEAST = 10

ARCHIVE = ".npz"


@dataclass
class _Counted:
    """The records of a file, and their clients."""

    column: str | None
    records: int = 0
    clients: set[str] = field(default_factory=set)

    def add(self, block: RowBlock) -> None:
        self.records += block.records
        if self.column is not None and len(self.clients) <= MAX_CLIENTS:
            self.clients.update(map(text, block.features.get(self.column, ())))


def looked_at(
    request: Request, federation: str, clients: int | None, client: str | None
) -> tuple[Roles, Layout, int]:
    """Return the roles of a file's columns, the layout of a federation on it, and how many records it has.

    Parameters
    ----------
    request
        The file, and what the caller has named.
    federation
        The name of the federation.
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
        roles = roles_of(request, _looked(opened, first), client)
        counted = _Counted(client)
        for block in chain([first], opened.each):
            counted.add(block)
    return roles, _layout(request, federation, counted, clients), counted.records


def _whole(request: Request) -> Request:
    """Return the request for all columns alike, but for an archive, which has its labels in an array of their own."""
    is_archive = request.source.lower().endswith(ARCHIVE)
    label = (request.label or "y") if is_archive else None
    return Request(request.source, label, separator=request.separator, labelled=is_archive)


def _looked(opened: Blocks, block: RowBlock) -> Looked:
    label: Mapping[str, Cells] = {opened.label: block.label} if opened.label else {}
    unusable = {column.name: column.why for column in opened.left_out}
    return Looked({**block.features, **label}, unusable, last=not opened.name.lower().endswith(".jsonl"))


def _layout(request: Request, federation: str, counted: _Counted, clients: int | None) -> Layout:
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
    size = usual_size(counted.records, number, least=LEAST)
    rounds = counted.records // (number * size)
    if counted.column:
        return Layout([f"{federation}.records"], "key", number, size=size, rounds=rounds)
    return Layout([f"{federation}.records.*"], "topic", number, size=size, rounds=rounds)
