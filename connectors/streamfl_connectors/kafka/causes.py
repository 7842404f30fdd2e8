"""Finds why kafka-python could not make a client: it logs the cause, and raises only a timeout."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from kafka import errors as kafka_errors

from streamfl_connectors.kafka import tls

# Errors that decide wherever they are among the causes: the brokers answered, and refused.
REFUSALS = (kafka_errors.SaslAuthenticationFailedError, kafka_errors.UnsupportedSaslMechanismError)


class _Collected(logging.Handler):
    """Collects kafka-python's log records while a client is being made."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def causes(self) -> list[Exception]:
        every = (record.args for record in self.records)
        return [arg for args in every if isinstance(args, tuple) for arg in args if isinstance(arg, Exception)]


@contextmanager
def raised() -> Iterator[None]:
    """Raise the cause of a timeout instead of the timeout; its log records are dropped then.

    Raises
    ------
    Exception
        A refusal of the log-in or of a certificate if there was one, else the last error that kafka-python logged.
    """
    log, collected = logging.getLogger("kafka"), _Collected()
    propagated, log.propagate = log.propagate, False
    log.addHandler(collected)
    try:
        yield
    except kafka_errors.KafkaTimeoutError as error:
        cause = _cause(collected.causes, error)
        collected.records.clear()
        raise cause from error
    finally:
        log.removeHandler(collected)
        log.propagate = propagated
        for record in collected.records:
            logging.getLogger(record.name).handle(record)


def _cause(causes: list[Exception], error: Exception) -> Exception:
    """Return the most specific cause: a refusal, else the last error that is not a timeout itself."""
    waits = (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError)
    refusals = [cause for cause in causes if isinstance(cause, REFUSALS) or tls.fault(cause)]
    others = [cause for cause in causes if not isinstance(cause, waits)]
    if not refusals and others and all(_is_log_in_cut_off(cause) for cause in others):
        refused: Exception = kafka_errors.SaslAuthenticationFailedError("the brokers hang up on it, every time")
        refused.__cause__ = others[-1]
        return refused
    return (refusals or others or [error])[-1]


def _is_log_in_cut_off(cause: Exception) -> bool:
    """Tell whether a connection ended between a password and the answer to it.

    Brokers answer and close the connection. kafka-python 3.0.12 may handle the end first; then only its own stack
    frames show that the log-in was refused.
    """
    frames = (frame for frame, _ in traceback.walk_tb(cause.__traceback__))
    return any(frame.f_code.co_name == "_sasl_authenticate" and "auth_request" in frame.f_locals for frame in frames)
