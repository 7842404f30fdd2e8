"""The runbook knows every event that is logged as a warning or an error, and no other."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "runbook.md").read_text()
SOURCES = [*(ROOT / "streamfl").rglob("*.py"), *(ROOT / "connectors").rglob("*.py")]

# Events whose text is put together, and stands in the runbook by its beginning; what readers remark of records is
# explained in a paragraph.
COMPOSED = {"compiling the models that learn record by record", "compiled code in"}


def texts(node: ast.expr, named: dict[str, set[str]]) -> set[str]:
    """Return the texts that an expression may be."""
    match node:
        case ast.Constant(str(text)):
            return {text}
        case ast.IfExp():
            return texts(node.body, named) | texts(node.orelse, named)
        case ast.Name(name):
            return named.get(name, set())
        case _:
            return set()


def events_of(source: str) -> Iterator[str]:
    """Yield the events of a file that are warnings or errors, or tallied, which are warnings."""
    nodes, named = list(ast.walk(ast.parse(source))), dict[str, set[str]]()
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, set()).update(texts(node.value, {}))
    for node in nodes:
        match node:
            case ast.Call(ast.Attribute(ast.Name("LOG"), "warning" | "error"), [event, *_]):
                yield from texts(event, named)
            case ast.Call(ast.Name("Tally"), [_, event]):
                yield from texts(event, named)
            case _:
                pass


def events() -> set[str]:
    """Return the events of the log that somebody may be woken by."""
    return {event for file in SOURCES for event in events_of(file.read_text())}


def explained() -> set[str]:
    """Return the events in the tables of the runbook."""
    rows = [line.split(" | ")[0] for line in PAGE.splitlines() if line.startswith("| `")]
    return {event for row in rows for event in re.findall(r"`([^`]+)`", row)}


def test_the_runbook_explains_every_event_and_no_other() -> None:
    logged = events()
    composed = {event for event in logged if any(event.startswith(begin) for begin in COMPOSED)}
    assert len(logged) > 45
    assert logged - composed == explained()
    assert len(composed) == len(COMPOSED)
    assert all(begin in PAGE for begin in COMPOSED)
