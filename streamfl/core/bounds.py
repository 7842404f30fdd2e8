"""The bounds of everything that another party may name or say: what exceeds one is refused, dropped or cut."""

from dataclasses import dataclass

# Bytes of a feature's, a label's or a client's name, in UTF-8.
NAME_BYTES = 256

# Characters of a reason, as it is announced, logged and kept with a dead letter.
REASON_CHARS = 500

# Entries in a row for which a client's messages were refused, after which it is evicted.
REFUSALS_IN_A_ROW = 3

# No log has so many positions.
MOST_POSITIONS = 2**63


@dataclass(frozen=True, slots=True)
class Limits:
    """How many names a federation remembers.

    Parameters
    ----------
    features
        Most features; a client's others are ignored, and its records count.
    labels
        Most labels; records of others are rejected.
    name_bytes
        Most bytes of a name, in UTF-8.
    clients
        Most clients, those that have left among them: the ledger remembers where each goes on.
    external_names
        Most names of rows and columns that a model of another library may have learnt: some have a row for every
        feature of every label.
    """

    features: int = 4096
    labels: int = 1024
    name_bytes: int = NAME_BYTES
    external_names: int = 65_536
    clients: int = 10_000


NAMED = Limits()


def is_name(name: str, most: int = NAME_BYTES) -> bool:
    r"""Tell whether a name is within its bound.

    >>> is_name("x" * 256), is_name("\u00e9" * 129), is_name("\ud800")
    (True, False, False)
    """
    try:
        return len(name.encode()) <= most
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell and UTF-8 cannot
        return False


def bounded(reason: str) -> str:
    """Return a reason within its bound; what is cut is marked.

    >>> len(bounded("x" * 1000)), bounded("too large")
    (500, 'too large')
    """
    return reason if len(reason) <= REASON_CHARS else reason[: REASON_CHARS - 3] + "..."
