"""Changes to the text of a source: a mutation, or a call that notes which tests run the place of one."""

import ast
from collections.abc import Iterable, Iterator, Mapping

from mutations.table import Mutation


def changed(source: str, mutation: Mutation) -> str:
    """Return a source with a mutation.

    Raises
    ------
    ValueError
        The text that it replaces is not there exactly once: the table must follow the source.
    """
    found = source.count(mutation.there)
    if found != 1:
        raise ValueError(f"{mutation.name}: its text occurs {found} times in {mutation.file}, not once")
    return source.replace(mutation.there, mutation.instead)


def with_calls(source: str, calls: Mapping[str, str]) -> str:
    """Return a source that makes a call just before it runs some places.

    Parameters
    ----------
    source
        Of a module.
    calls
        By text, which occurs once, the call to make before the statement that contains it.

    Examples
    --------
    >>> with_calls("if a:\\n    pass\\nelif b:\\n    c = d\\n", {"d": "f()", "elif b": "g()"})
    'g()\\nif a:\\n    pass\\nelif b:\\n    f()\\n    c = d\\n'
    """
    lines = source.splitlines(keepends=True)
    statements = [*_statements(ast.parse(source).body, lines)]
    before: dict[int, list[str]] = {}
    for text, call in calls.items():
        at = source.index(text) + len(text) - len(text.lstrip())
        line = source.count("\n", 0, at) + 1
        holding = [each for each in statements if each.lineno <= line <= (each.end_lineno or line)]
        innermost = max(holding, key=lambda each: each.lineno)
        before.setdefault(innermost.lineno, []).append(f"{' ' * innermost.col_offset}{call}\n")
    return "".join("".join((*before.get(number, ()), line)) for number, line in enumerate(lines, 1))


def _statements(body: Iterable[ast.stmt], lines: list[str]) -> Iterator[ast.stmt]:
    """Yield the statements before which another can be put."""
    for statement in body:
        if not lines[statement.lineno - 1].lstrip().startswith("elif "):
            yield statement
        for block in _blocks(statement):
            yield from _statements(block, lines)


def _blocks(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a compound statement."""
    for _, part in ast.iter_fields(statement):
        if isinstance(part, list) and part and isinstance(part[0], ast.stmt):
            yield part
        elif isinstance(part, list) and part and isinstance(part[0], ast.ExceptHandler | ast.match_case):
            for each in part:
                yield each.body
