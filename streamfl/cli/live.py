"""The commands of a live federation. They import what they need when they run, so that --help is fast."""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, cast

import click

from streamfl.bounds import LONGEST, MOST, SHORTEST
from streamfl.cli.names import NamingCommand
from streamfl.run.report.terminal import echo_line, print_line, terminal, write_output

if TYPE_CHECKING:
    from streamfl.live.settings.settings import FederationSettings
    from streamfl.protocol.messages import Action
    from streamfl.records.table import Table
    from streamfl.runtime.ports import Connector


_assignments = click.option(
    "--set",
    "assignments",
    metavar="TABLE.NAME=VALUE",
    multiple=True,
    help="A setting that overrides the file and the environment; may be repeated.",
)


def _checked(context: click.Context, option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        return names
    from streamfl.live.settings.settings import host_name  # noqa: PLC0415

    try:
        return tuple(map(host_name, names))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_host_names = click.option(
    "--host-name",
    "names",
    metavar="NAME",
    multiple=True,
    callback=_checked,
    help="A name under which it may be asked over HTTP, beside this machine's and any address; may be repeated.",
)


def _service(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that every process of a federation has."""
    path = click.option(
        "--settings",
        "path",
        type=click.Path(path_type=Path),
        required=True,
        metavar="F",
        help="The federation's TOML file; start from deploy/federation.toml.",
    )
    return path(_assignments(command))


def _loaded(path: Path, assignments: tuple[str, ...]) -> "FederationSettings":
    from streamfl.live.metrics.logs import configure  # noqa: PLC0415
    from streamfl.live.settings.settings import flag, load, merged  # noqa: PLC0415

    settings = load(path, merged([flag(text) for text in assignments]))
    configure(settings.logs.level, settings.logs.form)
    return settings


@click.command()
@_service
@click.option("--until-end", is_flag=True, help="End when all clients have left: for recorded streams.")
@click.option(
    "--model-out",
    type=click.Path(path_type=Path),
    metavar="F",
    help="Write the model that the clients agree on, every minute and at the end (safetensors).",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Wait until no other coordinator is heard, then take over; stand by again if another one does.",
)
def coordinator(
    path: Path, assignments: tuple[str, ...], *, until_end: bool, model_out: Path | None, standby: bool
) -> None:
    """Run the rounds of a federation; after a restart it continues where it was."""
    from streamfl.live.coordinator import serve_coordinator  # noqa: PLC0415
    from streamfl.live.identity import signatures  # noqa: PLC0415
    from streamfl.live.settings.connectors import connect  # noqa: PLC0415
    from streamfl.live.stopping import stopped_by_signals  # noqa: PLC0415

    settings = _loaded(path, assignments)
    connector = connect(settings, signatures(settings, "coordinator"))
    with stopped_by_signals() as stop:
        serve_coordinator(settings, connector, stop, until_end=until_end, model_out=model_out, standby=standby)


@click.command()
@_service
@click.option("--host", metavar="NAME", help="Name of this process among the hosts; default: the machine's name.")
@click.option("--until-end", is_flag=True, help="End when the records have ended: for recorded streams.")
def client(path: Path, assignments: tuple[str, ...], host: str | None, *, until_end: bool) -> None:
    """Run clients: read their records, learn, send updates. Several such processes share the clients."""
    from streamfl.live.client import serve_clients  # noqa: PLC0415
    from streamfl.live.identity import signatures  # noqa: PLC0415
    from streamfl.live.settings.connectors import connect  # noqa: PLC0415
    from streamfl.live.stopping import stopped_by_signals  # noqa: PLC0415

    settings = _loaded(path, (*assignments, *([f"client.host={host}"] if host else [])))
    connector = connect(settings, signatures(settings, "client"))
    with stopped_by_signals() as stop:
        serve_clients(settings, connector, stop, until_end=until_end)


@click.command()
@_assignments
@click.option(
    "--settings",
    "path",
    type=click.Path(path_type=Path),
    metavar="F",
    help="The TOML file of the federation whose records are answered.",
)
@click.option("--name", metavar="NAME", help="Name of this process among the scorers; default: the machine's name.")
@click.option("--http", metavar="[HOST:]PORT", help="Also answer over HTTP, by the V2 inference protocol.")
@_host_names
@click.option(
    "--model",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="F",
    help="Answer over HTTP by this saved model, without a federation: instead of --settings.",
)
def score(
    path: Path | None,
    assignments: tuple[str, ...],
    name: str | None,
    http: str | None,
    names: tuple[str, ...],
    model: Path | None,
) -> None:
    """Answer records without labels by the models of a live federation. Several such processes share them.

    With --model and --http it answers over HTTP by a saved model, and needs no federation.
    """
    if model is not None:
        _score_by_file(model, http, names, others=bool(path or assignments or name))
    elif path is not None:
        _score_in_federation(path, assignments, {"name": name, "http": http, "host_names": names})
    else:
        raise click.UsageError("Give --settings, or --model with --http.")


def _score_by_file(model: Path, http: str | None, names: tuple[str, ...], *, others: bool) -> None:
    if http is None or others:
        raise click.UsageError("--model goes with --http and --host-name, and with nothing else.")
    from streamfl.live.metrics.logs import configure  # noqa: PLC0415
    from streamfl.live.score_file import serve_file  # noqa: PLC0415
    from streamfl.live.stopping import stopped_by_signals  # noqa: PLC0415

    configure("info", "auto")
    with stopped_by_signals() as stop:
        serve_file(model, http, stop, names)


def _score_in_federation(path: Path, assignments: tuple[str, ...], given: Mapping[str, object]) -> None:
    from streamfl.live.identity import signatures  # noqa: PLC0415
    from streamfl.live.score import serve_scores  # noqa: PLC0415
    from streamfl.live.settings.connectors import connect  # noqa: PLC0415
    from streamfl.live.stopping import stopped_by_signals  # noqa: PLC0415

    named = [f"score.{key}={json.dumps(value)}" for key, value in given.items() if value]
    settings = _loaded(path, (*assignments, *named))
    connector = connect(settings, signatures(settings, "reader"))
    with stopped_by_signals() as stop:
        serve_scores(settings, connector, stop)


@click.command()
@_service
@click.option("--rounds", type=click.IntRange(1, MOST), help="End after so many rounds.")
@click.option("--from-start", is_flag=True, help="Begin with the oldest round in the log.")
def watch(path: Path, assignments: tuple[str, ...], rounds: int | None, *, from_start: bool) -> None:
    """Show a federation's rounds and restarts as they happen."""
    from streamfl.live.identity import signatures  # noqa: PLC0415
    from streamfl.live.operator.watch import heard, reader, standing  # noqa: PLC0415
    from streamfl.live.operator.watch import watch as show  # noqa: PLC0415
    from streamfl.live.settings.connectors import connect  # noqa: PLC0415

    settings = _loaded(path, assignments)
    connector = connect(settings, signatures(settings, "reader"))
    console, last = terminal(), None if from_start else 0
    with closing(reader(lambda: connector.watcher(last=last, letters=False), console)) as watcher:
        opened = None if from_start else connector.open_round()
        if not from_start:
            print_line(console, standing(settings.federation.name, opened))
        show(heard(watcher), console, rounds=rounds, opened=opened)


@click.command()
@_service
@click.option(
    "--address",
    "where",
    metavar="[HOST:]PORT",
    default="127.0.0.1:8080",
    show_default=True,
    help="Where the page is; it has neither encryption nor passwords.",
)
@_host_names
def page(path: Path, assignments: tuple[str, ...], where: str, names: tuple[str, ...]) -> None:
    """Show a federation as a web page: rounds, drifts, clients, ledger, now and as of any entry."""
    from streamfl.live.identity import signatures  # noqa: PLC0415
    from streamfl.live.page.service import serve_page  # noqa: PLC0415  needs the extra page
    from streamfl.live.settings.connectors import connect  # noqa: PLC0415
    from streamfl.live.stopping import stopped_by_signals  # noqa: PLC0415

    settings = _loaded(path, assignments)
    connector = connect(settings, signatures(settings, "reader"))
    with stopped_by_signals() as stop:
        serve_page(settings.federation.name, connector, where, stop, names)


@click.command()
@_service
def check(path: Path, assignments: tuple[str, ...]) -> None:
    """Check brokers, topics, rights, and the schema on real records; show each finding with its remedy."""
    from streamfl.live.operator.check import findings, show  # noqa: PLC0415

    settings = _loaded(path, assignments)
    results = findings(settings)
    show(results, terminal())
    if any(finding.state == "error" for finding in results):
        sys.exit(1)


@click.command()
@_service
@click.option(
    "--role", metavar="ROLE", help="Only this one: coordinator, host, scorer, watch, page, producer or operator."
)
@click.option(
    "--principal",
    metavar="USER",
    help="Who has the role, such as User:plant-7. Default: User:NAME-ROLE, with the federation's name.",
)
@click.option("--command-config", metavar="F", help="The properties with which kafka-acls.sh logs in.")
@click.option("--json", "in_json", is_flag=True, help="Print the rights as JSON, in the words of the admin protocol.")
@click.option(
    "--strimzi", metavar="CLUSTER", help="Print users of this cluster for Strimzi's operator in Kubernetes."
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
    """Print the commands that grant each role its rights on the brokers, and nothing else. It asks no broker."""
    from streamfl.live.operator.acls import accesses, as_commands, as_json, guarded  # noqa: PLC0415

    settings = _loaded(path, assignments)
    connector = guarded(settings)
    found = accesses(connector, settings, role, principal, command_config)
    if strimzi is not None:
        write_output(connector.users(found, strimzi))
    else:
        write_output(as_json(found) if in_json else as_commands(found))


@click.command()
@click.argument("file")
@_service
@click.option(
    "--clients",
    type=click.IntRange(1, MOST),
    help="How many; default: 10, or the number of values in the column of --split.",
)
@click.option("--split", default="round-robin", show_default=True, help="round-robin, column:NAME or dirichlet:A.")
@click.option("--inject", metavar="KIND@R,...", help="Inject drift at these rounds, for example class-swap@30,55.")
@click.option(
    "--rate", type=click.FloatRange(SHORTEST, LONGEST), help="Records a second in all; default: as fast as possible."
)
@click.option("--limit", type=click.IntRange(1, MOST), help="The most records in all.")
@click.option("--end", is_flag=True, help="Mark the end of every stream; see client --until-end.")
@click.option("--unlabelled", is_flag=True, help="Write them without labels, to the first topic of [score].")
@click.option(
    "--labels-apart",
    type=click.IntRange(0, MOST),
    metavar="N",
    help="Write each label so many records of its client later, to the topics of [labels].",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of all random draws.")
@click.option("--label", metavar="COL", help="The column of the label; default: as in replay.")
@click.option("--drop", metavar="COL,...", default="", help="Columns to leave out.")
@click.option("--time", metavar="COL", help="The column with the time, which is not a feature.")
def produce(file: str, path: Path, assignments: tuple[str, ...], **options: Any) -> None:
    """Write a recorded stream to the clients' topics: FILE as in replay, or covtype, the built-in sample."""
    from rich.progress import Progress  # noqa: PLC0415

    from streamfl.live.operator.produce import Production  # noqa: PLC0415
    from streamfl.live.operator.produce import produce as write  # noqa: PLC0415
    from streamfl.live.settings.connectors import connect  # noqa: PLC0415
    from streamfl.live.stopping import stopped_by_signals  # noqa: PLC0415
    from streamfl.run.dealing.dealing import deal  # noqa: PLC0415
    from streamfl.run.dealing.imposed_drift import inject, parse  # noqa: PLC0415

    settings = _loaded(path, assignments)
    table = _table(file, settings, options)
    for note in table.notes:
        echo_line(f"{table.name}: {note}", errors=True)
    logs = deal(table, options["clients"], options["split"], options["seed"])
    if options["inject"]:
        logs = inject(table, logs, parse(options["inject"]), settings.rounds.size, options["seed"])
    names = ("rate", "limit", "end", "unlabelled", "labels_apart")
    production = Production(table, logs, run=token_hex(4), **{name: options[name] for name in names})
    with stopped_by_signals() as stop, Progress(console=terminal(errors=True)) as progress:
        task = progress.add_task(table.name, total=production.records)
        written = write(settings, connect(settings), production, stop, lambda n: progress.advance(task, n))
    echo_line(f"{written:,} records of {len(logs)} clients written", errors=True)


@click.command(name="compile")
@click.option("--to", type=click.Path(path_type=Path), metavar="DIR", help="Also copy the machine code to a folder.")
def compile_(to: Path | None) -> None:
    """Compile the code that learns record by record, so that no process has to wait for it.

    This is for images and read-only installations. The machine code is kept in the first folder that can be written
    to: the one that NUMBA_CACHE_DIR names, the package's, or the user's cache. All are read, even if read-only.

    A wheel or an image can carry the machine code, if --to names streamfl/online/native/kernels/carried before
    it is built. Where the sources, the compiler or the processor differ, it is not used.
    """
    from streamfl.online.native.learner import NativeLearner  # noqa: PLC0415
    from streamfl.protocol.native.settings import NativeSettings  # noqa: PLC0415

    for targets in (False, True):
        NativeLearner(NativeSettings("auto", targets=targets))
    folder = _kept_in()
    if to is not None:
        folder = _copied(to)
    echo_line(f"compiled, and kept in {folder}", errors=True)


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
            "compiled, but not kept: no cache folder can be written to; set NUMBA_CACHE_DIR to one that can"
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
    from streamfl.online.native.kernels.kept import Kept, version  # noqa: PLC0415
    from streamfl.online.native.kernels.one_record import predict_and_learn  # noqa: PLC0415
    from streamfl.online.native.kernels.softmax import rounds_say  # noqa: PLC0415

    try:
        for function in (predict_and_learn, rounds_say):
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
        label=options["label"],
        drop=[name for name in options["drop"].split(",") if name],
        time=options["time"],
        task=settings.federation.task,
        keep=client_column(options["split"]) or None,
    )


@click.command(cls=NamingCommand)
@click.argument("file", required=False)
@click.option(
    "--topic", "topics", metavar="T", multiple=True, help="A topic with records; may be repeated, or have a *."
)
@click.option(
    "--broker",
    metavar="HOST:PORT",
    default="127.0.0.1:9092",
    show_default=True,
    help="The brokers: bootstrap_servers in [kafka].",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="federation.toml",
    show_default=True,
    metavar="F",
    help="The settings file to write; it must not be there yet.",
)
@click.option(
    "--label",
    metavar="FIELD",
    help="The label; default: a field named label, y, target or class, in a file else the last column.",
)
@click.option("--time", metavar="FIELD", help="The time of a record; default: the first field that looks like one.")
@click.option("--client", metavar="FIELD", help="The field that names the client of a record.")
@click.option(
    "--clients", type=click.IntRange(1, MOST), help="How many clients the records of FILE are dealt to; default: 10."
)
@click.option("--drop", metavar="FIELD,...", default="", help="Fields to leave out.")
@click.option(
    "--task",
    type=click.Choice(["auto", "classification", "regression"]),
    default="auto",
    show_default=True,
    help="auto: regression if any label is a number with a fraction.",
)
@click.option(
    "--separator",
    metavar="CHAR",
    default=",",
    show_default=True,
    help="Separator of a CSV file: one character, or tab.",
)
@click.option("--name", metavar="NAME", help="The federation's name; default: that of the file or topic.")
@_assignments
def init(file: str | None, assignments: tuple[str, ...], **options: Any) -> None:
    """Write a settings file for records that you have: those of FILE, or of topics.

    FILE is {endings}. Of --set only settings of [kafka] are used, such as
    kafka.security_protocol=SASL_SSL; passwords are not written, and come from the environment as ever.
    """
    from streamfl.live.operator.init.command import InitRequest, write  # noqa: PLC0415
    from streamfl.live.settings.settings import flag, merged  # noqa: PLC0415
    from streamfl.records.request import Request  # noqa: PLC0415

    request = Request(
        file or "",
        options["label"],
        tuple(name for name in options["drop"].split(",") if name),
        options["time"],
        options["task"],
        separator="\t" if options["separator"] in {"tab", "\\t"} else options["separator"],
    )
    settings = merged([flag(text) for text in assignments])
    named = {name: options[name] for name in ("topics", "broker", "name", "clients", "client", "out")}
    for line in write(InitRequest(request, settings=settings, **named)):
        echo_line(line)


@click.command(name="settings")
@click.argument("table", required=False)
def settings_(table: str | None) -> None:
    """Print the reference of all settings as Markdown, or of one TABLE, such as rounds."""
    from streamfl.errors import UsageError, did_you_mean  # noqa: PLC0415
    from streamfl.live.settings.reference import reference, tables  # noqa: PLC0415

    names = [name for name, _ in tables()]
    if table is not None and table not in names:
        others = did_you_mean(table, names) or f"; name one of {', '.join(names)}"
        raise UsageError(f"there is no table [{table}]{others}")
    write_output(reference(table))


@click.group()
def members() -> None:
    """Show who takes part in a federation, and change it."""


@members.command(name="list")
@_service
def list_members(path: Path, assignments: tuple[str, ...]) -> None:
    """List clients: member, left or evicted; incarnation, host, records and positions."""
    from streamfl.live.identity import members_of, signatures  # noqa: PLC0415
    from streamfl.live.operator.members import show  # noqa: PLC0415
    from streamfl.live.settings.connectors import connect  # noqa: PLC0415

    settings = _loaded(path, assignments)
    names = {} if settings.federation.members == "open" else members_of(settings).names
    show(connect(settings, signatures(settings, "reader")).state(), names, terminal())


_key = click.option("--key", type=click.Path(path_type=Path), metavar="F", help="The operator's private key.")


def _as_operator(path: Path, assignments: tuple[str, ...], key: Path | None) -> "Connector":
    """Return the log of a federation, with the operator's signature."""
    from streamfl.live.identity import signatures  # noqa: PLC0415
    from streamfl.live.settings.connectors import connect  # noqa: PLC0415

    settings = _loaded(path, assignments)
    return connect(settings, signatures(settings, "operator", key))


def _directing(action: "Action", summary: str) -> click.Command:
    """Return the command that has the coordinator carry out an action about the federation."""
    model = click.option(
        "--model",
        metavar="NAME",
        default="",
        help="The model to begin with: scratch, incumbent, or another that is live or kept; default: the best.",
    )

    @click.command(name=action, help=summary)
    @_service
    @_key
    def directing(path: Path, assignments: tuple[str, ...], key: Path | None, model: str = "") -> None:
        from streamfl.live.operator.members import order  # noqa: PLC0415

        changed = order(_as_operator(path, assignments, key), action, model=model)
        echo_line(f"{changed.action}: done, from entry {changed.entry} on")

    return model(directing) if action == "restart" else directing


hold = _directing("hold", "Close no round until `streamfl resume`; answers go on, and clients wait.")
resume = _directing("resume", "Go on after `streamfl hold`.")
restart = _directing("restart", "Begin an epoch when the open round closes, as after a drift.")


@click.command()
@click.argument("entry", type=click.IntRange(1, MOST))
@_service
@_key
def rollback(entry: int, path: Path, assignments: tuple[str, ...], key: Path | None) -> None:
    """Begin an epoch with the model that served at ENTRY of the ledger; what was learnt since is lost."""
    from streamfl.live.operator.members import order  # noqa: PLC0415
    from streamfl.live.operator.rollback import past_model  # noqa: PLC0415

    connector = _as_operator(path, assignments, key)
    model = past_model(connector, entry)
    changed = order(connector, "restart", model=model)
    echo_line(f"rollback to the model of {model.replace('-', ' ')}: done, from entry {changed.entry} on")


def _ordering(action: "Action", summary: str) -> click.Command:
    """Return the command that has the coordinator carry out an action about a client."""

    @members.command(name=action, help=summary)
    @click.argument("name")
    @_service
    @_key
    def ordering(name: str, path: Path, assignments: tuple[str, ...], key: Path | None) -> None:
        from streamfl.live.operator.members import order  # noqa: PLC0415

        changed = order(_as_operator(path, assignments, key), action, name)
        echo_line(f"{changed.action} {changed.client}: done, from entry {changed.entry} on")

    return ordering


_ordering("admit", "Let client NAME join: a new one where clients are known, or one that was evicted.")
_ordering("evict", "Put client NAME out until it is admitted again; its records stay pending.")
_ordering("reset", "Let another host's key bring client NAME: the next that does keeps it.")


@members.command(name="key")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="F", help="The new file of the key.")
def make_key_(out: Path) -> None:
    """Make a private key; print the line with its public key for members.toml."""
    from streamfl.wire.signing import make_key  # noqa: PLC0415

    echo_line(f'key = "{make_key(out)}"')


COMMANDS = (
    coordinator,
    client,
    score,
    produce,
    watch,
    page,
    check,
    members,
    acls,
    hold,
    resume,
    restart,
    rollback,
    init,
    settings_,
    compile_,
)
