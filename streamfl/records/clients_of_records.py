"""Finds the client of a record, where clients have models of their own."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamfl.arrays import IntArray
from streamfl.errors import UsageError
from streamfl.records.values.cells import NAMES, Cells, listed, quoted, text, words


@dataclass(frozen=True)
class ClientsOfRecords:
    """Finds the client of a record, by its name or by the column that names it.

    Parameters
    ----------
    column
        The column whose value v names a record's client, `v` or `column=v`; empty if no column does.
    clients
        All clients of the run; empty if not known.
    apart
        Those that have models of their own.
    only
        The client that all records belong to unless they name another; None if there is none.

    Examples
    --------
    >>> found = ClientsOfRecords("site", ("site=east", "site=west"), apart=("site=east",))
    >>> found.rows({"site": ["east", "west", "east"]}, 3)
    {'site=east': array([0, 2])}
    """

    column: str = ""
    clients: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    only: str | None = None

    def rows(self, given: Mapping[str, Cells], n: int, client: str | None = None) -> dict[str, IntArray]:
        """Return the records of clients that have models of their own, as indices by client.

        Parameters
        ----------
        given, n
            The columns of n records.
        client
            The client of all of them, or "" for none of the run; None: each record's `column` names it.

        Raises
        ------
        UsageError
            The run had no such client.
        """
        if client is not None:
            if client and self.strangers([client]):
                raise UsageError(
                    f"the run had no client called {quoted(client)}; its clients are {listed(self.clients)}"
                )
            named = self.named(client)
            return {} if named is None else {named: np.arange(n)}
        if not self.apart or self.column not in given:
            return {} if self.only is None else {self.only: np.arange(n)}
        found: dict[str, list[int]] = {}
        for i, cell in enumerate(given[self.column]):
            if (named := self.named(text(cell, NAMES))) is not None:
                found.setdefault(named, []).append(i)
        return {named: np.array(rows, np.intp) for named, rows in found.items()}

    def named(self, client: str) -> str | None:
        """Return the client that has models of its own and is called so, or `column=` so; None if there is none.

        >>> found = ClientsOfRecords("site", apart=("site=east",))
        >>> found.named("east"), found.named("site=east"), found.named("west")
        ('site=east', 'site=east', None)
        """
        names = client, f"{self.column}={client}"
        return next((name for name in names if name in self.apart), None)

    def strangers(self, cells: Cells) -> list[str]:
        """Return the names in `column` that are of no client of the run; a missing name is of none.

        >>> ClientsOfRecords("site", ("site=east",)).strangers(["east", "site=east", "East", None, "East"])
        ['East']
        """
        known = {"", *self.clients, *(name.removeprefix(f"{self.column}=") for name in self.clients)}
        return [name for name in dict.fromkeys(words(cells, NAMES)) if name not in known] if self.clients else []

    def warning(self, given: Mapping[str, Cells], client: str | None = None) -> str:
        """Return a warning if clients have models of their own and nothing known names a record's client, or "".

        Parameters
        ----------
        given, client
            As in `rows`.
        """
        if not self.apart or client == "":
            return ""
        if client is None and self.column not in given:
            return self._nothing_names() if self.only is None else ""
        named = given[self.column] if client is None else [client]
        by = f", which column {self.column!r} names" if client is None else ""
        if self.clients:
            strangers = listed(self.strangers(named)) if client is None else ""  # else `rows` refuses it
            of = f"the run had no client called {strangers}{by}"
            return f"{of}; the model of all clients predicts them" if strangers else ""
        others = listed([name for name in dict.fromkeys(words(named, NAMES)) if name and self.named(name) is None])
        of = (
            f"the model does not say whether a client is called {others}{by}; only {listed(self.apart)} have models "
            "of their own"
        )
        return f"{of}; the model of all clients predicts all others" if others else ""

    def _nothing_names(self) -> str:
        column = f"; column {self.column!r} would, but is missing" if self.column else ""
        alone = listed(self.apart)
        return (
            f"there is no way to tell which records belong to {alone}; these clients have models of their own{column}"
        )
