"""Apache Kafka's jars, fetched once through Maven."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from deploy.broker.lock import locked
from deploy.broker.toolchain import REMEDY, maven
from streamfl.core.errors import UsageError

POM = Path(__file__).with_name("pom.xml")
PATIENCE = 600.0  # seconds; on a fast line it takes 6


def folder_of_jars(cache: Path) -> Path:
    """Return where the jars of this `pom.xml` are, once they have been fetched.

    The folder is named by what the pom says and appears with all its jars at once: there is no half of a cache.
    """
    return cache.resolve() / hashlib.sha256(POM.read_bytes()).hexdigest()[:12]


def fetched(cache: Path) -> Path:
    """Return the folder of the jars; fetch them if they are not there. Several processes may do so at once.

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
            if not jars.is_dir():  # another process may have fetched them while we waited
                _fetch(jars)
    return jars


def version(jars: Path) -> str:
    """Return the version of Apache Kafka among the jars."""
    return next(jars.glob("kafka-clients-*.jar")).stem.removeprefix("kafka-clients-")


def _fetch(jars: Path) -> None:
    partial = jars.with_name("partial")
    shutil.rmtree(partial, ignore_errors=True)  # of one that was killed
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
        said = "\n".join((ran.stdout + ran.stderr).strip().splitlines()[:3])
        raise UsageError(f"Maven could not fetch Apache Kafka's jars. {REMEDY} It said:\n{said}")
