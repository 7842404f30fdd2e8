"""Messages of `.control`: each within its bound, an entry in pieces that people can read, one again for clients."""

import json

import numpy as np
import pytest

from streamfl.errors import PeerError
from streamfl.protocol.messages import (
    Accepted,
    HeldRecord,
    Joined,
    Leave,
    Left,
    ModelPublished,
    RoundClosed,
    Served,
)
from streamfl.protocol.records import Span
from streamfl.runtime.log.control import MOST, ControlReader, written
from streamfl.runtime.log.parts import cut
from streamfl.wire import messages


def closed(clients, spans=1, entry=7):
    accepted = tuple(
        Accepted(
            client=f"c{i:05d}",
            attempt=f"{i:020d}.abcdef01-3",
            spans=tuple(Span("plant.records/0", 20 * j, 20 * j + 10) for j in range(spans)),
            records=10 * spans,
            rejected=0,
        )
        for i in range(clients)
    )
    return RoundClosed(
        entry=entry,
        round=7,
        epoch=1,
        block=2,
        accepted=accepted,
        records=10 * clients,
        trained=9,
        rejected=0,
        losses={"step 16": 0.5},
        serves="step 16",
        readings={},
        served=Served(),
        model="d" * 64,
        registry=1,
    )


def read(*messages_, reader=None):
    reader = reader or ControlReader()
    return [reader.read(value, headers) for value, headers in messages_]


class TestWritten:
    def test_a_small_control_message_is_written_unchanged(self):
        message = closed(12)
        assert list(written(message)) == [(messages.encode(message), ())]
        assert b"piece" not in messages.encode(message)

    def test_a_control_message_that_just_fits_is_one_message_without_pieces(self):
        message = closed(100)
        data = messages.encode(message)
        assert list(written(message, most=len(data))) == [(data, ())]
        assert len(list(written(message, most=len(data) - 1))) == 2

    def test_an_entry_of_six_thousand_clients_is_written_in_pieces_each_within_its_bound(self):
        message = closed(6000, spans=2)
        assert len(messages.encode(message)) > 1_100_000
        lines = list(written(message))
        assert all(len(value) <= MOST and headers == () for value, headers in lines)
        told = [json.loads(value) for value, _ in lines]
        assert [piece["type"] for piece in told] == ["round-closed"] * 5
        assert [piece["piece"] for piece in told] == ["1/5", "2/5", "3/5", "4/5", "5/5"]
        assert {(piece["entry"], piece["records"], piece["model"]) for piece in told} == {(7, 60_000, "d" * 64)}
        assert [one["client"] for piece in told for one in piece["accepted"]] == [f"c{i:05d}" for i in range(6000)]

    @pytest.mark.parametrize(
        "message",
        [
            closed(1, spans=8000),
            closed(3, spans=8000),
            Joined(
                client="c0",
                nonce="7f",
                incarnation=1,
                entry=3,
                positions={"p": 1},
                read=1,
                held=tuple(HeldRecord(round=1, ordinal=i, partition="p", position=i) for i in range(9000)),
            ),
        ],
        ids=["one client of many spans", "three", "many held records"],
    )
    def test_a_control_message_that_has_no_clients_to_divide_goes_in_parts(self, message):
        lines = list(written(message))
        assert len(lines) > 1
        assert all(len(value) <= MOST for value, _ in lines)
        (whole,) = [one for one in read(*lines) if one is not None]
        assert messages.encode(whole) == messages.encode(message)


class TestRead:
    def test_pieces_of_an_entry_come_together_with_the_last_one(self):
        message = closed(100)
        lines = list(written(message, most=4000))
        assert len(lines) > 3
        *before, last = read(*lines)
        assert before == [None] * (len(lines) - 1)
        assert messages.encode(last) == messages.encode(message)

    def test_other_messages_between_entries_are_told_as_they_come(self):
        left = Left(client="c0", nonce="1")
        lines = [*written(closed(100), most=4000), *written(left), *written(closed(100, entry=8), most=4000)]
        assert [type(one).__name__ for one in read(*lines) if one is not None] == [
            "RoundClosed",
            "Left",
            "RoundClosed",
        ]

    def test_an_entry_of_which_a_piece_is_missing_is_none(self):
        lines = list(written(closed(100), most=4000))
        for missing in range(len(lines) - 1):
            reader = ControlReader()
            told = []
            for i, (value, headers) in enumerate(lines):
                if i != missing:
                    try:
                        told.append(reader.read(value, headers))
                    except PeerError as error:
                        assert "without the pieces before it" in str(error)
            assert set(told) <= {None}
            assert len([one for one in read(*lines, reader=reader) if one is not None]) == 1

    def test_pieces_of_two_entries_are_never_mixed(self):
        one, other = (list(written(closed(100, entry=entry), most=4000)) for entry in (7, 8))
        reader = ControlReader()
        reader.read(*one[0])
        with pytest.raises(PeerError, match="without the pieces before it"):
            reader.read(*other[1])

    @pytest.mark.parametrize(
        "piece", ["", "1", "0/3", "4/3", "a/b", "1/3/4", "-1/3", "\u0663/9", "1/" + "9" * 99, 3, None, [1]]
    )
    def test_a_piece_without_a_number_is_refused(self, piece):
        plain = {**json.loads(messages.encode(closed(2))), "piece": piece}
        with pytest.raises(PeerError):
            ControlReader().read(json.dumps(plain).encode(), ())

    def test_a_message_between_two_pieces_of_an_entry_ends_that_entry(self):
        first, second = list(written(closed(2), most=len(messages.encode(closed(2))) - 1))
        reader = ControlReader()
        left = Left(client="c0", nonce="1")
        assert read(first, *written(left), reader=reader) == [None, left]
        with pytest.raises(PeerError, match="piece 2 of 2 of an entry, without the pieces before it"):
            reader.read(*second)

    def test_pieces_of_an_entry_that_never_ends_are_bounded(self):
        reader = ControlReader(most_bytes=10_000)
        values = [
            json.dumps({**json.loads(messages.encode(closed(10))), "piece": f"{i}/9999"}).encode()
            for i in range(1, 9)
        ]
        with pytest.raises(PeerError, match="more than 10000 bytes"):
            for value in values:
                reader.read(value, ())
        assert reader._closed == []

    @pytest.mark.parametrize(
        "message",
        [
            Leave(client="c0", nonce="1"),
            ModelPublished(slot="a", version=1, registry=1, weights=np.zeros((1, 1))),
        ],
    )
    def test_what_is_not_the_coordinators_or_no_message_of_this_topic_is_refused(self, message):
        with pytest.raises(PeerError, match="not a message of the coordinator"):
            ControlReader().read(messages.encode(message), ())

    @pytest.mark.parametrize("value", [None, b"", b"\xff\x00", b"{}", b"[1]", b"{" * 5000])
    def test_junk_among_control_messages_is_refused(self, value):
        with pytest.raises(PeerError):
            ControlReader().read(value, ())
        with pytest.raises(PeerError):
            (part,) = cut(value or b"", 10_000)
            ControlReader().read(part.value, part.headers)
