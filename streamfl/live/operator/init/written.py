"""A settings file as text, with a comment on each choice."""

import json
from collections.abc import Iterator, Mapping
from textwrap import wrap

from streamfl.live.operator.init.layout import WANTED, RecordsLayout
from streamfl.live.operator.init.roles import Roles
from streamfl.records.request import Request
from streamfl.records.values.cells import quoted
from streamfl.records.values.times import PLAIN

# Labels and features that a comment lists.
SHOWN, FEATURES = 8, 100


def settings_file(
    federation: str,
    seen: str,
    roles: Roles,
    layout: RecordsLayout,
    request: Request,
    section: tuple[str, Mapping[str, object]],
) -> str:
    """Return the settings of a federation as TOML.

    Parameters
    ----------
    section
        The name of the connector's table, and its settings.
    """
    tables = (
        [
            f"# A federation on the records of {seen}, written by `streamfl init`.",
            "# `streamfl settings` explains each setting, and lists all others. `streamfl check` tries",
            "# this file on the brokers.",
        ],
        _federation(federation, roles, layout),
        _rounds(layout),
        _records(layout, request),
        _fields(roles, request) if layout.format == "json" else [],
        _categories(roles),
        _labels(roles, layout) if layout.format == "json" else [],
        [f"[{section[0]}]", *(f"{key(name)} = {value(it)}" for name, it in section[1].items())],
    )
    texts = ("\n".join(lines) for lines in tables)
    return "\n\n".join(text for text in texts if text) + "\n"


def _federation(name: str, roles: Roles, layout: RecordsLayout) -> Iterator[str]:
    yield "[federation]"
    yield f"name = {value(name)}  # its topics' names begin with it, such as {name}.control"
    yield f"min_clients = {layout.min_clients}  # number of clients that must have joined before round 1 opens"
    shown = [quoted(label)[1:-1] for label in roles.labels]
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    what = (
        f"labels seen: {', '.join(shown[:SHOWN])}{more}" if shown else "the labels are numbers with a fractional part"
    )
    yield f"task = {value(roles.task)}  # {what}"


def _rounds(layout: RecordsLayout) -> Iterator[str]:
    yield "[rounds]"
    if layout.size is not None:
        yield 'clock = "records"  # for a recorded stream: the same records give the same model'
        yield f"size = {layout.size}  # records of a client in a round, of which there are about {layout.rounds}"
        yield "deadline = 0.0  # a round waits for all clients; leave these three lines out for live sensors"
        return
    yield "# A round closes every so many seconds, also if a client has fallen silent. For a model that is the same"
    yield '# to the last byte, even if processes are killed: clock = "records", deadline = 0.0 (docs/kafka.md).'
    yield "# Each reaction takes a multiple of interval: a drift is told after one or two rounds, stalled after ten."
    if layout.interval is None:
        yield "interval = 10.0  # seconds; it is not known how fast records come"
        return
    per_second = f"a client has about {layout.rate:.3g} records a second, and {WANTED} are wanted"
    yield f"interval = {layout.interval}  # seconds: {per_second}"


def _records(layout: RecordsLayout, request: Request) -> Iterator[str]:
    yield "[records]"
    yield f"topics = {value(list(layout.topics))}"
    what = {
        "topic": "each topic is a client, of the name that * stands for",
        "partition": "each partition is a client",
        "message-key": "each key of messages is a client",
        "field": "each value of the field fields.client is a client",
    }[layout.clients]
    yield f"clients = {value(layout.clients)}  # {what}"
    if layout.partitions is not None:
        yield (
            f"partitions = {layout.partitions}  # of each topic; if a topic has another number, processes refuse "
            "to start"
        )
    if layout.format == "packed":
        yield 'format = "packed"  # many records per message, which name their fields themselves'
    if request.missing_values:
        yield f"missing_values = {value(list(request.missing_values))}"
    if request.decimal is not None:
        yield f"decimal = {value(request.decimal)}  # the decimal mark of numbers that are texts"


def _fields(roles: Roles, request: Request) -> Iterator[str]:
    yield "[records.fields]"
    guess = f"  # guessed {roles.guessed}; another one: --label" if roles.guessed else ""
    yield f"label = {value(roles.label)}{guess}"
    if roles.client is not None:
        yield f"client = {value(roles.client)}"
    if roles.time is not None:
        yield f"time = {value(roles.time)}  # when the record was measured; not a feature"
        if request.notation.zone != PLAIN.zone:
            yield f"timezone = {value(request.notation.zone)}  # of times that name none"
        if roles.date_order is not None:
            yield f"date_order = {value(roles.date_order)}  # of day, month and year in it"
    more = f" and {len(roles.features) - FEATURES} more" if len(roles.features) > FEATURES else ""
    names = ", ".join(quoted(name)[1:-1] for name in roles.features[:FEATURES])
    so_far = f"Features are all other numbers, {len(roles.features)} so far: {names}{more}"
    yield from wrap(so_far, 110, initial_indent="# ", subsequent_indent="# ", break_long_words=False)
    if roles.drop:
        yield "drop = ["
        yield from (f"  {value(name)},  # {why}" for name, why in roles.drop.items())
        yield "]"


def _categories(roles: Roles) -> Iterator[str]:
    if roles.categories:
        yield "[records.fields.categories]"
        yield "# Texts; each value becomes a feature of 0 or 1. A value that is not listed sets none of them."
        for name, values in roles.categories.items():
            remark = "has one value; useful only if others come: a missing one counts as the mean"
            yield f"{key(name)} = {value(list(values))}{f'  # {remark}' if len(values) == 1 else ''}"


def _labels(roles: Roles, layout: RecordsLayout) -> Iterator[str]:
    if layout.labels is not None:
        yield "[labels]"
        yield f"topic = {value(layout.labels.topic)}"
        yield f"key = {value(layout.labels.key)}  # the field, in both, that names the record"
        yield f"window = {layout.labels.window}  # records of a partition that may come until a label does"
        return
    yield ("# Do labels come later than their records, in a topic of their own? See docs/kafka.md#delayed-labels")
    yield "# [labels]"
    yield f'# topic = "..."  # of messages with {quoted(roles.label)} and a key'


def value(it: object) -> str:
    r"""Return a text, number, truth value or list of texts as TOML.

    >>> value('say "hi"\x7f'), value(["a", "Größe \u202e"]), value(True), value(5.0)
    ('"say \\"hi\\"\\u007f"', '["a", "Größe \\u202e"]', 'true', '5.0')
    """
    return "".join(c if c.isprintable() else _escaped(ord(c)) for c in json.dumps(it, ensure_ascii=False))


def _escaped(number: int) -> str:
    """Return a character that cannot be shown as TOML writes it, which is not as Python does."""
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def key(name: str) -> str:
    """Return a name as a key of TOML.

    >>> key("colour"), key("paint.colour")
    ('colour', '"paint.colour"')
    """
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else value(name)
