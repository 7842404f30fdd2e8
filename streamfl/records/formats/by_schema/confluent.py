"""The record format of messages with a schema in a registry: Avro, JSON Schema or Protobuf in Confluent's framing."""

from typing import Self

from streamfl.bounds import NAMED, Limits
from streamfl.errors import UsageError
from streamfl.records.formats.by_schema.registry import KeptSchemas, NoSchemaError, SchemaRegistry
from streamfl.records.formats.field_map import FieldMap
from streamfl.records.formats.translated import Translated
from streamfl.records.formats.unframed import Read, UnreadableError

_HEAD = 5  # bytes: a zero, and the number of the schema


class Confluent(Translated):
    """Messages that begin with a zero and the number of their schema in a registry.

    Their fields are read as those of JSON objects are. Logical types of Avro are numbers, or times as text.

    Parameters
    ----------
    fields
        The roles of the fields, and the address of the registry.
    registry
        Another client of the registry, if there is one already.

    Raises
    ------
    UsageError
        There is no address, or the map names too much.
    """

    def __init__(self, fields: FieldMap, limits: Limits = NAMED, registry: SchemaRegistry | None = None) -> None:
        super().__init__(fields, limits)
        if registry is None and not fields.registry:
            raise UsageError('records.registry: format = "confluent" needs the address of the Schema Registry')
        self._registry = registry or SchemaRegistry(fields.registry)
        self._readers: KeptSchemas[Read | str] = KeptSchemas()

    def fresh(self) -> Self:
        """Return the same format without any names learnt from records."""
        return type(self)(self._fields, self._limits, self._registry)

    def plain(self, value: bytes | None) -> bytes | None:
        """Return a message as a JSON object, by its schema.

        Raises
        ------
        UsageError
            The registry does not answer.
        """
        if not value:
            return value
        if len(value) < _HEAD or value[0]:
            raise UnreadableError("it does not begin with a zero and the number of its schema, as Confluent has it")
        number = int.from_bytes(value[1:_HEAD])
        read = self._readers.get(number)
        if read is None:
            read = self._reader(number)
            self._readers.put(number, read)
        if isinstance(read, str):
            raise UnreadableError(read)
        try:
            return read(value[_HEAD:])
        except UnreadableError:
            raise
        except Exception as error:  # whatever a decoder of another package raises on bytes of others
            raise UnreadableError(f"it does not fit schema {number} ({type(error).__name__})") from None

    def _reader(self, number: int) -> Read | str:
        """Return what reads messages of a schema, or why nothing does."""
        try:
            schema = self._registry.fetched(number)
            match schema.schemaType:
                case "JSON":
                    return bytes
                case "AVRO":
                    from streamfl.records.formats.by_schema.avro import avro  # noqa: PLC0415  needs the extra registry

                    return avro(schema.schema)
                case "PROTOBUF":
                    from streamfl.records.formats.by_schema.protobuf import protobuf  # noqa: PLC0415

                    return protobuf(self._registry.fetched(number, "serialized").schema)
                case other:
                    return f"schema {number} is {other[:40]!r}, which is neither AVRO, JSON nor PROTOBUF"
        except NoSchemaError as error:
            return str(error)
        except ImportError as error:
            what = f'format = "confluent" needs the extra registry ({error.name})'
            raise UsageError(f"{what}; pip install 'streamfl[registry]'") from None
        except UsageError:
            raise
        except Exception as error:  # whatever another package raises on a schema of others
            return f"schema {number} cannot be used ({type(error).__name__}: {str(error)[:100]})"
