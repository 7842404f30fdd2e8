"""The interface of file formats."""

import abc
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from streamfl.records.assembly import Blocks
from streamfl.records.day_and_clock import times_of
from streamfl.records.last_column import label_of
from streamfl.records.request import Request
from streamfl.records.table import Table


class FileFormat(abc.ABC):
    """A format of files of records.

    A class registers under the ending of its files' names, without the dot; it is never made.

    Attributes
    ----------
    separated
        Whether the user may say what separates columns.
    ordered
        Whether columns have an order, so that the last one may be the label where none is named.
    label
        The name of the labels where a file keeps them apart from its columns; None where a column is the label.
    """

    separated: ClassVar[bool] = False
    ordered: ClassVar[bool] = True
    label: ClassVar[str | None] = None

    @classmethod
    @abc.abstractmethod
    def blocks(cls, request: Request, path: Path) -> AbstractContextManager[Blocks]:
        """Open a file to be read block by block. It exists, is not a directory, and is not empty.

        Raises
        ------
        UsageError
            If the file or a column cannot be used, or a record is bad and the request is to stop. While blocks are
            read as well.
        """

    @classmethod
    def table(cls, request: Request, path: Path) -> Table:
        """Read a whole file."""
        with cls.blocks(request, path) as opened:
            return table_of(opened)


def table_of(opened: Blocks) -> Table:
    """Return all records of an open file, with another label if the last column is none."""
    opened = times_of(opened)
    label, note, each = label_of(opened.request, opened.label, opened.each)
    table = replace(opened, label=label, each=each).table()
    return replace(table, notes=(note, *table.notes)) if note else table
