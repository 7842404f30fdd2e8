"""Reads messages in Protobuf by the descriptor of their schema, which a registry gives as bytes."""

import base64

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from streamfl.records.formats.unframed import Read, UnreadableError


def protobuf(descriptor: str) -> Read:
    """Return what reads messages of a schema: a `FileDescriptorProto` in base64, without imports."""
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(descriptor, validate=True))
    file.name = file.name or "schema.proto"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    top = [pool.FindFileByName(file.name).message_types_by_name[one.name] for one in file.message_type]

    def read(message: bytes) -> bytes:
        path, at = _path(message)
        kind = top[path[0]]
        for i in path[1:]:
            kind = kind.nested_types[i]
        record = message_factory.GetMessageClass(kind).FromString(message[at:])
        text: str = json_format.MessageToJson(
            record, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        return text.encode()

    return read


def _path(message: bytes) -> tuple[list[int], int]:
    r"""Return which message of the file it is, and where it begins.

    >>> _path(b"\x00abc"), _path(b"\x04\x02\x00abc")
    (([0], 1), ([1, 0], 3))
    """
    count, at = _number(message, 0)
    if not count:
        return [0], at
    path = []
    for _ in range(min(count, 100)):
        number, at = _number(message, at)
        path.append(number)
    return path, at


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag number, and where it ends."""
    value = 0
    for i, byte in enumerate(message[at : at + 5]):
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            if value & 1:
                raise UnreadableError("a message of the schema has a number below 0")
            return value >> 1, at + i + 1
    raise UnreadableError("it does not say which message of its schema it is")
