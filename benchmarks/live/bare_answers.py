"""The bare loop to compare `streamfl score` with: polls, decodes, fills rows, writes a message a record; no models.

    python benchmarks/live/bare_answers.py BOOTSTRAP TOPIC json|packed MESSAGES TO BYTES once|twice

reads so many messages of TOPIC, writes BYTES for each record to TO, and commits after each poll: in a transaction, so
that each record is answered once, or without. The clients of the log have the settings of those of `streamfl score`.
"""

import sys

import numpy as np
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from streamfl.records.formats import FieldMap, record_format
from streamfl_connectors.kafka.hosts.scorer import POLLED


def main(bootstrap: str, topic: str, kind: str, messages: int, to: str, size: int, *, once: bool) -> None:
    form = record_format("json" if kind == "json" else "packed", FieldMap(task="unlabelled"))
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=to,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_poll_records=POLLED,
        metrics_enabled=False,
    )
    transactional = {"transactional_id": to, "retry_backoff_ms": 2} if once else {}
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=0, batch_size=256 * 1024, metrics_enabled=False, **transactional
    )
    if once:
        producer.init_transactions()
    consumer.assign([TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())])
    print("ready", flush=True)
    answer, read = b'{"answer":"%s"}' % (b"." * (size - 13)), 0
    while read < messages:
        polled = consumer.poll(timeout_ms=100)
        if not polled:
            continue
        if once:
            producer.begin_transaction()
        for found in polled.values():
            decoded = form.decode([message.offset for message in found], [message.value for message in found])
            rows = np.empty(decoded.X.shape, np.float32)
            rows[:] = decoded.X
            keys = {message.offset: message.key for message in found}
            for position in decoded.positions.tolist():
                producer.send(to, answer, key=keys[position // form.stride])
            read += len(found)
        producer.flush()
        after = {at: OffsetAndMetadata(found[-1].offset + 1, "", -1) for at, found in polled.items()}
        if once:
            producer.send_offsets_to_transaction(after, consumer.group_metadata())
            producer.commit_transaction()
        else:
            consumer.commit(after)
    producer.close()
    consumer.close()


if __name__ == "__main__":
    _, broker, asked, records, count, answers, length, times = sys.argv
    main(broker, asked, records, int(count), answers, int(length), once=times == "once")
