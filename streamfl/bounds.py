"""The bounds of everything in messages of others. What exceeds a bound is refused, dropped or cut."""

from dataclasses import dataclass

# Bytes of a feature's, a label's or a client's name, in UTF-8.
NAME_BYTES = 256

# Characters of a reason, as announced, logged and kept with a dead letter.
REASON_CHARS = 500

# A client is evicted after its messages were refused for this many entries in a row.
REFUSALS_IN_A_ROW = 3

# More positions than any log has.
MOST_POSITIONS = 2**63

# What a setting may say of seconds (from a thousandth to thirty years), and the most of anything that it counts, but
# for bytes that are held: of these more than machines have.
SHORTEST, LONGEST = 0.001, 1e9
MOST, MOST_BYTES = 10**9, 2**40

# By how many records a label may come later, in a replay.
MOST_DELAY = 1_000_000

# How far back lags and windows reach, in positions of a log: little is read again after a kill.
REACH = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """How many names a federation remembers.

    Examples
    --------
    >>> Limits().most_labels(features=4096), Limits().most_features(labels=1024)
    (255, 1023)
    >>> Limits().most_labels(features=54), Limits().most_features(labels=7)
    (1024, 4096)
    """

    features: int = 4096  # the most features; others are ignored, and their records count
    labels: int = 1024  # the most labels; records of others are rejected
    name_bytes: int = NAME_BYTES  # the most bytes of a name, in UTF-8
    # The most names of rows and columns in an external model: some have a row for every feature of every label.
    external_names: int = 65_536
    # The most clients, including those that have left: the ledger keeps the next position of each.
    clients: int = 10_000

    # The most weights of a model, one for each label of each feature and the constant. Without it both limits
    # together allow four million, and a round has ten models: names that records invent would slow down rounds.
    weights: int = 2**20

    def most_labels(self, features: int) -> int:
        """Return the most labels with this many features."""
        return min(self.labels, self.weights // (features + 1))

    def most_features(self, labels: int) -> int:
        """Return the most features with this many labels."""
        return min(self.features, max(0, self.weights // max(1, labels) - 1))


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
    """Return a reason cut to its bound; a cut is marked.

    >>> len(bounded("x" * 1000)), bounded("too large")
    (500, 'too large')
    """
    return reason if len(reason) <= REASON_CHARS else reason[: REASON_CHARS - 3] + "..."
