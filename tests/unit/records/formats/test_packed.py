"""What packed messages become: good records as they are meant, bad ones and bad messages with the reason."""

import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from streamfl.bounds import Limits
from streamfl.errors import UsageError
from streamfl.records.formats import Packed
from streamfl.runtime.ports import Decoded

NAN, INF = np.nan, np.inf
AT = 65_536
F4, I4 = np.float32, np.int32


def message(arrays: dict[str, Any] | None = None, **metadata: object) -> bytes:
    """Return a message as another program would write it, good but for what is given; None takes something away."""
    said = {"features": ["a", "b"], "labels": ["no", "yes"], **metadata}
    held = {"X": np.array([[1, 2], [3, NAN]], F4), "y": np.array([1, 0], I4), **(arrays or {})}
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in said.items() if v is not None}
    return safetensors.numpy.save({k: v for k, v in held.items() if v is not None}, metadata=texts)


def decode(*messages: bytes | None, task: str = "classification") -> Decoded:
    return Packed(task).decode(range(len(messages)), messages)  # type: ignore[arg-type]


def test_a_message_of_another_program_is_read() -> None:
    found = Packed("classification").decode([5], [message()])
    assert found.positions.tolist() == [5 * AT, 5 * AT + 1]
    assert found.features == ("a", "b")
    np.testing.assert_array_equal(found.X, [[1.0, 2.0], [3.0, NAN]])
    assert (found.y.tolist(), found.labels) == ([1.0, 0.0], ("no", "yes"))
    assert (found.clients, found.rejected, found.rejected_clients, found.times.shape) == ((), (), (), (0,))
    assert [a.dtype for a in (found.positions, found.X, found.y, found.times)] == ["i8", "f8", "f8", "f8"]


def test_another_program_reads_our_message() -> None:
    X, y, times = np.array([[0.1, NAN]]), np.array([1]), np.array([1.5])
    ours = Packed("classification").encode(("a", "b"), X, y, ("no", "yes"), times)
    read = safetensors.numpy.load(ours)
    np.testing.assert_array_equal(read["X"], X.astype(F4))
    assert (read["y"].tolist(), read["y"].dtype, read["time"].tolist()) == ([1], I4, [1.5])
    assert ours == Packed("classification").encode(("a", "b"), X, y, ("no", "yes"), times)


def test_arrays_lie_where_processors_like_them() -> None:
    for task, labels in (("classification", ("no",)), ("regression", ())):
        ours = Packed(task).encode(("a",), np.ones((3, 1)), np.zeros(3), labels, np.ones(3))
        length = int.from_bytes(ours[:8], "little")
        header = json.loads(ours[8 : 8 + length])
        sizes = {"F32": 4, "I32": 4, "F64": 8}
        starts = [
            t["data_offsets"][0] % sizes[t["dtype"]] for name, t in header.items() if name in {"X", "y", "time"}
        ]
        assert (length % 8, starts) == (0, [0, 0, 0])


def test_targets_are_float32_or_float64() -> None:
    for dtype in (F4, np.float64):
        y = np.array([0.1, 2], dtype)
        found = decode(message({"y": y}, labels=None), task="regression")
        assert (found.y.tolist(), found.labels) == (y.astype(float).tolist(), ())


def test_times_are_missing_where_a_message_has_none() -> None:
    timed = message({"time": np.array([1.5, 1.7e12])})
    found = decode(message(), timed)
    np.testing.assert_array_equal(found.times, [NAN, NAN, 1.5, 1.7e9])
    assert decode(message()).times.shape == (0,)


def test_records_are_counted_as_they_are_decoded() -> None:
    none = message({"X": np.zeros((0, 2), F4), "y": np.zeros(0, I4)})
    for one, records in ((message(), 2), (none, 0), (message()[:-1], 1), (b"no", 1), (None, 1)):
        found = decode(one)
        assert Packed("classification").count(one) == records == len(found.positions) + len(found.rejected)


def test_columns_are_those_of_all_messages() -> None:
    found = decode(message(), message(features=["c", "b"]), message(features=["b", "a"]))
    assert found.features == ("a", "b", "c")
    expected = [[1, 2, NAN], [3, NAN, NAN], [NAN, 2, 1], [NAN, NAN, 3], [2, 1, NAN], [NAN, 3, NAN]]
    np.testing.assert_array_equal(found.X, expected)


def test_labels_are_those_that_occur_under_one_numbering() -> None:
    ten = message({"y": np.array([0, 2], I4)}, labels=["10", "unused", " 9 "])
    nine = message({"y": np.array([1, 0], I4)}, labels=["8", "9"])
    found = decode(ten, nine)
    assert (found.labels, found.y.tolist()) == (("8", "9", "10"), [2.0, 1.0, 1.0, 0.0])


def test_bad_records_are_rejected_one_by_one() -> None:
    X = np.array([[1, 2], [INF, 2], [1, -INF], [1, 2], [1, 2], [5, 6]], F4)
    y = np.array([1, 0, 0, 2, -1, 1], I4)
    found = Packed("classification").decode([2, 3], [message({"X": X, "y": y}), message()])
    assert found.positions.tolist() == [2 * AT, 2 * AT + 5, 3 * AT, 3 * AT + 1]
    assert found.X[:, 0].tolist() == [1.0, 5.0, 1.0, 3.0]
    assert [(r.position - 2 * AT, r.reason[:32]) for r in found.rejected] == [
        (1, 'feature "a" is infinite'),
        (2, 'feature "b" is infinite'),
        (3, "label 2 is not in the list of la"),
        (4, "label -1 is not in the list of l"),
    ]


def test_a_time_that_is_none_costs_no_record() -> None:
    time = np.array([1.7e9, INF])
    found = decode(message({"X": np.ones((2, 2), F4), "y": np.zeros(2, I4), "time": time}))
    np.testing.assert_array_equal(found.times, [1.7e9, NAN])
    assert found.rejected == ()
    assert "the reason for the first one: the time inf is not a date" in found.remarks[0]


def test_an_index_is_judged_by_the_list_of_its_own_message() -> None:
    one = message({"y": np.array([0, 1], I4)}, labels=["no"])
    found = decode(message(), one)
    assert [r.position for r in found.rejected] == [AT + 1]
    assert (found.y.tolist(), found.labels) == ([1.0, 0.0, 0.0], ("no", "yes"))


def test_bad_targets_are_rejected_one_by_one() -> None:
    y = np.array([NAN, INF, -INF, 0.5])
    found = decode(message({"X": np.ones((4, 2), F4), "y": y}, labels=None), task="regression")
    assert [(r.position, r.reason) for r in found.rejected] == [
        (0, "the label is missing"),
        (1, "the label is infinite"),
        (2, "the label is infinite"),
    ]
    assert (found.positions.tolist(), found.y.tolist()) == ([3], [0.5])


def test_a_packed_message_without_records_gives_no_record() -> None:
    empty = message({"X": np.empty((0, 2), F4), "y": np.empty(0, I4)})
    found = decode(empty, message())
    assert (found.positions.tolist(), found.rejected) == ([AT, AT + 1], ())
    nothing = decode()
    assert (nothing.X.shape, nothing.labels, nothing.features) == ((0, 0), (), ())


def with_header(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensors(
    X: list[int], y: list[int], shape: tuple[int, ...] = (2, 2), n: tuple[int, ...] = (2,), size: int = 24
) -> bytes:
    metadata = {"features": '["a","b"]', "labels": '["no","yes"]'}
    header = {
        "__metadata__": metadata,
        "X": {"dtype": "F32", "shape": shape, "data_offsets": X},
        "y": {"dtype": "I32", "shape": n, "data_offsets": y},
    }
    return with_header(header, b"\0" * size)


def short_of_an_array() -> bytes:
    """Return a message whose last array leads back, so that its end is not the end of all."""
    back = {"dtype": "F32", "shape": [2], "data_offsets": [24, 16]}
    header = json.loads(tensors([0, 16], [16, 24])[8:-24])
    return with_header({**header, "Z": back}, b"\0" * 16)


def empty(length: int) -> bytes:
    """Return a message without records whose header says that it has this length."""
    text = tensors([0, 0], [0, 0], shape=(0, 2), n=(0,), size=0)[8:]
    return length.to_bytes(8, "little") + text.ljust(min(length, 17 * 2**20))


WHOLE = message()
MANY = AT + 1
POISON = {
    "nothing": (None, "empty"),
    "no bytes": (b"", "empty"),
    "a few bytes": (b"abc", "not safetensors"),
    "JSON": (b'{"label":"a","x":1,"more":"a longer text"}', "not safetensors"),
    "cut": (WHOLE[:-1], "bytes, but its header describes"),
    "cut header": (WHOLE[:100], "not safetensors"),
    "more": (WHOLE + b"\0", "bytes, but its header describes"),
    "length without end": (b"\xff" * 8 + WHOLE[8:], "not safetensors"),
    "header no JSON": (with_header(b"{not json"), "not safetensors"),
    "header not UTF-8": (with_header(b'{"\xff":1}'), "not safetensors"),
    "header a list": (with_header([1]), "not safetensors"),
    "header too deep": (with_header(b'{"X":' + b"[" * 10**5 + b"]" * 10**5 + b"}"), "not safetensors"),
    "negative offsets": (tensors([-16, 0], [0, 8]), "not safetensors"),
    "beyond the message": (tensors([0, 16], [16, 24], size=23), "bytes, but its header describes"),
    "far beyond": (tensors([0, 2**62], [2**62, 2**62 + 8]), "does not match its shape"),
    "backwards": (tensors([16, 0], [0, 8]), "not safetensors"),
    "backwards at the end": (short_of_an_array(), "not safetensors"),
    "header ends later": (empty(2**40)[:300], "not safetensors"),
    "header beyond measure": (empty(17 * 2**20), "not safetensors"),
    "overlapping": (tensors([0, 16], [8, 16], size=16), "not safetensors"),
    "a gap": (tensors([0, 16], [20, 28], size=28), "not safetensors"),
    "huge shape": (tensors([0, 16], [16, 24], shape=(2**40, 2**40)), "does not match its shape"),
    "shape too large to be a number": (tensors([0, 16], [16, 24], shape=(10**30, 2)), "array|not safetensors"),
    "no X": (message({"X": None}), "no array X"),
    "no y": (message({"y": None}), "no array y"),
    "X float64": (message({"X": np.ones((2, 2))}), '"F64", not F32'),
    "X flat": (message({"X": np.ones(2, F4)}), "shape"),
    "y float": (message({"y": np.ones(2, F4)}), '"F32", not I32'),
    "y int64": (message({"y": np.ones(2, np.int64)}), '"I64", not I32'),
    "y too long": (message({"y": np.ones(3, I4)}), "shape"),
    "y a matrix": (message({"y": np.ones((2, 1), I4)}), "shape"),
    "time float32": (message({"time": np.ones(2, F4)}), '"F32", not F64'),
    "time too long": (message({"time": np.ones(3)}), "shape"),
    "no features": (message(features=None), "no list of features"),
    "no labels": (message(labels=None), "no list of labels"),
    "features no JSON": (message(features="a,b"), "not a JSON list"),
    "features numbers": (message(features=[1, 2]), "not a JSON list"),
    "too few names": (message(features=["a"]), "1 names of features for 2 columns"),
    "one name twice": (message(features=["a", "a"]), "the same name: a"),
    "one label twice": (message(labels=["a", " a"]), "two labels have the same name: a"),
    "label missing": (message(labels=["a", ""]), 'label 1 is "": the label is missing'),
    "label infinite": (message(labels=["inf", "a"]), "infinite"),
    "too many labels": (message(labels=list(map(str, range(1025)))), "1025 labels, but at most 1024"),
    "a label too long": (message(labels=["a", "x" * 257]), "the label has more than 256 bytes"),
    "too many records": (message({"X": np.ones((MANY, 1), F4), "y": np.zeros(MANY, I4)}, features=["a"]), "65537"),
}


@pytest.mark.parametrize("case", POISON)
def test_a_poison_message_is_one_rejection_and_harms_no_neighbour(case: str) -> None:
    value, says = POISON[case]
    found = Packed("classification").decode([3, 7, 8], [WHOLE, value, WHOLE])
    assert [r.position for r in found.rejected] == [7 * AT]
    assert any(part in found.rejected[0].reason for part in says.split("|"))
    assert found.positions.tolist() == [3 * AT, 3 * AT + 1, 8 * AT, 8 * AT + 1]
    np.testing.assert_array_equal(found.X, [[1.0, 2.0], [3.0, NAN]] * 2)
    assert (found.y.tolist(), found.labels) == ([1.0, 0.0, 1.0, 0.0], ("no", "yes"))


def test_a_packed_message_of_classes_is_refused_where_targets_are_needed() -> None:
    found = decode(WHOLE, task="regression")
    assert [r.reason for r in found.rejected] == ['array y is of type "I32", not F32 or F64']


def test_packed_messages_of_the_most_records_keep_their_positions_apart() -> None:
    full = Packed("regression").encode(("a",), np.zeros((AT, 1)), np.arange(AT), ())
    found = decode(full, full, task="regression")
    np.testing.assert_array_equal(found.positions, np.arange(2 * AT))


def test_a_header_is_looked_at_once_and_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    from streamfl.records.formats import packed

    looked: list[bytes] = []
    monkeypatch.setattr(packed, "layout", lambda head, task, limits: looked.append(head) or real(head, task, limits))
    real = __import__("streamfl.records.formats.packed_layout", fromlist=["layout"]).layout
    reader = Packed("classification")
    reader.decode(range(4), [WHOLE] * 4)
    assert len(looked) == 1
    others = [message(labels=["no", f"yes {i}"]) for i in range(40)]
    reader.decode(range(41), [*others, WHOLE])
    assert len(looked) == 42  # the first header had been forgotten
    assert len(reader._layouts) == 32


def test_what_would_not_read_back_is_not_written() -> None:
    pack = Packed("classification").encode
    X, y = np.ones((2, 2)), np.zeros(2)
    with pytest.raises(UsageError, match="1 names of features for 2 columns"):
        pack(("a",), X, y, ("no",))
    with pytest.raises(UsageError, match="array y has the shape"):
        pack(("a", "b"), X, y[:1], ("no",))
    with pytest.raises(UsageError, match="65537 records"):
        pack(("a",), np.ones((MANY, 1)), np.zeros(MANY), ("no",))
    with pytest.raises(UsageError, match="two labels have the same name"):
        pack(("a", "b"), X, y, ("no", "no"))
    with pytest.raises(UsageError, match="array time"):
        pack(("a", "b"), X, y, ("no",), np.zeros(3))


def test_a_number_too_large_for_float32_is_a_bad_record() -> None:
    found = decode(Packed("classification").encode(("a",), np.array([[1e39], [1.0]]), np.zeros(2), ("no",)))
    assert [r.reason for r in found.rejected] == ['feature "a" is infinite']


def test_features_beyond_the_limit_are_left_out_and_their_records_kept() -> None:
    reader = Packed("classification", Limits(features=3))
    other = message({"X": np.array([[5, 6, 7], [8, 9, 10]], F4)}, features=["c", "b", "d"])
    found = reader.decode([0, 1], [message(), other])
    assert found.features == ("a", "b", "c")
    np.testing.assert_array_equal(found.X, [[1, 2, NAN], [3, NAN, NAN], [NAN, 6, 5], [NAN, 9, 8]])
    assert (found.rejected, found.ignored, len(found.remarks)) == ((), 2, 1)
    assert reader.decode([2], [other]).ignored == 0  # the limit is of one block: no names are kept


def test_a_feature_whose_name_is_too_long_is_left_out() -> None:
    found = decode(message(features=["a", "x" * 257]))
    assert (found.features, found.X.tolist(), found.ignored) == (("a",), [[1.0], [3.0]], 2)


def test_records_of_labels_beyond_the_limit_are_rejected() -> None:
    reader = Packed("classification", Limits(labels=2))
    found = reader.decode([0, 1], [message(), message(labels=["maybe", "yes"])])
    assert (found.positions.tolist(), found.labels) == ([0, 1, AT], ("no", "yes"))
    assert [(r.position, r.reason) for r in found.rejected] == [
        (AT + 1, 'label "maybe" is beyond the limit of 2 labels')
    ]
    fresh = reader.fresh()
    assert fresh.decode([0], [message(labels=["maybe", "yes"])]).labels == ("maybe", "yes")
    assert len(fresh.decode([0], [message()]).rejected) == 1  # it has the same limit


def test_a_bad_record_brings_no_label() -> None:
    no, yes = (
        message({"X": np.array([[x, 1]], F4), "y": np.zeros(1, I4)}, labels=[y])
        for x, y in ((np.inf, "no"), (1, "yes"))
    )
    found = Packed("classification", Limits(labels=1)).decode([0, 1], [no, yes])
    assert (found.positions.tolist(), found.labels) == ([AT], ("yes",))
    assert [r.reason for r in found.rejected] == ['feature "a" is infinite']


def test_long_headers_are_not_remembered() -> None:
    reader = Packed("classification")
    wide = message({"X": np.ones((2, 2000), F4)}, features=[f"{i:0200}" for i in range(2000)])
    assert reader.decode([0], [wide]).X.shape == (2, 2000)
    assert not reader._layouts


def test_records_without_labels_need_no_y_and_read_none():
    X = np.array([[1.0, 2.0], [3.0, np.nan]])
    labelled = Packed("classification").encode(("a", "b"), X, np.array([1, 0]), ("no", "yes"))
    bare = safetensors.numpy.save({"X": X.astype("<f4")}, metadata={"features": '["a","b"]'})
    for message in (labelled, bare):
        found = Packed("unlabelled").decode([3], [message])
        np.testing.assert_array_equal(found.X, X)
        assert (found.features, found.labels, found.y.tolist(), found.rejected) == (("a", "b"), (), [0.0, 0.0], ())
    assert Packed("classification").decode([3], [bare]).rejected[0].reason == "there is no array y"
