"""Every message through its bytes and back; what is no message is refused, whatever it is."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from suites.examples import examples

import streamfl
from streamfl.errors import PeerError
from streamfl.learning.influence import Influence
from streamfl.protocol.external.tables import ExportedTable, Rule
from streamfl.protocol.messages import (
    Accepted,
    FromClient,
    FromCoordinator,
    Join,
    Joined,
    Leave,
    Left,
    ModelPublished,
    Numbers,
    RegistryPublished,
    Restarted,
    RoundClosed,
    RoundOpened,
    Served,
    SlotLosses,
    TotalsAsked,
    Update,
)
from streamfl.protocol.messages.base import FieldGroup
from streamfl.protocol.moments import Moments
from streamfl.protocol.records import Span
from streamfl.protocol.registry import Registry
from streamfl.wire import codec, compact, messages

KINDS = sorted(messages.KINDS)

# A name that is `$array` alone is a reference to the codec; it is left out here and reported.
names = st.text(max_size=6).filter(lambda name: name != codec.REFERENCE)
arrays = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=3), elements=st.floats()
)


@st.composite
def tables(draw: st.DrawFn) -> ExportedTable:
    """Return a table whose names and values belong together."""
    rows, columns = (tuple(draw(st.lists(names, max_size=3, unique=True))) for _ in range(2))
    values = draw(hnp.arrays(np.float64, (len(rows), len(columns)), elements=st.floats()))
    return ExportedTable(draw(st.sampled_from(get_args(Rule))), rows, columns, values)


INTEGERS = st.integers(-(2**127), 2**127)  # a decoder takes no larger differences than of 140 bits


def strategy(kind: Any) -> st.SearchStrategy[Any]:
    """Return values of a field's type, arrays and nested values too."""
    origin, of = get_origin(kind), get_args(kind)
    if origin is np.ndarray:
        return arrays
    if origin in (Union, UnionType):
        return st.one_of(*map(strategy, of))
    if origin is tuple and of[-1] is not Ellipsis:
        return st.tuples(*map(strategy, of))
    if origin is tuple:
        return st.lists(strategy(of[0]), max_size=2).map(tuple)
    if origin is Literal:
        return st.sampled_from(of)
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(names, strategy(of[1]), max_size=2)
    if kind is ExportedTable:
        return tables()
    if is_dataclass(kind):
        return st.builds(kind, **{name: strategy(of_) for name, of_ in fields_of(kind).items()})
    plain = {int: INTEGERS, float: st.floats(), str: names, bool: st.booleans(), type(None): st.none()}
    return plain[kind]


def fields_of(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def same(a: Any, b: Any) -> bool:
    """Tell whether two values are equal to the last bit; NaN is equal to NaN."""
    if is_dataclass(a):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=True)
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))  # noqa: PLR0124  NaN


# --- there and back --------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_kind_comes_back_as_it_was(kind, data):
    message = data.draw(strategy(messages.KINDS[kind]))
    assert same(messages.decode(messages.encode(message)), message)


def test_all_that_is_said_has_a_kind_of_its_own():
    assert set(messages.KINDS.values()) == {*get_args(FromClient), *get_args(FromCoordinator)}
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", kind) for kind in KINDS)


def test_special_floats_and_any_script_survive():
    losses = {
        "step 16": SlotLosses(
            loss=float("inf"), square=float("nan"), proper=1e-300, history=-0.0, history_share=5e-324
        )
    }
    update = Update(
        client="Zürich/東京 \u202e\x00\n\"'",
        attempt="1-1",
        entry=2**60,
        round=1,
        epoch=1,
        registry=1,
        records=1,
        trained=1,
        rejected=0,
        spans=(Span("päivä", 0, 1),),
        numbers=Numbers(losses=losses, differences={"step 16": np.array([[np.nan, np.inf], [-np.inf, -0.0]])}),
        new_labels=("ß", "", "😀"),
    )
    again = messages.decode(messages.encode(update))
    assert same(again, update)
    assert isinstance(again, Update)
    assert np.signbit([again.numbers.losses["step 16"].history, again.numbers.differences["step 16"][1, 1]]).all()


@pytest.mark.parametrize("array", [np.ones((3, 2)).T, np.ones((4, 4))[::2, 1:3], np.asfortranarray(np.eye(3))])
def test_arrays_in_any_layout_arrive_as_they_read(array):
    message = ModelPublished(slot="m", version=1, registry=1, weights=array + np.arange(array.shape[1]))
    again = messages.decode(messages.encode(message))
    assert isinstance(again, ModelPublished)
    assert np.array_equal(again.weights, message.weights)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_messages_without_arrays_are_json_that_begins_with_the_type(kind, data):
    message = data.draw(strategy(messages.KINDS[kind]))
    _, held = codec.split(message)
    written = messages.encode(message)
    if held or isinstance(message, messages.MANY):
        assert written.startswith(compact.MAGIC)
        return
    plain = json.loads(written)
    assert next(iter(plain.items())) == ("type", kind)
    named = {"type", *(field.name for field in fields(message))}
    groups = {field.name for field in fields(message) if isinstance(getattr(message, field.name), FieldGroup)}
    assert set(plain) | codec.RARE | groups == named | codec.RARE


def test_a_mode_that_a_round_does_not_use_takes_no_bytes():
    plain = RoundOpened(entry=2, round=2, epoch=1, block=1, registry=1, slots=(), serves="m", known_labels=1)
    masked = replace(plain, totals=TotalsAsked(pooled=True, roster=3))
    written = [json.loads(messages.encode(opened)) for opened in (plain, masked)]
    assert not {"asks", "earlier", "totals"} & written[0].keys()
    assert written[1]["totals"] == {"pooled": True, "roster": 3}
    assert same(messages.decode(messages.encode(masked)), masked)


def test_control_messages_are_small_enough_to_read_along():
    closed = RoundClosed(
        entry=3,
        round=3,
        epoch=1,
        block=1,
        accepted=(Accepted(client="c0", attempt="1-3", spans=(Span("c0", 40, 60),), records=20, rejected=0),),
        records=20,
        trained=20,
        rejected=0,
        losses={"step 16": 0.25},
        serves="step 16",
        readings={},
        served=Served(),
        model="9f2c",
        registry=4,
    )
    text = messages.encode(closed).decode()
    assert text.startswith('{"type":"round-closed","entry":3,"round":3,')
    assert '"accepted":[{"client":"c0","attempt":"1-3","spans":[{"partition":"c0","start":40,"end":60}]' in text
    assert len(text) < 600


def test_what_a_client_was_right_in_takes_23_bytes_and_nothing_where_it_is_not_known():
    plain = Accepted(client="c0", attempt="1-3", spans=(), records=100, rejected=0)
    told = replace(plain, measured=(87.0, 43.0))
    assert len(codec.encode(told)) - len(codec.encode(plain)) == len(',"measured":[87.0,43.0]') == 23
    assert b"measured" not in codec.encode(plain)


@pytest.mark.parametrize("name", sorted(codec.RARE))
def test_who_is_called_as_a_field_that_may_be_left_out_is_not_left_out(name):
    joined = Joined(client=name, nonce="7f", incarnation=1, entry=1, positions={name: 7}, read=0)
    assert messages.decode(messages.encode(joined)) == joined
    restarted = Restarted(
        round=1, epoch=2, statistic=1.0, threshold=1.0, since=1, cause="excess", chosen="scratch",
        positions={name: (0, 1)}, scores={name: 0.5},
    )  # fmt: skip
    assert messages.decode(messages.encode(restarted)) == restarted
    again = replace(restarted, online_models_begin_again=True)
    assert messages.decode(messages.encode(again)) == again
    assert messages.size(again) - messages.size(restarted) == 33
    history = Influence({"steps": {name: np.ones(64)}, name: {}})
    found = codec.decode(Influence, codec.encode(history))
    assert found.histories["steps"][name].tolist() == [1.0] * 64
    assert found.histories[name] == {}


def test_fields_that_a_later_version_adds_are_ignored():
    data = b'{"type":"leave","client":"c0","nonce":"1","mood":"cheerful"}'
    assert messages.decode(data) == Leave(client="c0", nonce="1")


def test_fields_with_a_default_may_be_missing():
    message = messages.decode(
        b'{"type":"joined","client":"c","nonce":"7f","incarnation":1,"entry":1,"positions":{},"read":0}'
    )
    assert message == Joined(client="c", nonce="7f", incarnation=1, entry=1, positions={}, read=0)


# --- what is no message ----------------------------------------------------------------------------------------

LEFT = messages.encode(Left(client="c0", nonce="1"))
JOIN = messages.encode(
    Join(client="c0", nonce="1", moments=Moments(("x",), np.ones(1), np.zeros(1), np.ones(1)), labels=("a",))
)
MODEL = messages.encode(ModelPublished(slot="m", version=1, registry=1, weights=np.ones((2, 3))))
REGISTRY = messages.encode(RegistryPublished(registry=Registry(1, ("x",), ("a",), np.zeros(1), np.ones(1))))
WHOLE = {"left": LEFT, "join": JOIN, "model": MODEL, "registry": REGISTRY}


def refused(data: bytes) -> None:
    with pytest.raises(PeerError):
        messages.decode(data)


def decoded_or_refused(data: bytes) -> None:
    try:
        message = messages.decode(data)
    except PeerError:
        return
    assert type(message) in messages.TYPES


@given(st.binary(max_size=64))
def test_random_bytes_are_refused(data):
    refused(data)


@given(st.binary(max_size=40))
def test_random_json_and_random_headers_are_refused(data):
    refused(b"{" + data)
    refused(len(data).to_bytes(8, "little") + data)


@pytest.mark.parametrize("whole", WHOLE)
def test_bytes_cut_short_anywhere_are_refused(whole):
    for end in range(len(WHOLE[whole])):
        refused(WHOLE[whole][:end])


@pytest.mark.parametrize("whole", WHOLE)
@given(data=st.data())
def test_spoilt_bytes_are_refused_or_still_a_message(whole, data):
    spoilt = bytearray(WHOLE[whole])
    for _ in range(data.draw(st.integers(1, 3))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    decoded_or_refused(bytes(spoilt))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_fields_of_any_type_are_refused_or_fit(kind, data):
    of = messages.KINDS[kind]
    plain = {"type": kind} | {name: data.draw(json_values) for name in fields_of(of)}
    decoded_or_refused(json.dumps(plain).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"type":"shout"}',
        b'{"type":null,"client":"c0","nonce":"1"}',
        b'{"type":["leave"],"client":"c0","nonce":"1"}',
        b'{"client":"c0","nonce":"1"}',
        b'{"type":"leave"}',
        b'{"type":"leave","client":7,"nonce":"1"}',
        b'{"type":"leave","client":null,"nonce":"1"}',
        b'{"type":"joined","client":"c","nonce":"7f","incarnation":1,"entry":1.5,"positions":{},"read":0}',
        b'{"type":"joined","client":"c","nonce":"7f","incarnation":1,"entry":1,"positions":[],"read":0}',
        b'{"type":"joined","client":"c","nonce":"7f","incarnation":1,"entry":1,"positions":{"p":"x"},"read":0}',
        b'{"type":"joined","client":"c","nonce":"7f","incarnation":1,"entry":NaN,"positions":{},"read":0}',
        b'{"type":"model-published","slot":"m","version":1,"registry":1,"weights":[[1.0]]}',
        b'{"type":"model-published","slot":"m","version":1,"registry":1,"weights":{"$array":"0"}}',
        b"\xff\xfe{\x00}\x00",
        b"{" + b'"a":1,' * 3,
        LEFT + b"x",
        (2**63).to_bytes(8, "little") + b"{}",
    ],
)
def test_a_message_with_fields_that_do_not_fit_is_refused(data):
    refused(data)


def tensors(plain: object, **held: np.ndarray) -> bytes:
    return safetensors.numpy.save(held, metadata={codec.METADATA: json.dumps(plain)})


PLAIN_MODEL = {"type": "model-published", "slot": "m", "version": 1, "registry": 1, "weights": {"$array": "0"}}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_])
def test_arrays_of_another_type_are_refused(dtype):
    assert isinstance(messages.decode(tensors(PLAIN_MODEL, **{"0": np.ones((2, 2))})), ModelPublished)
    refused(tensors(PLAIN_MODEL, **{"0": np.ones((2, 2), dtype)}))


def test_references_to_arrays_that_are_not_there_are_refused():
    refused(tensors(PLAIN_MODEL, **{"1": np.ones((2, 2))}))
    refused(tensors({**PLAIN_MODEL, "weights": [1.0]}, **{"0": np.ones((2, 2))}))


def test_tensors_without_our_header_are_refused():
    refused(safetensors.numpy.save({"0": np.ones(2)}))
    refused(safetensors.numpy.save({"0": np.ones(2)}, metadata={"format": "np"}))
    refused(safetensors.numpy.save({"0": np.ones(2)}, metadata={codec.METADATA: "[1]"}))
    refused(safetensors.numpy.save({"0": np.ones(2)}, metadata={codec.METADATA: "{"}))


@pytest.mark.parametrize("dtype", ["F64", "F32", "BF16", "F8_E4M3", "U64", "X99"])
def test_headers_that_lie_are_refused(dtype):
    header = {"__metadata__": {codec.METADATA: json.dumps(PLAIN_MODEL)}}
    header |= {"0": {"dtype": dtype, "shape": [9, 9], "data_offsets": [0, 8]}}
    text = json.dumps(header).encode()
    refused(len(text).to_bytes(8, "little") + text + bytes(8))


# --- no pickle -------------------------------------------------------------------------------------------------


def test_nothing_is_ever_unpickled():
    """The word may stand in an error that refuses pickles; the module is imported nowhere, nor by NumPy for us."""
    sources = {path: path.read_text(encoding="utf-8") for path in Path(streamfl.__file__).parent.rglob("*.py")}
    assert len(sources) > 50
    forbidden = re.compile(
        r"^\s*(import|from)\s+(pickle|cPickle|_pickle|dill|cloudpickle|joblib|shelve|marshal)\b|allow_pickle\s*=\s*True",
        re.MULTILINE,
    )
    assert [str(path) for path, text in sources.items() if forbidden.search(text)] == []
