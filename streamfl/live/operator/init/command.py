"""`streamfl init`: looks at records, writes a settings file, and says what to do next."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streamfl.errors import StreamflError, UsageError
from streamfl.live.operator.init import of_file, of_topic, of_two_topics
from streamfl.live.operator.init.layout import RecordsLayout
from streamfl.live.operator.init.roles import Roles
from streamfl.live.operator.init.written import settings_file
from streamfl.live.settings.installed import connector_named, section
from streamfl.live.settings.loading import load, merge, texts_of
from streamfl.records.request import Request
from streamfl.records.values.cells import listed
from streamfl.run.report.words import counted
from streamfl.runtime.log.placement import pattern
from streamfl.runtime.log.topics import Topics
from streamfl.runtime.ports import Sampled, SampledAtBothEnds

CONNECTOR = "kafka"

# The records and labels at each end of their topics that are looked at together.
MOST_RECORDS, MOST_LABELS = 10_000, 200

# Settings whose value is a secret: they are used, and not written.
SECRETS = re.compile(r".*password")


@dataclass(frozen=True, slots=True)
class InitRequest:
    """What is to be looked at.

    Parameters
    ----------
    request
        The fields that the caller names; its source is the file, or "" for topics.
    topics, labels
        The topics, and that of labels that come later, if they do.
    broker
        The brokers' addresses, `HOST:PORT`.
    settings
        Settings of the command line, by table; only those of the connector can be used.
    name
        The federation's name; None: that of the file or the topic.
    clients, client
        How many clients the records of a file are dealt to; or the field that names a record's client.
    """

    request: Request
    topics: Sequence[str]
    broker: str
    settings: Mapping[str, Any]
    name: str | None
    clients: int | None
    client: str | None
    out: Path
    labels: str | None = None


def write(asked: InitRequest) -> list[str]:
    """Write the settings file, and return lines that say what it has and what to do next.

    Raises
    ------
    UsageError
        The file exists, or there is nothing to make settings from.
    """
    _check(asked)
    name = asked.name or _name(asked)
    table = {"bootstrap_servers": asked.broker, **asked.settings.get(CONNECTOR, {})}
    look = _at_topics if asked.topics else _at_file
    request, roles, layout, seen = look(asked, name, table)
    kept = {setting: value for setting, value in table.items() if not SECRETS.fullmatch(setting)}
    text = settings_file(name, seen, roles, layout, request, (CONNECTOR, kept))
    _put(asked.out, text)
    return [f"{asked.out}: {_found(roles, layout)}", *roles.notes, "Next:", *_next(asked, roles, layout)]


def _check(asked: InitRequest) -> None:
    if bool(asked.topics) == bool(asked.request.source):
        raise UsageError("give either a FILE, or --topic and --broker")
    if asked.labels is not None and not asked.topics:
        raise UsageError("--labels is for topics; give --topic as well")
    if asked.topics and asked.clients is not None:
        raise UsageError("--clients is only for a FILE; with topics, the topics decide how many clients there are")
    if others := sorted(asked.settings.keys() - {CONNECTOR}):
        raise UsageError(
            f"--set {others[0]}: only settings of [{CONNECTOR}] are used here; change the file afterwards"
        )
    if asked.out.exists():
        raise UsageError(f"{asked.out}: the file exists, and is not overwritten; name another one with --out")


def _name(asked: InitRequest) -> str:
    """Return a name for the federation, none of whose topics is one of the records."""
    path = Path(asked.request.source).name
    told = asked.topics[0] if asked.topics else path.partition(".")[0]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", told).strip("._-")[:200] or "federation"
    own = Topics(name).own
    taken = any(re.fullmatch(pattern(topic), one) for topic in asked.topics for one in own)
    return f"{name}-federation" if taken else name


Found = tuple[Request, Roles, RecordsLayout, str]


def _at_file(asked: InitRequest, name: str, table: Mapping[str, Any]) -> Found:
    request, roles, layout, records = of_file.looked_at(asked.request, name, asked.clients, asked.client)
    return request, roles, layout, f"{Path(request.source).name} ({records:,} records)"


def _at_topics(asked: InitRequest, name: str, table: Mapping[str, Any]) -> Found:
    connector = connector_named(CONNECTOR)
    given = merge([texts_of(os.environ, [CONNECTOR]), {CONNECTOR: table}])[CONNECTOR]
    made = connector(name, section(CONNECTOR, connector.Settings, given))
    if not isinstance(made, Sampled if asked.labels is None else SampledAtBothEnds):
        raise UsageError(f"[federation] connector: {CONNECTOR!r} cannot look at topics; write the settings by hand")
    told = " and ".join(asked.topics)
    request = replace(asked.request, source=f"topic {told}")
    if request.separator != "," or request.encoding is not None:
        raise UsageError("messages have no separator and no encoding; leave --separator and --encoding out")
    if asked.labels is not None:
        of_records = made.sample_ends(asked.topics, MOST_RECORDS)
        ends = [*zip(of_records, made.sample_ends([asked.labels], MOST_LABELS), strict=True)]
        request, roles, layout, looked = of_two_topics.looked_at(
            request, asked.topics, asked.labels, ends, asked.client
        )
        return request, roles, layout, f"{told} and {asked.labels} ({looked} were looked at)"
    request, roles, layout, records = of_topic.looked_at(
        request, asked.topics, made.sample(asked.topics), asked.client
    )
    return request, roles, layout, f"{told} (the newest {records:,} were looked at)"


def _put(path: Path, text: str) -> None:
    """Write a file that is not there yet, and read it as every process would; else there is none."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path}: the file exists, and is not overwritten; name another one with --out") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}; name another file with --out") from error
    try:
        load(path)
    except StreamflError:
        path.unlink()
        raise


def _found(roles: Roles, layout: RecordsLayout) -> str:
    """Return what the settings have, in one line."""
    what = counted(len(roles.labels), "label") if roles.labels else "numbers"
    parts = [
        counted(layout.min_clients, "client"),
        f"label {roles.label!r} ({what}{', guessed ' + roles.guessed if roles.guessed else ''})",
        f"features from {counted(len(roles.features) + len(roles.categories), 'field')}",
        f"time {roles.time!r}" if roles.time else "no time",
    ]
    return ", ".join(parts) + (
        f"; {counted(len(roles.drop), 'field')} left out: {listed([*roles.drop])}" if roles.drop else ""
    )


def _next(asked: InitRequest, roles: Roles, layout: RecordsLayout) -> list[str]:
    settings = f"--settings {shlex.quote(str(asked.out))}"
    check = f"  streamfl check {settings}"
    if asked.topics:
        return [check, f"  streamfl coordinator {settings}", f"  streamfl client {settings}"]
    flags = ["--split", f"column:{asked.client}"] if asked.client else ["--clients", str(layout.min_clients)]
    flags += ["--label", roles.label] if not of_file.own_label_of(asked.request.source) else []
    flags += ["--time", roles.time] if roles.time else []
    flags += ["--drop", ",".join(roles.drop)] if roles.drop else []
    flags += ["--separator", asked.request.separator] if asked.request.separator != "," else []
    flags += ["--encoding", asked.request.encoding] if asked.request.encoding else []
    produce = shlex.join(["streamfl", "produce", asked.request.source, "--settings", str(asked.out), *flags, "--end"])
    return [
        check,
        f"  streamfl coordinator {settings} --until-end",
        f"  streamfl client {settings} --until-end",
        f"  {produce}",
    ]
