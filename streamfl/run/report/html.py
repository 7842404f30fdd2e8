"""The report as one self-contained HTML page: no network access and no other file."""

from collections.abc import Sequence
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from streamfl.printable import printable
from streamfl.run.evaluation.result import Result
from streamfl.run.report.breakdown import class_rows, client_rows, matrix
from streamfl.run.report.charts import drawing
from streamfl.run.report.story import drifts_of_some, ledger, story, unaccounted
from streamfl.run.report.tables import facts, headline, local_rows, measured, restart_rows
from streamfl.run.report.words import count, counted, listed


def render(result: Result, *, drifts: Sequence[int] = (), title: str) -> str:
    """Return the page that explains a run to a reader who has not seen it.

    The same result gives the same bytes, since the page has no date.

    Parameters
    ----------
    result
        The result of the run.
    drifts
        The first round of each imposed drift; empty if none is known.
    title
        The page's title.

    Returns
    -------
    str
        A complete HTML document. Names that came from data are escaped.
    """
    known = sorted(set(drifts))
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            title=title,
            result=result,
            drifts=known,
            story=story(result, known),
            headline=headline(result),
            drawing=drawing(result, known),
            of_all=sum(restart.cause != "operator" for restart in result.restarts),
            of_some=len(drifts_of_some(result)),
            restarts=restart_rows(result.restarts, known),
            timed=any(restart.time for restart in result.restarts),
            local=local_rows(result.local_drifts),
            measured=measured(result),
            clients=client_rows(result.by_client) if result.by_client else [],
            classes=class_rows(result.by_class) if result.by_class else [],
            matrix=matrix(result.by_class) if result.by_class else None,
            ledger=ledger(result),
            unaccounted=unaccounted(result),
            facts=facts(result),
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters.update(count=count, counted=counted, listed=listed)
    return environment


def _printable(value: object) -> object:
    return printable(value) if type(value) is str else value  # markup is ours, or was made so


def _source(name: str) -> str:
    return files("streamfl.run.report").joinpath(name).read_text(encoding="utf-8")
