"""The table of what is caught, kept as `caught.json` and written for people as `README.md`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from mutations.table import MUTATIONS, Mutation

KEPT = Path(__file__).with_name("caught.json")
PAGE = Path(__file__).with_name("README.md")

# By name: the digest of the change, and by suite the first test that fails; "" if none does, nothing if not tried.
Caught = dict[str, dict[str, str]]

TEXT = """# Mutations

Each row is one fault, made in a copy of the project. The table says which test failed first: one of `make test`, or \
else one that only `make test-all` runs. Tests that reach the changed place are tried, the cheapest first, so others \
may fail, too.

`make test` catches {quick} of {tried}, `make test-all` {both} of {tried}.{open}

    python -m tests.mutations          try what is not in `caught.json` yet
    python -m tests.mutations --help   try some, or try them again

`table.py` has the changes. A mutation whose text is no longer in the source fails a test: give it the new text.

| mutation | source | `make test` | `make test-all` |
| --- | --- | --- | --- |
{rows}
"""


def read(mutations: Sequence[Mutation] = MUTATIONS) -> Caught:
    """Return what is known of the present mutations."""
    kept: Caught = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    return {m.name: kept[m.name] for m in mutations if kept.get(m.name, {}).get("change") == m.digest}


def write(caught: Caught, mutations: Sequence[Mutation] = MUTATIONS) -> None:
    """Keep the table, in the order of the mutations, and write the page."""
    ordered = {m.name: caught[m.name] for m in mutations if m.name in caught}
    KEPT.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(caught, mutations), encoding="utf-8")


def is_known(of: Mapping[str, str], suite: str) -> bool:
    """Tell whether a suite need not be tried: it was, or a smaller one has caught the mutation.

    >>> is_known({"quick": "a.py::test"}, "full"), is_known({"quick": ""}, "full"), is_known({}, "quick")
    (True, False, False)
    """
    return suite in of or bool(of.get("quick"))


def page(caught: Caught, mutations: Sequence[Mutation] = MUTATIONS) -> str:
    """Return the page."""
    tried = [m for m in mutations if is_known(caught.get(m.name, {}), "full")]
    left = len(mutations) - len(tried)
    return TEXT.format(
        quick=sum(bool(caught[m.name].get("quick")) for m in tried),
        both=sum(bool(caught[m.name].get("quick") or caught[m.name].get("full")) for m in tried),
        tried=len(tried),
        open=f" {left} were not tried by both yet." if left else "",
        rows="\n".join(_row(m, caught.get(m.name, {})) for m in mutations),
    )


def _row(mutation: Mutation, of: Mapping[str, str]) -> str:
    quick = _cell(of.get("quick"))
    full = "also" if of.get("quick") else _cell(of.get("full"))
    return f"| {mutation.name} | `{mutation.file.rpartition('/')[2]}` | {quick} | {full} |"


def _cell(test: str | None) -> str:
    """Return how a table names a test.

    >>> _cell("tests/unit/test_a.py::test_b[x|y]"), _cell(""), _cell(None)
    ('`test_a.py::test_b[x/y]`', 'no test', 'not tried')
    """
    if test is None:
        return "not tried"
    file, _, name = test.partition("::")
    return f"`{file.rpartition('/')[2]}::{name}`".replace("|", "/") if test else "no test"
