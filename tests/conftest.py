"""Where tests find one another's federations, and how hard hypothesis tries."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("streamfl", deadline=None, derandomize=True)
settings.load_profile("streamfl")
