"""Fetches Apache Kafka's jars once, through Maven."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from deploy.broker.lock import locked
from deploy.broker.toolchain import REMEDY, maven
from streamfl.errors import UsageError

POM = Path(__file__).with_name("pom.xml")
PATIENCE = 600.0  # seconds; on a fast line it takes 6


def folder_of_jars(cache: Path) -> Path:
    """Return the folder of the jars of this `pom.xml`, whether or not they are fetched yet.

    Its name is a digest of the pom, and it appears with all jars at once: the cache is never incomplete.
    """
    return cache.resolve() / hashlib.sha256(POM.read_bytes()).hexdigest()[:12]


def fetched(cache: Path) -> Path:
    """Return the folder of the jars, and fetch them if they are missing. Several processes may do so at once.

    Parameters
    ----------
    cache
        The folder that keeps them, 43 MB.

    Raises
    ------
    UsageError
        If Maven is missing or cannot fetch them.
    """
    jars = folder_of_jars(cache)
    if not jars.is_dir():
        with locked(cache / "lock"):
            if not jars.is_dir():  # another process may have fetched them meanwhile
                _fetch(jars)
    return jars


def version(jars: Path) -> str:
    """Return the version of Apache Kafka among the jars."""
    return next(jars.glob("kafka-clients-*.jar")).stem.removeprefix("kafka-clients-")


def _fetch(jars: Path) -> None:
    partial = jars.with_name("partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a process that was killed
    partial.mkdir()
    pom = shutil.copy(POM, partial)
    _run(
        [
            *(maven(), "-q", "-B", "-Dstyle.color=never", "-f", str(pom)),
            *("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}"),
        ]
    )
    partial.rename(jars)


def _run(command: list[str]) -> None:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)  # noqa: S603  Maven, with words of ours
    except subprocess.TimeoutExpired:
        raise UsageError(f"Maven did not fetch Apache Kafka's jars within {PATIENCE:.0f} s. {REMEDY}") from None
    if ran.returncode != 0:
        output = "\n".join((ran.stdout + ran.stderr).strip().splitlines()[:3])
        raise UsageError(f"Maven could not fetch Apache Kafka's jars. {REMEDY} Its output:\n{output}")
