"""Names librdkafka's errors as kafka-python does, so that they are explained and tolerated in the same places."""

from confluent_kafka import KafkaError
from kafka import errors as kafka_errors

# Errors of librdkafka itself; those of brokers have the numbers of the protocol.
NO_ANSWER = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._SSL,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._WAIT_COORD,
    KafkaError._WAIT_CACHE,
}
UNKNOWN = {KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}

# How librdkafka says that another process has taken the name of this member: its own error, with these words.
FENCED = "fenced"


def as_kafka_python_error(error: KafkaError) -> kafka_errors.KafkaError:
    """Return an error as kafka-python's.

    >>> as_kafka_python_error(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    TopicAuthorizationFailedError('Broker: Topic authorization failed')
    >>> as_kafka_python_error(KafkaError(KafkaError._TRANSPORT)).retriable
    True
    """
    code, said = error.code(), error.str()
    if code in NO_ANSWER:
        return kafka_errors.KafkaConnectionError(said)
    if code in UNKNOWN:
        return kafka_errors.UnknownTopicOrPartitionError(said)
    if code == KafkaError._AUTHENTICATION:
        return kafka_errors.SaslAuthenticationFailedError(said)
    if code == KafkaError._FATAL and FENCED in said:
        return kafka_errors.FencedInstanceIdError(said)
    if code > 0:
        kind: type[kafka_errors.KafkaError] = kafka_errors.for_code(code)
        return kind(said)
    return kafka_errors.KafkaError(f"librdkafka: {said} ({error.name()})")
