"""Record formats whose messages become JSON objects first."""

import abc
from collections.abc import Sequence
from dataclasses import replace

from streamfl.protocol.reasons import Reason, ReasonCode
from streamfl.records.formats.json_records import JsonRecords
from streamfl.records.formats.unframed import UnreadableError
from streamfl.runtime.ports import Decoded


class Translated(JsonRecords):
    """Messages of any form, of which each becomes a JSON object, whose fields are read as those of others are."""

    @abc.abstractmethod
    def plain(self, value: bytes | None) -> bytes | None:
        """Return a message as a JSON object.

        Raises
        ------
        UnreadableError
            It cannot be one; the message is rejected with the error's text.
        UsageError
            No message can be read; none counts as read.
        """

    def decode(self, offsets: Sequence[int], values: Sequence[bytes | None]) -> Decoded:
        """Return the records of consecutive messages."""
        plain, wrong = list[bytes | None](), dict[int, Reason]()
        for offset, value in zip(offsets, values, strict=True):
            try:
                plain.append(self.plain(value))
            except UnreadableError as error:
                plain.append(None)
                wrong[int(offset)] = Reason(str(error), ReasonCode.UNREADABLE)
        found = super().decode(offsets, plain)
        if not wrong:
            return found
        rejected = tuple(replace(one, reason=wrong.get(one.position, one.reason)) for one in found.rejected)
        return replace(found, rejected=rejected)
