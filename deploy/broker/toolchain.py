"""Finds Java and Maven on this machine."""

import re
import shutil
import subprocess

from streamfl.errors import UsageError

OLDEST_JAVA = 17
REMEDY = "Install Java 17 and Maven, or let the tests use another broker: STREAMFL_TEST_BOOTSTRAP=HOST:PORT."


def java() -> str:
    """Return the path of a Java that runs Apache Kafka.

    Raises
    ------
    UsageError
        If there is none, or it is too old.
    """
    path = shutil.which("java")
    # Some systems have a `java` that only says that Java is not installed: its version shows whether it works.
    version = None if path is None else _java_version(path)
    if path is None or version is None:
        raise UsageError(f"Apache Kafka needs Java {OLDEST_JAVA}; there is no working `java` on the PATH. {REMEDY}")
    if version < OLDEST_JAVA:
        raise UsageError(f"Apache Kafka needs Java {OLDEST_JAVA} or later; {path} is Java {version}. {REMEDY}")
    return path


def maven() -> str:
    """Return the path of Maven.

    Raises
    ------
    UsageError
        If there is none.
    """
    path = shutil.which("mvn")
    if path is None:
        raise UsageError(f"Apache Kafka's jars are fetched by Maven; there is no `mvn` on the PATH. {REMEDY}")
    return path


def _java_version(path: str) -> int | None:
    ran = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)  # noqa: S603  found on the PATH
    version = re.search(r'version "(\d+)', ran.stderr)
    return int(version[1]) if version else None
