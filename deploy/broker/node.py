"""A broker: Apache Kafka as one child process, which is its own controller."""

import base64
import shutil
import subprocess
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from deploy.broker import jars
from deploy.broker.child import Child
from deploy.broker.lock import locked
from deploy.broker.ports import LOOPBACK, free_port, is_open, is_taken
from deploy.broker.properties import DATA, server_properties
from deploy.broker.secure import Security
from deploy.broker.toolchain import java
from streamfl.errors import UsageError

PATIENCE = 60.0  # seconds until it must have started; on two cores it takes 3
LINES_OF_LOG = 12  # in an error

ANOTHER = "stop what listens there, or name another port"


class Broker:
    """A broker on 127.0.0.1 with its data in a folder. Made by `start`; as a context manager it stops at the end.

    Attributes
    ----------
    bootstrap
        The address for clients: "127.0.0.1:PORT".
    folder
        The folder with `data`, `server.properties` and `broker.log`.
    version
        The version of Apache Kafka.
    security
        The certificates and the super user of a secure one; None: it lets anyone in.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        libs: Path,
        config: Mapping[str, str],
        client: Mapping[str, Any],
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.security: Security | None = None
        self.controller_port = free_port(besides=self.port)
        self.bootstrap = f"{LOOPBACK}:{self.port}"
        self.version = jars.version(libs)
        self._class_path = f"{Path(__file__).parent}:{libs}/*"
        self._config = config
        self._client = client
        self._child: Child | None = None
        self._held = ExitStack()

    @classmethod
    def start(
        cls,
        folder: Path,
        port: int = 0,
        *,
        libs: Path | None = None,
        config: Mapping[str, str] | None = None,
        client: Mapping[str, Any] | None = None,
        fresh: bool = False,
        secure: bool = False,
    ) -> Self:
        """Start a broker and return when it answers.

        Parameters
        ----------
        folder
            A folder of its own; data of an earlier run are used again.
        port
            The port for clients; 0 draws a free one.
        libs
            The folder of the jars, by default `libs` in `folder`. Missing jars are fetched.
        config
            Further properties of the broker.
        client
            Settings with which kafka-python reaches a broker with these properties.
        fresh
            Whether to delete the data first.
        secure
            Whether it asks everyone for a log-in, over TLS, and lets each do what it has rights to; `security` of the
            broker has what a client needs.

        Raises
        ------
        UsageError
            If the port or the folder is taken, Java or the jars are missing, or Kafka does not start; the error has
            the last lines of its log.
        """
        if port and is_taken(port):
            raise UsageError(f"port {port} of {LOOPBACK} is taken: {ANOTHER}")
        java()  # before the jars: if both are missing, the error is about Java
        broker = cls(folder, port, jars.fetched(libs or folder / "libs"), config or {}, client or {})
        try:
            broker._take_folder(fresh=fresh)
            if secure:
                broker._secure(port + 1 if port else free_port(besides=broker.port))
            broker._configure()
            broker.up()
        except BaseException:
            broker.stop()
            raise
        return broker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def up(self) -> None:
        """Start the process, on the same ports and data as before; return when it answers.

        Raises
        ------
        UsageError
            If it does not start.
        """
        if self._child is not None and self._child.is_alive():
            return
        self.down()  # clean up after a process that ended on its own
        self._child = Child(
            self._java("-Xmx512m", "kafka.Kafka", "server.properties"), folder=self.folder, log=self.log
        )
        try:
            self._wait_until_it_answers(self._child)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Stop the process; data and ports stay. A process that does not end within 15 s is killed."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def stop(self) -> None:
        """Stop, and free the folder for another broker."""
        self.down()
        self._held.close()

    def wait(self) -> None:
        """Wait until the process ends.

        Raises
        ------
        UsageError
            When it has ended on its own.
        """
        if self._child is not None:
            self._child.process.wait()
            raise self._error("has ended")

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return self.folder / DATA

    @property
    def log(self) -> Path:
        """The file with its warnings and errors since `start`."""
        return self.folder / "broker.log"

    def _take_folder(self, *, fresh: bool) -> None:
        try:
            self._held.enter_context(locked(self.folder / "lock", wait=False))
        except BlockingIOError:
            raise UsageError(f"another broker uses {self.folder}: stop it, or name another folder") from None
        if fresh and self.data.exists():
            shutil.rmtree(self.data)
        self.log.unlink(missing_ok=True)

    def _secure(self, port: int) -> None:
        if is_taken(port):
            raise UsageError(f"port {port} of {LOOPBACK} is taken, and log-ins by certificate need it: {ANOTHER}")
        self.security = Security(self.folder, port)
        self.security.write_tools(java(), self._class_path)
        self._config = {**self.security.server(self.port, self.controller_port), **self._config}
        self._client = {**self.security.admin, **self._client}

    def _configure(self) -> None:
        properties = server_properties(self.port, self.controller_port, self._config)
        (self.folder / "server.properties").write_text(properties)
        if not self._identity.exists():
            self._format()

    def _format(self) -> None:
        # Kafka's tools take an id that begins with a dash for an option; after an = they do not.
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        format_it = self._java(
            "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", "server.properties"
        )
        with self.log.open("wb") as output:
            done = subprocess.run(format_it, cwd=self.folder, stdout=output, stderr=output, check=False)  # noqa: S603  Java, with words of ours
        if done.returncode != 0:
            raise self._error("could not make its data folder")

    def _java(self, *words: str) -> list[str]:
        return [java(), "-Djava.awt.headless=true", "-cp", self._class_path, *words]

    def _wait_until_it_answers(self, child: Child) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_open(self.port):
            if not child.is_alive():
                raise self._error("did not start")
            if time.monotonic() > deadline:
                raise self._error(f"did not open its port within {PATIENCE:.0f} s")
            time.sleep(0.05)
        try:
            with KafkaAdminClient(**{"bootstrap_servers": self.bootstrap, **self._client}) as admin:
                cluster = admin.describe_cluster()["cluster_id"]
        except KafkaError as error:
            raise self._error(f"does not answer a client ({error!r})") from error
        # Another broker on the port would also answer: the cluster's id shows whether it is this one.
        if not child.is_alive() or cluster != self._cluster():
            raise self._error(f"did not start; another broker answers on port {self.port}")

    @property
    def _identity(self) -> Path:
        return self.data / "meta.properties"

    def _cluster(self) -> str:
        lines = self._identity.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)["cluster.id"]

    def _error(self, what: str) -> UsageError:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        kept = [line for line in lines if not line.startswith("\tat ")]  # a stack trace would push out the messages
        return UsageError("\n  ".join([f"Apache Kafka {what}. The last lines of {self.log}:", *kept[-LINES_OF_LOG:]]))
