"""`streamfl score --model F --http PORT`: one process that answers over HTTP by a saved model, and no federation."""

from collections.abc import Collection
from pathlib import Path

import structlog

from streamfl.errors import UsageError
from streamfl.live.answering import Answering
from streamfl.live.http.app import Counts, app
from streamfl.live.http.serving import serve
from streamfl.live.settings.settings import address
from streamfl.live.stopping import Stop
from streamfl.run.model_file import ServedModel

LOG = structlog.get_logger("streamfl.score")


def serve_file(path: Path, http: str, stop: Stop, names: Collection[str] = ()) -> None:
    """Answer by a saved model until stopped; its name over HTTP is the file's, without its ending.

    Parameters
    ----------
    path
        The model, as `--model-out` has written it.
    http
        The address, PORT or HOST:PORT.
    stop
        Set when the process is to end.
    names
        Names under which it may be asked, besides any address and the machine's name.

    Raises
    ------
    UsageError
        The file is not a model, or the address cannot be had.
    """
    model = ServedModel.load(path)
    made = model.provenance
    answering = Answering(model, made.rounds, made.epoch, made.entry) if made else Answering(model, 0, 0, 0)
    try:
        host, port = address(http)
    except ValueError as error:
        raise UsageError(f"--http: {error}") from None
    counts = Counts()
    serve(
        app(path.stem, lambda: answering, counts=counts),
        stop,
        host,
        port,
        began=lambda taken: LOG.info("answers over HTTP", host=host, port=taken, model=path.stem),
        names=names,
    )
    LOG.info("ended over HTTP", **counts.figures)
