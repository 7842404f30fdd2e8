"""What a request of the V2 inference protocol asks, and its answer: bytes in, bytes out, and a model between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec
import numpy as np

from streamfl.arrays import FloatArray
from streamfl.bounds import bounded
from streamfl.errors import PeerError, StreamflError
from streamfl.live.answering import Answering
from streamfl.live.http.tensors import (
    NUMBERS,
    TEXTS,
    Shape,
    bytes_of_numbers,
    bytes_of_texts,
    numbers_of_bytes,
    numbers_of_json,
    texts_of_bytes,
    texts_of_json,
)
from streamfl.records.encoding import Encoding
from streamfl.records.values.cells import Cells, listed, quoted
from streamfl.run.model_file import ServedModel

PREDICTION, PROBABILITIES = "prediction", "probabilities"


class TooLargeError(StreamflError):
    """A request, or its answer, is larger than a limit."""


@dataclass(frozen=True)
class RequestLimits:
    """What one request may take."""

    # The most bytes of its body, of its records as features of FP64, and of the probabilities that answer it.
    most_bytes: int = 16 * 2**20
    most_records: int = 10_000  # the most records in it

    # The most requests that are answered at the same time; others are refused until one has ended. All that are read
    # have at most this many times `most_bytes`.
    at_once: int = 16
    seconds: float = 30.0  # the longest that a body may take to arrive


_Id = Annotated[str, msgspec.Meta(max_length=1024)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class _SharedMemory(msgspec.Struct, frozen=True):
    shared_memory_region: str | None = None


class _OfInput(_SharedMemory, frozen=True):
    binary_data_size: _Count | None = None


class _Input(msgspec.Struct, frozen=True):
    name: str
    shape: list[_Count]
    datatype: str
    parameters: _OfInput = _OfInput()
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _OfOutput(_SharedMemory, frozen=True):
    binary_data: bool | None = None
    classification: int = 0


class _Output(msgspec.Struct, frozen=True):
    name: str
    parameters: _OfOutput = _OfOutput()


class _OfRequest(msgspec.Struct, frozen=True):
    binary_data_output: bool = False
    missing: Literal["raise", "mean"] = "raise"
    client: str | None = None


class _Request(msgspec.Struct, frozen=True):
    inputs: list[_Input]
    id: _Id | None = None
    outputs: list[_Output] = []
    parameters: _OfRequest = _OfRequest()


_REQUEST = msgspec.json.Decoder(_Request)


@dataclass(frozen=True, eq=False)
class InferRequest:
    """A request that was read."""

    columns: Mapping[str, Cells]  # the cells of each column, by name
    records: int  # how many records there are
    outputs: Mapping[str, bool]  # the outputs to answer with, and whether each is wanted as bytes
    # `raise`: columns that are not sent are refused. `mean`: they count as their means.
    missing: Literal["raise", "mean"]
    # The client whose records they are, if one is named; else the model's `client_column` names each record's.
    client: str | None
    id: str | None  # the request's name
    warning: str = ""  # what the answer warns of: see `ServedModel.unnamed`, and `predicted`

    @classmethod
    def of(cls, body: bytes, header: int | None, model: ServedModel, limits: RequestLimits) -> "InferRequest":
        """Read a request.

        Parameters
        ----------
        body
            JSON, and then the bytes of those tensors that are sent so.
        header
            The bytes of the JSON; None if there is nothing else.

        Raises
        ------
        PeerError
            It is not a request that this model can answer.
        TooLargeError
            It has too many records, or its answer would be too large.
        UsageError
            The model does not know its columns.
        """
        header = len(body) if header is None else header
        if header > len(body):
            raise PeerError(f"the JSON should have {header} bytes, but the body has only {len(body)}")
        try:
            request = _REQUEST.decode(memoryview(body)[:header])
        except RecursionError:
            raise PeerError("the JSON is nested too deeply") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise PeerError(f"no request for inference: {error}") from error
        asked = request.parameters
        sent, records = _columns(request.inputs, memoryview(body)[header:], model.encoding, limits)
        columns = model.with_client(sent, records, asked.client)
        model.check_names(tuple(columns), missing=asked.missing)
        outputs = _outputs(request, model)
        if PROBABILITIES in outputs and (size := 8 * records * len(model.labels)) > limits.most_bytes:
            why = f"{PROBABILITIES} would have {size} bytes, more than {limits.most_bytes}"
            raise TooLargeError(f"{why}; send fewer records, or ask for {PREDICTION} alone")
        warning = bounded(model.clients_of_records.warning(columns, asked.client))
        return cls(columns, records, outputs, asked.missing, asked.client, request.id, warning)

    def warned(self, more: str) -> "InferRequest":
        """Return the same request, whose answer warns of more."""
        return replace(self, warning=bounded("; ".join(filter(None, (self.warning, more))))) if more else self

    def to(self, model: ServedModel, limits: RequestLimits) -> "InferRequest":
        """Return the same request to another model: its columns go by their names, also those of a matrix.

        Raises
        ------
        PeerError, TooLargeError, UsageError
            As in `of`.
        """
        columns = model.with_client(self.columns, self.records, self.client)
        model.check_names(tuple(columns), missing=self.missing)
        _check_size(self.records, len(model.encoding.features), limits)
        for name, cells in columns.items():
            try:
                _check_kind(name, TEXTS if isinstance(cells, list) else "FP64", model.encoding)
            except PeerError as error:
                raise PeerError(f"input {quoted(name)}: {error}") from error
        return replace(self, columns=columns)


def matrix_of(encoding: Encoding) -> str | None:
    """Return the name of the tensor that may hold all columns; None if some are texts.

    >>> matrix_of(Encoding(("x", "features"), {})), matrix_of(Encoding(("colour=red",), {"colour": ("red",)}))
    ('features_', None)
    """
    if encoding.categories or encoding.times:
        return None
    name = "features"
    while name in encoding.columns:
        name += "_"
    return name


def _columns(
    inputs: Sequence[_Input], binary: memoryview, encoding: Encoding, limits: RequestLimits
) -> tuple[dict[str, Cells], int]:
    """Return the columns of the tensors of a request, and the number of records."""
    if not inputs:
        raise PeerError("the request has no inputs")
    matrix, columns, records, at = matrix_of(encoding), dict[str, Cells](), None, 0
    known = {*encoding.columns, *encoding.features, *encoding.others}
    for tensor in inputs:
        whole = tensor.name == matrix
        if tensor.name not in known and not whole:
            raise PeerError(f"the model does not know {quoted(tensor.name)}; it knows {listed(encoding.columns)}")
        if tensor.name in columns:
            raise PeerError(f"the input {quoted(tensor.name)} is there twice")
        if whole and len(inputs) > 1:
            raise PeerError(f"the input {matrix} holds all columns; send no other input with it")
        try:
            shape = _shape(tensor, len(encoding.columns) if whole else 1, whole)
            _check_size(shape[0], len(encoding.features), limits)
            until = at + (tensor.parameters.binary_data_size or 0)
            cells = _cells(tensor, shape, binary[at:until], encoding)
        except PeerError as error:
            raise PeerError(f"input {quoted(tensor.name)}: {error}") from error
        if records not in (None, shape[0]):
            raise PeerError(f"the inputs have {records} and {shape[0]} records; all inputs need the same number")
        records, at = shape[0], until
        if isinstance(cells, np.ndarray) and whole:
            columns.update({name: cells[:, j] for j, name in enumerate(encoding.columns)})
        else:
            columns[tensor.name] = cells.ravel() if isinstance(cells, np.ndarray) else cells
    if at != len(binary):
        raise PeerError(f"the inputs name {at} bytes after the JSON, but there are {len(binary)}")
    return columns, records or 0


def _shape(tensor: _Input, width: int, whole: bool) -> Shape:
    """Return the shape of a tensor: (n,) or (n, 1) for a column, (n, d) for all of them."""
    shape = tuple(tensor.shape[:3])
    if len(shape) not in ((2,) if whole else (1, 2)) or shape[1:] not in ((), (width,)):
        wanted = f"[n, {width}]" if whole else "[n] or [n, 1]"
        raise PeerError(f"shape {list(shape)}{'..' * (len(tensor.shape) > 3)}, but it must be {wanted}")
    if not shape[0]:
        raise PeerError("there are no records")
    return shape


def _check_size(records: int, features: int, limits: RequestLimits) -> None:
    if records > limits.most_records:
        raise TooLargeError(f"{records} records, more than {limits.most_records}; send fewer at a time")
    if (size := 8 * records * features) > limits.most_bytes:  # a truth value in a byte becomes eight of them
        what = f"{records} records of {features} features are {size} bytes as FP64, more than {limits.most_bytes}"
        raise TooLargeError(f"{what}; send fewer at a time")


def _cells(tensor: _Input, shape: Shape, binary: memoryview, encoding: Encoding) -> Cells:
    """Return the cells of a tensor: texts as a list, numbers as an array of its shape."""
    size, datatype = tensor.parameters.binary_data_size, tensor.datatype
    if tensor.parameters.shared_memory_region is not None:
        raise PeerError("shared memory is not supported")
    if (size is None) == (tensor.data is msgspec.UNSET):
        raise PeerError("it needs either data, or bytes after the JSON, named by the parameter binary_data_size")
    if size is not None and size != len(binary):
        raise PeerError(f"it names {size} bytes, but only {len(binary)} follow the JSON")
    if datatype not in (TEXTS, *NUMBERS):
        raise PeerError(f"there is no such datatype: {quoted(datatype)}; use one of {', '.join((TEXTS, *NUMBERS))}")
    _check_kind(tensor.name, datatype, encoding)
    if size is not None:
        given = binary
        return texts_of_bytes(given, shape[0]) if datatype == TEXTS else numbers_of_bytes(given, datatype, shape)
    data = bytes(tensor.data)  # type: ignore[arg-type]  # a buffer, which msgspec does not say
    return texts_of_json(data, shape) if datatype == TEXTS else numbers_of_json(data, datatype, shape)


def _check_kind(column: str, datatype: str, encoding: Encoding) -> None:
    is_text, is_free = column in encoding.categories, {*encoding.others, *encoding.times}
    if column not in is_free and (datatype == TEXTS) != is_text:
        kind, needed = ("texts", TEXTS) if is_text else ("numbers", "FP64")
        raise PeerError(f"it holds {kind}: send them as {needed}, not as {datatype}")


def _outputs(request: _Request, model: ServedModel) -> dict[str, bool]:
    """Return the outputs of an answer, and whether each is wanted as bytes."""
    known = [output["name"] for output in _told_outputs(model)]
    default, wanted = request.parameters.binary_data_output, dict[str, bool]()
    for output in request.outputs:
        if output.name not in known:
            raise PeerError(f"no such output: {quoted(output.name)}; there is {', '.join(map(str, known))}")
        if output.name in wanted:
            raise PeerError(f"the output {output.name} is asked for twice")
        asked = output.parameters
        if asked.shared_memory_region is not None or asked.classification:
            raise PeerError(f"output {output.name}: shared memory and classification are not supported")
        wanted[output.name] = default if asked.binary_data is None else asked.binary_data
    return wanted or {str(name): default for name in known}


def predicted(asked: InferRequest, model: ServedModel) -> tuple[FloatArray, str]:
    """Return probabilities, shape (n, labels), or targets, shape (n, 1); and a warning of what cannot be read.

    Raises
    ------
    PeerError
        A feature is there twice, once as a value of its column.
    """
    features, X, odd = model.encoding.encoded(asked.columns)
    if len(set(features)) != len(features):
        raise PeerError("a text column is sent both as texts and as numbers of its values: send one of them")
    with np.errstate(over="ignore"):  # what is that far out is clipped
        predictions = model.predictions(
            features, X, model.clients_of_records.rows(asked.columns, asked.records, asked.client)
        )
    return predictions, "; ".join(_unread(name, wrong, asked.records) for name, wrong in odd.items())


def _unread(column: str, wrong: Mapping[int, str], records: int) -> str:
    first = min(wrong)
    what = f"{len(wrong)} of {records} cells cannot be read and count as missing"
    return f"input {quoted(column)}: {what}; the first one, of record {first}: {wrong[first]}"


def answer(asked: InferRequest, answering: Answering, name: str, predictions: FloatArray) -> tuple[bytes, int | None]:
    """Return the body of the answer, and the bytes of its JSON if others follow."""
    model, told, binary = answering.model, list[dict[str, object]](), list[bytes]()
    for output, as_bytes in asked.outputs.items():
        values = _values(output, predictions, model)
        datatype = TEXTS if isinstance(values, list) else "FP64"
        tensor: dict[str, object] = {"name": output, "datatype": datatype, "shape": np.shape(values)}
        if as_bytes:
            binary.append(bytes_of_texts(values) if isinstance(values, list) else bytes_of_numbers(values))
            tensor["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            tensor["data"] = values if isinstance(values, list) else values.ravel().tolist()
        told.append(tensor)
    head = msgspec.json.encode(
        {
            "model_name": name,
            "model_version": answering.version,
            **({} if asked.id is None else {"id": asked.id}),
            "parameters": {
                "epoch": answering.epoch,
                "entry": answering.entry,
                **({"warning": asked.warning} if asked.warning else {}),
            },
            "outputs": told,
        }
    )
    return b"".join([head, *binary]), len(head) if binary else None


def _values(output: str, predictions: FloatArray, model: ServedModel) -> list[str] | FloatArray:
    if output == PROBABILITIES:
        return predictions
    return predictions[:, 0] if model.task == "regression" else list(map(str, model.decided(predictions)))


def metadata(
    name: str, answering: Answering, versions: Sequence[Answering], figures: Mapping[str, object]
) -> dict[str, object]:
    """Return what a model takes and returns, as the protocol tells it."""
    model, encoding = answering.model, answering.model.encoding
    matrix, texts = matrix_of(encoding), {*encoding.categories, *encoding.times}
    return {
        "name": name,
        "versions": [one.version for one in versions],
        "platform": "streamfl",
        "inputs": [
            {"name": column, "datatype": TEXTS if column in texts else "FP64", "shape": [-1]}
            for column in encoding.columns
        ],
        "outputs": _told_outputs(model),
        "parameters": {
            "epoch": answering.epoch,
            "entry": answering.entry,
            # one tensor of shape [-1, inputs] may replace all inputs; its columns are in their order
            **({} if matrix is None else {"matrix": matrix}),
            **figures,
        },
    }


def _told_outputs(model: ServedModel) -> list[dict[str, object]]:
    if model.task == "regression":
        return [{"name": PREDICTION, "datatype": "FP64", "shape": [-1]}]
    return [
        {"name": PREDICTION, "datatype": TEXTS, "shape": [-1]},
        {
            "name": PROBABILITIES,
            "datatype": "FP64",
            "shape": [-1, len(model.labels)],
            "parameters": {"labels": model.labels},
        },
    ]
