"""Where clients' own model files lie, and whether there are any."""

from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from streamfl.errors import UsageError
from streamfl.learning.model import Task
from streamfl.run.settings import LearningSettings

# The longest name of a file for a client, without its ending: file systems take 255 bytes.
LONGEST_NAME = 200


def own_file(folder: Path, client: str) -> Path:
    """Return the place of a client's own file: it has the client's name, or if that is too long its digest.

    >>> own_file(Path("own"), "site=east/3").name
    'site=east%2F3.safetensors'
    """
    name = quote(client, safe="= ")
    return folder / f"{name if len(name) <= LONGEST_NAME else sha256(client.encode()).hexdigest()}.safetensors"


def check_own_files(folder: Path, learning: LearningSettings, task: Task) -> None:
    """Check that clients have something of their own, and that their files can be written to a folder.

    Raises
    ------
    UsageError
        They have nothing, or there is no such folder.
    """
    if learning.external_model(task) is not None or learning.features == "rounds":
        what = "a client has models of its own only with features linear, ferns or auto"
        raise UsageError(f"--own-models-out {folder}: {what}; leave it out")
    if not folder.is_dir():
        raise UsageError(f"--own-models-out {folder}: there is no such folder; make it")
