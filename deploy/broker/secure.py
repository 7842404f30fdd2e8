"""A broker that trusts nobody: TLS everywhere, log-ins by password or certificate, and rights for each."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.broker.authority import Authority
from deploy.broker.ports import LOOPBACK

TLS = "tls"  # relative to the broker's folder, as its own paths are

# Kafka's tools that a distribution has as scripts, and their classes among the jars.
TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}


class Security:
    """What a secure broker has and another has not: certificates, a second listener, a super user, Kafka's own tools.

    Clients log in with SCRAM-SHA-256 at the broker's port, and with a certificate at the second one, where the common
    name is the user's. The super user is `admin`, by a certificate: so there is no password before the first user.

    Attributes
    ----------
    bootstrap
        The address for clients with certificates.
    authority
        Issues certificates; both sides trust these alone.
    admin
        The settings with which kafka-python is the super user.
    properties
        The file with the same for Kafka's own tools.
    tools
        The folder of these tools.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.bootstrap = f"{LOOPBACK}:{port}"
        self.properties = folder.resolve() / "admin.properties"
        self.tools = folder.resolve() / "bin"
        self.authority = Authority(folder.resolve() / TLS)
        key = self.authority.issue("admin")
        self.authority.issue("broker")
        self.admin: Mapping[str, Any] = {"bootstrap_servers": self.bootstrap, **self.client(key)}
        certified = {"security.protocol": "SSL", **_tls(self.authority.certificate, key)}
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in certified.items()))

    def client(self, key: Path) -> dict[str, str]:
        """Return the settings with which kafka-python logs in with a certificate."""
        return {
            "security_protocol": "SSL",
            "ssl_cafile": str(self.authority.certificate),
            "ssl_certfile": str(key),
        }

    def server(self, client_port: int, controller_port: int) -> dict[str, str]:
        """Return the broker's properties."""
        ports = {"CLIENT": client_port, "MUTUAL": self.port, "CONTROLLER": controller_port}
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {
            "listeners": ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in ports.items()),
            "listener.security.protocol.map": "CLIENT:SASL_SSL,MUTUAL:SSL,CONTROLLER:SSL",
            # The node speaks with itself by its certificate: no listener lets anyone in without a name.
            "inter.broker.listener.name": "MUTUAL",
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.client.scram-sha-256.sasl.jaas.config": scram,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin;User:broker",
            **_tls(Path(TLS, "ca.pem"), Path(TLS, "broker.pem")),
        }

    def write_tools(self, java: str, class_path: str) -> None:
        """Write scripts that run Kafka's own tools, by the names that a distribution gives them."""
        self.tools.mkdir(exist_ok=True)
        for name, main in TOOLS.items():
            path = self.tools / name
            path.write_text(f'#!/bin/sh\nexec {shlex.join([java, "-cp", class_path, main])} "$@"\n')
            path.chmod(0o755)


def _tls(trusted: Path, key: Path) -> dict[str, str]:
    return {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key),
    }
