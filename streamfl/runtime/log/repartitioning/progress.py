"""How far a partition is done, as the metadata of a committed offset says it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """How far a partition is done.

    Examples
    --------
    >>> PartitionProgress(100, 130, (100, 117)).metadata, PartitionProgress.of(100, "30:0,17")
    ('30:0,17', PartitionProgress(offset=100, upto=130, held=(100, 117)))
    """

    offset: int  # all before it is done
    # All before `upto` is also done, but for the offsets `held`.
    upto: int
    held: tuple[int, ...] = ()

    @property
    def metadata(self) -> str:
        """Return the metadata of the offset."""
        held = ",".join(str(one - self.offset) for one in self.held)
        return f"{self.upto - self.offset}:{held}" if held else ""

    @classmethod
    def of(cls, offset: int, metadata: str) -> "PartitionProgress":
        """Return the progress at an offset with this metadata."""
        upto, _, held = metadata.partition(":")
        if not held:
            return cls(offset, offset)
        return cls(offset, offset + int(upto), tuple(offset + int(one) for one in held.split(",")))

    def after(self, begin: int) -> "PartitionProgress":
        """Return the progress when all before an offset has been deleted.

        >>> PartitionProgress(100, 130, (100, 117)).after(110)
        PartitionProgress(offset=117, upto=130, held=(117,))
        """
        held, upto = tuple(one for one in self.held if one >= begin), max(begin, self.upto)
        return PartitionProgress(held[0] if held else upto, upto, held)

    def is_open(self, offset: int) -> bool:
        """Tell whether the message at an offset is not done."""
        return offset >= self.upto or offset in self.held
