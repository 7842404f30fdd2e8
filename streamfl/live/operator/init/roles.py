"""What each field of some records is: label, time, category, or of no use; named by the caller, else guessed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streamfl.bounds import is_name
from streamfl.errors import UsageError
from streamfl.records.columns import SAMPLE, TIMES, Column, LeftOutColumn, NumberColumn, TextColumn, infer
from streamfl.records.labels import LabelTexts, doubt, resolve
from streamfl.records.request import LABEL_NAMES, Request, check_names
from streamfl.records.values.cells import Cells, listed, quoted, text
from streamfl.records.values.dates import Order
from streamfl.records.values.day_and_clock import joined, pair
from streamfl.records.values.times import of_cells

# The share of times that may be something else.
STRAY = 0.05

# Names of fields that name a record and tell nothing of it, if every record has another value.
KEYS = ("id", "uuid", "guid", "key")


# What to do about records without the label.
LATER = "; if labels come later, in a topic of their own, name that with --labels"


@dataclass(frozen=True, slots=True)
class Looked:
    """The fields of some records."""

    fields: Mapping[str, Cells]  # the cells of each field; those of the label may come from other messages
    # Fields without cells, since these can be neither numbers nor texts, with the reason.
    unusable: Mapping[str, str] = field(default_factory=dict)
    last: bool = False  # whether the last field is the label if none has a usual name

    # Whether the cells are those of messages: a reader takes their times as they are. Those of a file are converted
    # when it is written to the log.
    as_messages: bool = False


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles of fields."""

    label: str
    guessed: str  # why it is taken to be the label; "" if the caller has named it
    labels: tuple[str, ...]  # the labels that were seen; empty in regression
    # The fields with these roles; None: no field.
    client: str | None
    time: str | None
    categories: Mapping[str, tuple[str, ...]]  # the values of each field of texts
    drop: Mapping[str, str]  # the fields to leave out, with the reason
    features: tuple[str, ...]  # the fields of numbers
    notes: tuple[str, ...] = ()  # what the user should look at
    # The order of day, month and year in the times, where it is named or only the column shows it.
    date_order: Order | None = None

    @property
    def task(self) -> str:
        """Return the task that the labels are for."""
        return "classification" if self.labels else "regression"


def roles_of(request: Request, looked: Looked, client: str | None = None) -> Roles:
    """Return the roles of the fields of some records.

    Raises
    ------
    UsageError
        A field that is named does not exist, no field can be the label, or no field is a feature.

    Examples
    --------
    >>> fields = {"id": [7, 8], "when": ["2026-11-25", "2026-11-26"], "hue": ["red", "blue"], "x": [1, 2]}
    >>> roles = roles_of(Request("a.jsonl"), Looked(fields | {"state.label": ["on", "off"]}))
    >>> roles.label, roles.labels, roles.time, dict(roles.categories), roles.features
    ('state.label', ('off', 'on'), 'when', {'hue': ('blue', 'red')}, ('x',))
    >>> roles.drop
    {'id': 'names the record: another value in each'}
    """
    every = [*looked.fields, *looked.unusable]
    check_names(request, every)
    if client is not None and client not in looked.fields:
        raise request.refusal(f"no field {client!r}; there are {listed(every)}", "correct --client")
    label, guessed = _label(request, looked, client)
    labels, remark = _labels(request, label, looked.fields[label])
    kept = {name: cells for name, cells in looked.fields.items() if name not in {label, client, *request.drop}}
    rest = {name: _without_strays(name, cells) for name, cells in kept.items()}
    drop = dict.fromkeys(request.drop, "as --drop says") | _of_no_use(request, rest) | dict(looked.unusable)
    request = replace(request, time=request.time or _time(request, rest, drop, looked))
    times = request.times
    columns = {name: _inferred(request, name, cells) for name, cells in rest.items() if name not in {*drop, *times}}
    drop |= {name: column.why for name, column in columns.items() if isinstance(column, LeftOutColumn)}
    if looked.as_messages:  # each is read by itself, and nothing says in which unit
        with_unit = [
            name for name, column in columns.items() if isinstance(column, NumberColumn) and column.reading.unit
        ]
        drop |= {name: f"has texts such as {quoted(rest[name][0])}: write numbers" for name in with_unit}
    texts = {name: column for name, column in columns.items() if isinstance(column, TextColumn)}
    categories = {name: tuple(sorted(column.followed(rest[name]).values)) for name, column in texts.items()}
    features = tuple(name for name in columns if name not in {*drop, *categories})
    if not features and not categories:
        raise request.refusal("no field besides the label is a number or a category", "give records at least one")
    drop = {name: why for name, why in drop.items() if name not in times}
    wrong, order = dict[int, str](), None
    if request.time is not None and rest.keys() >= {*times}:
        wrong, order = _read_times(request, request.time, joined([rest[name][:SAMPLE] for name in times]))
    notes = (*remark, *_unread(request.time, wrong))
    order = request.notation.order or (order if looked.as_messages else None)
    return Roles(label, guessed, labels, client, request.time, categories, drop, features, notes, order)


def _label(request: Request, looked: Looked, client: str | None) -> tuple[str, str]:
    """Return the label, and why it is taken to be that."""
    if request.label is not None:
        return request.label, ""
    fields = [name for name in looked.fields if name not in {*request.excluded, client}]
    whole = {name: name.lower() for name in fields}
    inner = {name: name.rpartition(".")[2].lower() for name in fields}
    for called in (whole, inner):
        for usual in LABEL_NAMES:
            if found := [name for name in fields if called[name] == usual]:
                return found[0], "by its name"
    if looked.last and fields:
        return fields[-1], "as the last column"
    remedy = "name it with --label" + (LATER if looked.as_messages else "")
    raise request.refusal(f"no field is named like a label among {listed(fields)}", remedy)


def _labels(request: Request, label: str, cells: Cells) -> tuple[tuple[str, ...], list[str]]:
    """Return the labels of a classification, () of a regression; and a remark if they look wrong."""
    values = [*_without_strays("", cells)]
    if any(isinstance(value, list) for value in values):
        raise request.refusal(f"the label {label!r} holds lists", "name another one with --label")
    seen = LabelTexts(reading=request.reading)
    codes, _ = seen.add(values)
    if not (codes >= 0).any():
        raise request.refusal(f"no record has a value in the label {label!r}", "name another one with --label")
    _, labels = resolve(request, seen, codes[codes >= 0])
    remark = doubt(label, labels, codes[codes >= 0]) if labels else ""
    return labels, [remark] if remark else []


def _without_strays(name: str, cells: Cells) -> Cells:
    """Return cells without a few lists and long texts among others: each is a missing value of its own record."""
    if isinstance(cells, np.ndarray):
        return cells
    values = list(cells)
    stray = [
        isinstance(value, list) or (isinstance(value, str) and not is_name(f"{name}={value}")) for value in values
    ]
    if 2 * sum(stray) > sum(value is not None for value in values):
        return values
    return [None if one else value for one, value in zip(stray, values, strict=True)]


def _of_no_use(request: Request, fields: Mapping[str, Cells]) -> dict[str, str]:
    """Return the fields that would make their records bad, or only name them, with the reason."""
    reasons = {name: _why_of_no_use(request, name, cells[:SAMPLE]) for name, cells in fields.items()}
    return {name: why for name, why in reasons.items() if why}


def _why_of_no_use(request: Request, name: str, cells: Cells) -> str:
    if not is_name(name):
        return "has too long a name"
    values = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    if any(isinstance(value, list) for value in values):
        return "holds lists"
    words = [word for word in map(text, values) if word]
    if _names_a_key(name) and len(words) > 1 and len(set(words)) == len(words):
        return "names the record: another value in each"
    column = _inferred(request, name, values)
    long = isinstance(column, TextColumn) and any(not is_name(f"{name}={value}") for value in column.values)
    return "holds texts that are too long for a category" if long else ""


def _inferred(request: Request, name: str, cells: Cells) -> Column | None:
    """Return the kind of a field; one of an inner object looks like a time by its own name, whatever is around it."""
    return infer(name.rpartition(".")[2], cells, request.reading)


def _names_a_key(name: str) -> bool:
    """Tell whether a name is that of a key.

    >>> [_names_a_key(name) for name in ("id", "meta.record_id", "orderId", "humid", "width")]
    [True, True, True, False, False]
    """
    leaf = name.rpartition(".")[2]
    return leaf.lower() in KEYS or leaf.endswith(("_id", "-id", "Id", "_uuid", "_key"))


def _time(request: Request, fields: Mapping[str, Cells], drop: Mapping[str, str], looked: Looked) -> str | None:
    """Return the first field of times, with that of the times of day if it has only days; None if there is none."""
    found = next(_times(request, fields, drop, looked), None)
    both = pair({name: cells for name, cells in fields.items() if name not in drop})
    return ",".join(both) if both is not None and both[0] == found else found


def _times(request: Request, fields: Mapping[str, Cells], drop: Mapping[str, str], looked: Looked) -> Iterator[str]:
    """Yield the fields that look like times and can be read."""
    for name, cells in fields.items():
        if name in drop:
            continue
        wrong = _read_times(request, name, cells)[0]
        if len(wrong) > STRAY * len(cells[:SAMPLE]):
            continue
        good = [cell for at, cell in enumerate(cells[:SAMPLE]) if at not in wrong]
        column = _inferred(request, name, good)
        if isinstance(column, LeftOutColumn) and column.why == TIMES:
            yield name
    yield from (name for name, why in looked.unusable.items() if why == TIMES)


def _read_times(request: Request, name: str, cells: Cells) -> tuple[dict[int, str], Order | None]:
    """Return the errors of a column of times, and the order of day, month and year in it."""
    try:
        _, column = of_cells(name, cells[:SAMPLE], request.notation)
    except UsageError as error:
        return {0: str(error)}, None
    return column.wrong[0], column.order


def _unread(time: str | None, wrong: Mapping[int, str]) -> Sequence[str]:
    if not wrong:
        return []
    return [f"{time}: {len(wrong)} times cannot be read; the reason for the first one: {wrong[min(wrong)]}"]
