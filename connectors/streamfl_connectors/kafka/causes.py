"""Why a client could not be made: kafka-python says so in its log only, and raises that time is up."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as kafka_errors

# What settles the question, wherever it stands among the causes: the brokers have answered, and said no.
REFUSALS = (kafka_errors.SaslAuthenticationFailedError, kafka_errors.UnsupportedSaslMechanismError)


class _Heard(logging.Handler):
    """Keeps what kafka-python tells its log, for as long as a client is being made."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def causes(self) -> list[Exception]:
        told = (record.args for record in self.records)
        return [arg for args in told if isinstance(args, tuple) for arg in args if isinstance(arg, Exception)]


@contextmanager
def told() -> Iterator[None]:
    """Raise the cause of a failure rather than that time is up; log nothing of it, it is in the error.

    Raises
    ------
    Exception
        Whatever kafka-python was told last, or a refusal of the log-in if there was any.
    """
    log, heard = logging.getLogger("kafka"), _Heard()
    propagated, log.propagate = log.propagate, False
    log.addHandler(heard)
    try:
        yield
    except kafka_errors.KafkaTimeoutError as error:
        cause = _cause(heard.causes, error)
        heard.records.clear()
        raise cause from error
    finally:
        log.removeHandler(heard)
        log.propagate = propagated
        for record in heard.records:
            logging.getLogger(record.name).handle(record)


def _cause(causes: list[Exception], error: Exception) -> Exception:
    """Return the cause that tells most: a refusal, else the last that is not itself a lack of time."""
    waits = (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError)
    refusals = [cause for cause in causes if isinstance(cause, REFUSALS)]
    others = [cause for cause in causes if not isinstance(cause, waits)]
    if not refusals and others and all(_ended_the_log_in(cause) for cause in others):
        refused: Exception = kafka_errors.SaslAuthenticationFailedError("the brokers hang up on it, every time")
        refused.__cause__ = others[-1]
        return refused
    return (refusals or others or [error])[-1]


def _ended_the_log_in(cause: Exception) -> bool:
    """Tell whether a connection ended between a password and the answer to it.

    Brokers answer, and hang up; kafka-python 3.0.12 may see to the latter first, and then all that is left of the
    refusal is where its own code was.
    """
    frames = (frame for frame, _ in traceback.walk_tb(cause.__traceback__))
    return any(frame.f_code.co_name == "_sasl_authenticate" and "auth_request" in frame.f_locals for frame in frames)
