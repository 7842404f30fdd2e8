"""`streamfl score --model F --http PORT`: one process that answers over HTTP by a saved model, and no federation."""

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import structlog

from streamfl.errors import UsageError
from streamfl.live.answering import Answering
from streamfl.live.http.app import CANDIDATE, Counts, app
from streamfl.live.http.infer import matrix_of
from streamfl.live.http.serving import serving
from streamfl.live.settings.addresses import address
from streamfl.live.stopping import Stop
from streamfl.records.values.cells import listed
from streamfl.run.model_file import ServedModel

LOG = structlog.get_logger("streamfl.score")

# Seconds between two looks whether a file has changed.
LOOK_AGAIN = 0.2

# What is seen of a file that cannot be looked at.
UNREADABLE = (-1, -1)


@dataclass
class SavedModel:
    """A saved model, which is read again when its file changes.

    Parameters
    ----------
    name
        Its version, if that is not the round.
    answering
        The model; None while there is no file.
    """

    path: Path
    name: str = ""
    answering: Answering | None = None
    _seen: tuple[int, int] | None = None

    def renew(self) -> None:
        """Read the file if it has changed; a version whose file is gone answers no more, the model itself does.

        Raises
        ------
        UsageError
            The file is not a model, or cannot be read.
        """
        try:
            found = self.path.stat()
        except FileNotFoundError:
            self.answering, self._seen = (None if self.name else self.answering), None
            return
        except OSError as error:
            if self._seen == UNREADABLE:
                return
            self._seen = UNREADABLE
            raise UsageError(f"{self.path}: cannot be read: {error.strerror}") from error
        seen = (found.st_ino, found.st_mtime_ns)
        if seen == self._seen:
            return
        self._seen = seen
        model = ServedModel.load(self.path)
        made = model.provenance
        rounds, epoch, entry = (made.rounds, made.epoch, made.entry) if made else (0, 0, 0)
        self.answering = Answering(model, rounds, epoch, entry, self.name)
        LOG.info("model read", file=str(self.path), version=self.answering.version)

    def renew_or_keep(self) -> None:
        """Read the file if it has changed to another model; else the one before keeps answering."""
        try:
            self.renew()
        except UsageError as error:
            LOG.warning("a model cannot be read, and the one before keeps answering", reason=str(error))


def serve_file(path: Path, http: str, stop: Stop, names: Collection[str] = (), candidate: Path | None = None) -> None:
    """Answer by a saved model until stopped; its name over HTTP is the file's, without its ending.

    Parameters
    ----------
    http
        The address, PORT or HOST:PORT.
    names
        Names under which it may be asked, besides any address and the machine's name.

    Raises
    ------
    UsageError
        A file is not a model, or the address cannot be had.
    """
    champion = SavedModel(path)
    other = None if candidate is None else SavedModel(candidate, CANDIDATE)
    for one in filter(None, (champion, other)):
        one.renew()
    try:
        host, port = address(http)
    except ValueError as error:
        raise UsageError(f"--http: {error}") from None
    counts = Counts()
    made = app(
        path.stem,
        lambda: champion.answering,
        candidate=lambda: None if other is None else other.answering,
        counts=counts,
    )
    with serving(made, host, port, names) as taken:
        LOG.info("answers over HTTP", host=host, port=taken, model=path.stem)
        while not stop.requested:
            champion.renew_or_keep()
            if other is not None:
                other.renew_or_keep()
            time.sleep(LOOK_AGAIN)
    LOG.info("ended over HTTP", **counts.figures)


def promote(candidate: Path, champion: Path) -> None:
    """Put a candidate in the place of a model, at once: who asks never finds half of a file.

    Raises
    ------
    UsageError
        One of them is not a model, or the candidate would refuse requests for the model, or answers otherwise.
    """
    new, old = ServedModel.load(candidate), ServedModel.load(champion)
    if wrong := _misfit(new, old, str(champion)):
        raise UsageError(f"{candidate} {wrong}")
    try:
        candidate.replace(champion)
    except OSError as error:
        raise UsageError(
            f"{candidate} cannot be moved to {champion}: {error.strerror}; use one file system"
        ) from error


def _misfit(new: ServedModel, old: ServedModel, champion: str) -> str:
    """Return why who asks the old model would be refused by the new one, or misread it; empty if neither."""
    columns, before = new.encoding.columns, old.encoding.columns
    remedy = "start a server for it"
    if new.task != old.task:
        return f"is a model for {new.task}, {champion} for {old.task}"
    if more := sorted({*columns} - {*before}):
        what = f"needs columns that {champion} does not take: {listed(more)}"
        return f"{what}; requests would be refused. Train it without them, or {remedy}"
    if fewer := new.encoding.unknown(before):
        what = f"does not take columns of {champion}: {listed(fewer)}"
        return f"{what}; requests would be refused. Train it with them, or {remedy}"
    if other := [name for name in columns if _kind(new, name) != _kind(old, name)]:
        return f"has other numbers, texts or times than {champion}, in {listed(other)}; {remedy}"
    if matrix_of(old.encoding) is not None and columns != before:
        return f"takes a matrix of other columns than {champion}, or in another order: {listed(columns)}; {remedy}"
    if missing := sorted({*old.labels} - {*new.labels}):
        return f"does not know labels of {champion}: {listed(missing)}"
    if new.labels[: len(old.labels)] != old.labels:
        return f"has probabilities in another order of labels than {champion}: {listed(new.labels)}; {remedy}"
    return ""


def _kind(model: ServedModel, column: str) -> str:
    if column in model.encoding.times:
        return "time"
    return "text" if column in model.encoding.categories else "number"
