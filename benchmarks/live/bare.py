"""The bare consumer: polls, decodes, fills a float32 matrix; no federation.

    python benchmarks/live/bare.py BOOTSTRAP PREFIX json|packed RECORDS

reads all topics whose names begin with PREFIX and prints JSON: records, seconds from the first poll to the last row,
and seconds of CPU.
"""

import json
import sys
import time

import numpy as np
from kafka import KafkaConsumer, TopicPartition

from streamfl.records.formats import FieldMap, record_format


def main(bootstrap: str, prefix: str, kind: str, records: int) -> None:
    form = record_format("json" if kind == "json" else "packed", FieldMap())
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest", max_poll_records=5000
    )
    topics = sorted(topic for topic in consumer.topics() if topic.startswith(prefix))
    consumer.assign([TopicPartition(topic, 0) for topic in topics])
    rows = np.empty((records, 54), np.float32)
    answers = np.empty(records, np.int64)
    at, began = 0, time.perf_counter()
    while at < records:
        for found in consumer.poll(timeout_ms=500).values():
            valued = [message for message in found if message.value is not None]  # the end mark has no value
            decoded = form.decode([message.offset for message in valued], [message.value for message in valued])
            n = len(decoded.y)
            rows[at : at + n] = decoded.X
            answers[at : at + n] = decoded.y
            at += n
    seconds = time.perf_counter() - began
    print(json.dumps({"records": at, "seconds": seconds, "cpu": time.process_time()}))
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
