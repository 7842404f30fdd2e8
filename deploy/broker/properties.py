"""The `server.properties` of a single node on loopback."""

from collections.abc import Mapping

from deploy.broker.ports import LOOPBACK

DATA = "data"  # relative to the broker's folder: a comma or an umlaut in the absolute path would do harm


def server_properties(port: int, controller_port: int, config: Mapping[str, str]) -> str:
    """Return the text of the file.

    Parameters
    ----------
    port, controller_port
        The port for clients, and the port for the node's own controller.
    config
        Properties that are added to those here or replace them. The clients' listener is named CLIENT.
    """
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        # Not `controller.quorum.bootstrap.servers`: that keeps the port in the data, and the next run has another.
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "listeners": f"CLIENT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENT",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": DATA,
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "true",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        # By default these take seconds, which every test would pay.
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "log.cleaner.backoff.ms": "500",
        **config,
    }
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
