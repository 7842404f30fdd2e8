"""The file formats by the ending of a file's name: those of this package, and those that other packages register."""

from streamfl.protocol.registered import Registered
from streamfl.records.files.arff_file import Arff
from streamfl.records.files.csv_file import Csv, Tab
from streamfl.records.files.file_format import FileFormat
from streamfl.records.files.json_file import Json
from streamfl.records.files.jsonl_file import JsonLines
from streamfl.records.files.npz_file import Npz

# Polars is slow to load and rarely used.
FILE_FORMATS = Registered[type[FileFormat]](
    "file format",
    FileFormat,
    "streamfl.file_formats",
    {
        "csv": Csv,
        "csv.gz": Csv,
        "tsv": Tab,
        "tab": Tab,
        "jsonl": JsonLines,
        "ndjson": JsonLines,
        "json": Json,
        "arff": Arff,
        "parquet": "streamfl.records.files.parquet_file:Parquet",
        "npz": Npz,
    },
)


def ending(name: str) -> str | None:
    """Return the known ending of a file's name, or None.

    >>> ending("a/B.CSV.GZ"), ending("b.csv"), ending("csv"), ending("b.xls")
    ('csv.gz', 'csv', None, None)
    """
    for names in (FILE_FORMATS.own, FILE_FORMATS):  # looking through the installed packages takes time
        if found := [known for known in names if name.lower().endswith(f".{known}")]:
            return max(found, key=len)
    return None


def endings() -> str:
    """Return all endings as a text for people.

    >>> endings()
    '.csv, .csv.gz, .tsv, .tab, .jsonl, .ndjson, .json, .arff, .parquet or .npz'
    """
    return FILE_FORMATS.listing(".{}")
