"""The commands of a live federation. They import what they need when they run, so that --help is fast."""

import json
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

import click

from streamfl.bounds import LONGEST, MOST, SHORTEST
from streamfl.cli.arguments import SAVED, WRITTEN, among_clients, seeded
from streamfl.cli.names import NamingCommand
from streamfl.cli.reading import OF_SETTINGS, reading, reads_a_table, reads_times, rejects_records
from streamfl.run.report.terminal import echo_line, print_line, terminal, write_output

if TYPE_CHECKING:
    from streamfl.live.identity import Process
    from streamfl.live.settings.settings import FederationSettings
    from streamfl.live.stopping import Stop
    from streamfl.protocol.messages import Action
    from streamfl.records.table import Table
    from streamfl.runtime.ports import Connector, PartitionEnds


# The commands of a live federation.
live = click.Group()

_assignments = click.option(
    "--set",
    "assignments",
    metavar="TABLE.NAME=VALUE",
    multiple=True,
    help="Change a setting; overrides the file and the environment. May be repeated.",
)


def _checked(context: click.Context, option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        return names
    from streamfl.live.settings.addresses import host_name  # noqa: PLC0415

    try:
        return tuple(map(host_name, names))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_host_names = click.option(
    "--host-name",
    "host_names",
    metavar="NAME",
    multiple=True,
    callback=_checked,
    help="Accept HTTP requests under this host name, in addition to IP addresses and this machine's name. May be "
    "repeated.",
)


def _service(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that every process of a federation has."""
    path = click.option(
        "--settings",
        "path",
        type=WRITTEN,
        required=True,
        metavar="F",
        help="The federation's TOML file; `streamfl init` writes one for your records.",
    )
    return path(_assignments(command))


def _loaded(path: Path, assignments: tuple[str, ...]) -> "FederationSettings":
    from streamfl.live.metrics.logs import configure, log_renamed  # noqa: PLC0415
    from streamfl.live.settings.loading import flag, load, merge  # noqa: PLC0415

    with warnings.catch_warnings(record=True) as renamed:
        warnings.simplefilter("always", FutureWarning)
        settings = load(path, merge([flag(text) for text in assignments]))
    command = click.get_current_context(silent=True)
    role = "" if command is None else command.info_name or ""
    host = {"client": settings.client.host, "score": settings.score.name}.get(role)
    configure(
        settings.logs.level,
        settings.logs.form,
        federation=settings.federation.name,
        role=role,
        **({} if host is None else {"host": host}),
    )
    log_renamed(str(warning.message) for warning in renamed)
    return settings


def _connected(
    path: Path, assignments: tuple[str, ...], process: "Process", key: Path | None = None
) -> "tuple[FederationSettings, Connector]":
    """Return the settings of a federation, and its log as such a process signs and reads it."""
    from streamfl.live.identity import signatures  # noqa: PLC0415
    from streamfl.live.settings.connectors import connect  # noqa: PLC0415

    settings = _loaded(path, assignments)
    return settings, connect(settings, signatures(settings, process, key))


def _reach(settings: "FederationSettings", connector: "Connector") -> "Callable[[], PartitionEnds] | None":
    """Return what opens what tells how far partitions go; None if the connector cannot tell."""
    from streamfl.runtime.ports import HasPartitionEnds  # noqa: PLC0415

    where = settings.placement, settings.record_format, settings.delayed_labels
    return partial(connector.reach, *where) if isinstance(connector, HasPartitionEnds) else None


def _stopped() -> AbstractContextManager["Stop"]:
    """Return a context whose value is set when the process is to end."""
    from streamfl.live.stopping import stopped_by_signals  # noqa: PLC0415

    return stopped_by_signals()


@live.command()
@_service
@click.option("--until-end", is_flag=True, help="End when all clients have left. For recorded streams.")
@click.option(
    "--model-out",
    type=WRITTEN,
    metavar="F",
    help="Write the model that all clients share to F, every minute and at the end (safetensors).",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Wait as long as another coordinator is alive, and take over when it falls silent. If another one takes "
    "over later, wait again.",
)
def coordinator(path: Path, assignments: tuple[str, ...], **options: Any) -> None:
    """Run the coordinator of a federation. When started again, it continues where it stopped."""
    from streamfl.live.coordinator import serve_coordinator  # noqa: PLC0415

    settings, connector = _connected(path, assignments, "coordinator")
    with _stopped() as stop:
        serve_coordinator(settings, connector, stop, **options)


@live.command()
@_service
@click.option(
    "--host", metavar="NAME", help="This process's own name among the client processes. Default: the machine's name."
)
@click.option(
    "--until-end", is_flag=True, help="End when the streams have ended. For recorded streams; see produce --end."
)
@click.option(
    "--own-models-out",
    type=WRITTEN,
    metavar="DIR",
    help="Write for each client a model file with what it alone knows to DIR, every minute and at the end.",
)
def client(path: Path, assignments: tuple[str, ...], host: str | None, **options: Any) -> None:
    """Run clients: read their records, learn, and send updates.

    If you start several such processes, they share the clients.
    """
    from streamfl.live.client import serve_clients  # noqa: PLC0415

    settings, connector = _connected(path, (*assignments, *([f"client.host={host}"] if host else [])), "client")
    with _stopped() as stop:
        serve_clients(settings, connector, stop, **options)


@live.command()
@_assignments
@click.option(
    "--settings",
    "path",
    type=WRITTEN,
    metavar="F",
    help="The federation's TOML file.",
)
@click.option(
    "--name", metavar="NAME", help="This process's own name among the scorers. Default: the machine's name."
)
@click.option("--http", metavar="[HOST:]PORT", help="Also answer requests over HTTP (V2 inference protocol).")
@_host_names
@click.option(
    "--model",
    type=SAVED,
    metavar="F",
    help="Answer over HTTP with this saved model, without a federation. Replaces --settings. The file is read again "
    "when it changes.",
)
@click.option(
    "--candidate",
    type=SAVED,
    metavar="F",
    help="Let this saved model predict the same requests over HTTP, and count how often both agree; its version is "
    "candidate.",
)
def score(path: Path | None, assignments: tuple[str, ...], model: Path | None, **named: Any) -> None:
    """Predict records without labels, with the current models of a live federation.

    If you start several such processes, they share the records. With --model and --http the command answers over HTTP
    with a saved model, and needs no federation.
    """
    if model is not None:
        if named["http"] is None or path or assignments or named["name"]:
            raise click.UsageError(
                "--model needs --http, and allows no other option than --host-name and --candidate."
            )
        _score_by_file(model, named)
    elif path is not None:
        _score_in_federation(path, assignments, named)
    else:
        raise click.UsageError("Give --settings, or give --model together with --http.")


def _score_by_file(model: Path, named: Mapping[str, Any]) -> None:
    from streamfl.live.http.saved_models import serve_file  # noqa: PLC0415
    from streamfl.live.metrics.logs import configure  # noqa: PLC0415

    configure("info", "auto")
    with _stopped() as stop:
        serve_file(model, named["http"], stop, named["host_names"], named["candidate"])


def _score_in_federation(path: Path, assignments: tuple[str, ...], named: Mapping[str, Any]) -> None:
    from streamfl.live.score import serve_scores  # noqa: PLC0415

    set_ = [f"score.{key}={json.dumps(value, default=str)}" for key, value in named.items() if value]
    settings, connector = _connected(path, (*assignments, *set_), "reader")
    with _stopped() as stop:
        serve_scores(settings, connector, stop)


@live.command()
@click.argument("candidate", type=SAVED)
@click.argument("model", type=SAVED)
def promote(candidate: Path, model: Path) -> None:
    """Move the saved model CANDIDATE to the place of MODEL, if it can answer the same requests.

    A process that serves MODEL (score --model) answers with it from then on.
    """
    from streamfl.live.http.saved_models import promote as put  # noqa: PLC0415

    put(candidate, model)
    echo_line(f"{model} is now what {candidate} was")


@live.command()
@_service
@click.option(
    "--test", "is_test", is_flag=True, help="Send one alert of the kind test now, and end; needs no broker."
)
def alert(path: Path, assignments: tuple[str, ...], *, is_test: bool) -> None:
    """Tell people when a federation drifts, stands still or misses a client, as [alerts] says."""
    from streamfl.live.alerts.service import HISTORY, AlertService, channels, outbox, rules, send_test  # noqa: PLC0415
    from streamfl.live.operator.watch import reader  # noqa: PLC0415

    if is_test:
        settings = _loaded(path, assignments)
        send_test(settings.federation.name, channels(settings.alerts))
        echo_line("the test alert was delivered")
        return
    settings, connector = _connected(path, assignments, "reader")
    outboxes = [outbox(channel) for channel in channels(settings.alerts)]
    with (
        closing(reader(lambda: connector.watcher(last=HISTORY, letters=False), terminal())) as watcher,
        _stopped() as stop,
    ):
        AlertService(watcher, rules(settings), settings.alerts.kinds, outboxes).run(stop)


@live.command()
@_service
@click.option("--rounds", type=click.IntRange(1, MOST), help="End after this many rounds.")
@click.option("--from-start", is_flag=True, help="Begin with the oldest round that is still in the log.")
@click.option("--json", "programs", is_flag=True, help="Write a line of JSON for each, for programs.")
def watch(path: Path, assignments: tuple[str, ...], rounds: int | None, *, from_start: bool, programs: bool) -> None:
    """Show a federation's rounds and restarts as they happen."""
    from streamfl.live.operator.watch import Paces, as_json, heard, patient, reader, standing  # noqa: PLC0415
    from streamfl.live.operator.watch import watch as show  # noqa: PLC0415

    settings, connector = _connected(path, assignments, "reader")
    console, last, paces = terminal(errors=programs), None if from_start else 0, Paces()
    with closing(reader(lambda: connector.watcher(last=last, letters=False), console)) as watcher:
        messages = heard(patient(watcher.read, console), paces)
        if programs:
            for line in as_json(messages, rounds, paces):
                write_output(line)
            return
        opened = None if from_start else connector.open_round()
        if not from_start:
            print_line(console, standing(settings.federation.name, opened))
        show(messages, console, rounds=rounds, opened=opened, paces=paces)


@live.command()
@_service
@click.option(
    "--address",
    "where",
    metavar="[HOST:]PORT",
    default="127.0.0.1:8080",
    show_default=True,
    help="The address of the page. It has no encryption and no passwords.",
)
@_host_names
def page(path: Path, assignments: tuple[str, ...], where: str, host_names: tuple[str, ...]) -> None:
    """Show a federation as a web page: rounds, drifts, clients and ledger, now or at an earlier entry."""
    from streamfl.live.page.service import serve_page  # noqa: PLC0415  needs the extra page

    settings, connector = _connected(path, assignments, "reader")
    with _stopped() as stop:
        serve_page(settings.federation.name, connector, where, stop, host_names, _reach(settings, connector))


@live.command()
@_service
def check(path: Path, assignments: tuple[str, ...]) -> None:
    """Check brokers, topics, rights and some real records; say how to fix each problem. Changes nothing."""
    from streamfl.live.alerts.findings import alert_findings  # noqa: PLC0415
    from streamfl.live.operator.check import findings, show  # noqa: PLC0415

    settings = _loaded(path, assignments)
    results = [*findings(settings), *alert_findings(settings.alerts)]
    show(results, terminal())
    if any(finding.state == "error" for finding in results):
        sys.exit(1)


@live.command()
@_service
@click.option(
    "--role",
    metavar="ROLE",
    help="Print only the rights of this role: coordinator, host, scorer, watch, page, producer or operator.",
)
@click.option(
    "--principal",
    metavar="USER",
    help="The Kafka user that has the role, such as User:plant-7. Default: User:NAME-ROLE, where NAME is the "
    "federation.",
)
@click.option("--command-config", metavar="F", help="The properties file with which kafka-acls.sh logs in.")
@click.option(
    "--json", "in_json", is_flag=True, help="Print the rights as JSON, with the names of Kafka's admin protocol."
)
@click.option(
    "--strimzi",
    metavar="CLUSTER",
    help="Print KafkaUser resources for Strimzi's operator in Kubernetes, for this cluster.",
)
def acls(
    path: Path,
    assignments: tuple[str, ...],
    role: str | None,
    principal: str | None,
    command_config: str | None,
    *,
    in_json: bool,
    strimzi: str | None,
) -> None:
    """Print the kafka-acls.sh commands that grant each role exactly the rights it needs.

    The command only prints: it contacts no broker.
    """
    from streamfl.live.operator.acls import accesses, as_commands, as_json, guarded  # noqa: PLC0415

    settings = _loaded(path, assignments)
    connector = guarded(settings)
    found = accesses(connector, settings, role, principal, command_config)
    if strimzi is not None:
        write_output(connector.users(found, strimzi))
    else:
        write_output(as_json(found) if in_json else as_commands(found))


@live.command(cls=NamingCommand)
@click.argument("file")
@_service
@among_clients
@click.option(
    "--split",
    default="round-robin",
    show_default=True,
    help="How to divide the records among clients: round-robin, column:NAME or dirichlet:A; see replay.",
)
@click.option(
    "--inject",
    metavar="KIND@R,...",
    help="Impose artificial drifts that begin in these rounds, for example class-swap@30,55.",
)
@click.option(
    "--rate",
    type=click.FloatRange(SHORTEST, LONGEST),
    help="Records per second, over all clients. Default: as fast as possible.",
)
@click.option("--limit", type=click.IntRange(1, MOST), help="Write at most this many records, over all clients.")
@click.option("--end", is_flag=True, help="Mark the end of every client's stream; see client --until-end.")
@click.option("--unlabelled", is_flag=True, help="Write the records without labels, to the first topic of [score].")
@click.option(
    "--label-delay",
    type=click.IntRange(0, MOST),
    metavar="N",
    help="Write each label N records of its client later, to the topics of [labels].",
)
@seeded
@click.option("--label", metavar="COL", help="The label column. Default: as in replay.")
@reads_a_table
@reads_times
@rejects_records
def produce(file: str, path: Path, assignments: tuple[str, ...], **options: Any) -> None:
    """Write a recorded stream to the clients' topics.

    FILE is as in replay, or covtype for the built-in sample of forest records. The settings say how missing values,
    numbers and times are written there, unless an option says otherwise.
    """
    from rich.progress import Progress  # noqa: PLC0415

    from streamfl.live.operator.produce import Production  # noqa: PLC0415
    from streamfl.live.operator.produce import produce as write  # noqa: PLC0415
    from streamfl.live.settings.connectors import connect  # noqa: PLC0415
    from streamfl.run.dealing.dealing import deal  # noqa: PLC0415
    from streamfl.run.dealing.imposed_drift import inject, parse  # noqa: PLC0415

    settings = _loaded(path, assignments)
    table = _table(file, settings, options)
    for note in table.notes:
        echo_line(f"{table.name}: {note}", errors=True)
    logs = deal(table, options["clients"], options["split"], options["seed"])
    if options["inject"]:
        logs = inject(table, logs, parse(options["inject"]), settings.rounds.size, options["seed"])
    names = ("rate", "limit", "end", "unlabelled", "label_delay")
    production = Production(table, logs, run=token_hex(4), **{name: options[name] for name in names})
    with _stopped() as stop, Progress(console=terminal(errors=True)) as progress:
        task = progress.add_task(table.name, total=production.records)
        written = write(settings, connect(settings), production, stop, lambda n: progress.advance(task, n))
    echo_line(f"wrote {written:,} records of {len(logs)} clients", errors=True)


@live.command(name="compile")
@click.option("--to", type=WRITTEN, metavar="DIR", help="Also copy the machine code to this folder.")
def compile_(to: Path | None) -> None:
    """Compile the code that learns record by record now, so that no process has to wait for it later.

    Use it for container images and read-only installations. The command keeps the machine code in the first folder
    that it can write to: the one that NUMBA_CACHE_DIR names, the package's, or the user's cache. Processes look in
    all of them, including read-only ones.

    To ship the machine code in a wheel or an image, run this command before you build it, with --to
    streamfl/online/native/kernels/carried. Processes ignore it if the sources, the compiler or the processor differ.
    """
    import numpy as np  # noqa: PLC0415

    from streamfl.online.native.learner import NativeLearner  # noqa: PLC0415
    from streamfl.protocol.native.settings import NativeSettings  # noqa: PLC0415
    from streamfl.wire.integers import coded  # noqa: PLC0415

    coded(np.ones((1, 1), np.int64), 1)  # what writes messages; learners load the rest
    for targets in (False, True):
        NativeLearner(NativeSettings("auto", targets=targets))
    folder = _kept_in()
    if to is not None:
        folder = _copied(to)
    echo_line(f"compiled; the machine code is in {folder}", errors=True)


def _kept_in() -> str:
    """Return the folder in which the machine code is kept.

    Raises
    ------
    UsageError
        No folder could be written to: every process compiles again.
    """
    from streamfl.errors import UsageError  # noqa: PLC0415
    from streamfl.online.native.kernels.softmax import rounds_say  # noqa: PLC0415

    folder = cast(Any, rounds_say).stats.cache_path
    if folder is None:
        raise UsageError(
            "the code was compiled, but there is no cache folder to keep it in that can be written to; "
            "set NUMBA_CACHE_DIR to a folder that can"
        )
    return str(folder)


def _copied(to: Path) -> str:
    """Copy the machine code that a learner needs to a folder, and return that.

    Raises
    ------
    UsageError
        It cannot be written to.
    """
    from streamfl.errors import UsageError  # noqa: PLC0415
    from streamfl.online.native.kernels.coding import coded  # noqa: PLC0415
    from streamfl.online.native.kernels.kept import Kept, version  # noqa: PLC0415
    from streamfl.online.native.kernels.one_record import predict_and_learn  # noqa: PLC0415
    from streamfl.online.native.kernels.softmax import rounds_say  # noqa: PLC0415

    try:
        for function in (coded, predict_and_learn, rounds_say):
            Kept(cast(Any, function).py_func).copy(to)
    except OSError as error:
        raise UsageError(f"--to {to}: {error.strerror}") from error
    return str(to / f"streamfl-{version()}")


def _table(file: str, settings: "FederationSettings", options: dict[str, Any]) -> "Table":
    from streamfl.records.files.covtype import covtype  # noqa: PLC0415
    from streamfl.records.files.readers import read  # noqa: PLC0415
    from streamfl.records.table import shuffled  # noqa: PLC0415
    from streamfl.run.dealing.dealing import client_column  # noqa: PLC0415

    if file == "covtype" and not Path(file).exists():
        return shuffled(covtype(), options["seed"])
    return read(
        file,
        task=settings.federation.task,
        keep=client_column(options["split"]) or None,
        **reading(options, settings.field_map.model_dump(include={*OF_SETTINGS})),
    )


@live.command(cls=NamingCommand)
@click.argument("file", required=False)
@click.option(
    "--topic",
    "topics",
    metavar="T",
    multiple=True,
    help="A topic with records. May be repeated, and may contain a *.",
)
@click.option(
    "--labels",
    metavar="T",
    help="The topic with their labels, if these come later, with the id of the record in a field of both.",
)
@click.option(
    "--broker",
    metavar="HOST:PORT",
    default="127.0.0.1:9092",
    show_default=True,
    help="The broker to connect to; becomes bootstrap_servers in [kafka].",
)
@click.option(
    "--out",
    type=WRITTEN,
    default="federation.toml",
    show_default=True,
    metavar="F",
    help="The settings file to write. It must not exist yet.",
)
@click.option(
    "--label",
    metavar="FIELD",
    help="The label field. Default: a field named label, y, target or class; in a file, otherwise the last column.",
)
@reads_a_table
@reads_times
@click.option("--client", metavar="FIELD", help="The field that names each record's client.")
@click.option(
    "--clients",
    type=click.IntRange(1, MOST),
    help="Number of clients to divide the records of FILE among. Default: 10.",
)
@click.option(
    "--task",
    type=click.Choice(["auto", "classification", "regression"]),
    default="auto",
    show_default=True,
    help="auto: regression if labels are numbers and some have a fractional part.",
)
@click.option("--name", metavar="NAME", help="The federation's name. Default: the name of the file or topic.")
@_assignments
def init(file: str | None, assignments: tuple[str, ...], **options: Any) -> None:
    """Look at your records, in FILE or in Kafka topics, and write a settings file for them.

    FILE is {endings}. Without --time, the first field that looks like a time is one. --set takes only settings of
    [kafka], such as kafka.security_protocol=SASL_SSL. Passwords are not written to the file: give them in the
    environment.
    """
    from streamfl.live.operator.init.command import InitRequest, write  # noqa: PLC0415
    from streamfl.live.settings.loading import flag, merge  # noqa: PLC0415
    from streamfl.records.request import Request  # noqa: PLC0415

    request = Request(file or "", **reading(options))
    settings = merge([flag(text) for text in assignments])
    named = {name: options[name] for name in ("topics", "broker", "name", "clients", "client", "out", "labels")}
    for line in write(InitRequest(request, settings=settings, **named)):
        echo_line(line)


@live.command(name="settings")
@click.argument("table", required=False)
def settings_(table: str | None) -> None:
    """Print what every setting means, as Markdown; or only those of one TABLE, such as rounds."""
    from streamfl.errors import UsageError, did_you_mean  # noqa: PLC0415
    from streamfl.live.settings.reference import reference, tables  # noqa: PLC0415

    names = [name for name, _ in tables()]
    if table is not None and table not in names:
        others = did_you_mean(table, names) or f"; the tables are {', '.join(names)}"
        raise UsageError(f"there is no table [{table}]{others}")
    write_output(reference(table))


@live.group()
def members() -> None:
    """Show which clients take part in a federation, and admit or evict them."""


@members.command(name="list")
@_service
def list_members(path: Path, assignments: tuple[str, ...]) -> None:
    """List the clients: whether each is a member, has left or is evicted; its host, records and positions."""
    from streamfl.live.identity import members_of  # noqa: PLC0415
    from streamfl.live.operator.members import show  # noqa: PLC0415

    settings, connector = _connected(path, assignments, "reader")
    names = {} if settings.federation.members == "open" else members_of(settings).names
    show(connector.state(), names, terminal())


_key = click.option("--key", type=WRITTEN, metavar="F", help="The file with the operator's private key.")


def _ordered(
    path: Path, assignments: tuple[str, ...], key: Path | None, action: "Action", client: str = "", model: str = ""
) -> None:
    """Have the coordinator carry out an action, and print from when on it is in effect."""
    from streamfl.live.operator.members import order  # noqa: PLC0415

    changed = order(_connected(path, assignments, "operator", key)[1], action, client, model=model)
    about = f" {changed.client}" if client else ""
    echo_line(f"{changed.action}{about}: done, in effect from entry {changed.entry} on")


@live.command()
@_service
@_key
def hold(path: Path, assignments: tuple[str, ...], key: Path | None) -> None:
    """Pause learning: close no round until `streamfl resume`. Predictions continue."""
    _ordered(path, assignments, key, "hold")


@live.command()
@_service
@_key
def resume(path: Path, assignments: tuple[str, ...], key: Path | None) -> None:
    """Continue learning after `streamfl hold`."""
    _ordered(path, assignments, key, "resume")


@live.command()
@_service
@_key
@click.option(
    "--model",
    metavar="NAME",
    default="",
    help="The model to begin with: scratch (untrained), incumbent (the one that predicts now), or another name that "
    "the coordinator still has. Default: the best one.",
)
def restart(path: Path, assignments: tuple[str, ...], key: Path | None, model: str) -> None:
    """Begin a new epoch when the open round closes, as after a drift."""
    _ordered(path, assignments, key, "restart", model=model)


@live.command()
@click.argument("entry", type=click.IntRange(1, MOST))
@_service
@_key
def rollback(entry: int, path: Path, assignments: tuple[str, ...], key: Path | None) -> None:
    """Go back to the model that predicted at ENTRY of the ledger. What was learnt since then is lost."""
    from streamfl.live.operator.members import order  # noqa: PLC0415
    from streamfl.live.operator.rollback import past_model  # noqa: PLC0415

    _, connector = _connected(path, assignments, "operator", key)
    model = past_model(connector, entry)
    changed = order(connector, "restart", model=model)
    echo_line(f"rollback to the model of {model.replace('-', ' ')}: done, in effect from entry {changed.entry} on")


def _about_a_client(action: "Action", summary: str) -> None:
    """Add the command that has the coordinator carry out an action about a client."""

    @members.command(name=action, help=summary)
    @click.argument("name")
    @_service
    @_key
    def about_a_client(name: str, path: Path, assignments: tuple[str, ...], key: Path | None) -> None:
        _ordered(path, assignments, key, action, name)


_about_a_client("admit", "Let client NAME join: a new client, if only known clients may join, or an evicted one.")
_about_a_client("evict", "Remove client NAME until it is admitted again. Its records stay pending.")
_about_a_client(
    "reset", "Let client NAME move to a host with another key. The next host that brings the client keeps it."
)


@members.command(name="key")
@click.option("--out", type=WRITTEN, required=True, metavar="F", help="The file to write the private key to.")
def make_key_(out: Path) -> None:
    """Make a private key, and print its public key as a line for members.toml."""
    from streamfl.wire.signing import make_key  # noqa: PLC0415

    echo_line(f'key = "{make_key(out)}"')
